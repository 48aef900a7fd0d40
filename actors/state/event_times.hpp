// When events were recorded: on the device, or on the one that the session was
// on before. While a session stands still, so does the time of its events.
#pragma once

#include "devices/interface/device.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <map>
#include <span>
#include <unordered_map>
#include <vector>

namespace vgpu {

/// An event that was recorded, so long before its state was taken.
struct event_time {
  event_id event;
  double milliseconds = 0;
  bool timed = true; // else it keeps no time
};

/// Of one device; one thread.
class event_times {
public:
  void created(event_id x, bool timed) { events_[x] = {timed, false}; }
  void recorded(event_id x);
  void destroyed(event_id x);

  /// Milliseconds between two completed records, wherever they were made.
  result<float> elapsed(device::device& on, event_id from, event_id to);

  /// The recorded ones. Only while the device is idle; waits for it shortly.
  result<std::vector<event_time>> capture(device::device& on);
  /// After the events were created again.
  status restore(device::device& on, std::span<const event_time> past);

private:
  struct known {
    bool timed = true;
    bool recorded = false;
  };

  result<double> before_now(device::device& on, event_id x, event_id now);

  std::unordered_map<event_id, known> events_;
  std::map<event_id, event_time> past_; // not recorded since
  bool anchored_ = false;
};

} // namespace vgpu
