// The times of CUDA events across migrations. While a session is checkpointed,
// the time of its events stands still.
#pragma once

#include "devices/interface/device.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <map>
#include <span>
#include <unordered_map>
#include <vector>

namespace vgpu {

/// Describes the record of an event: how long before the state was taken it
/// happened.
struct event_time {
  event_id event;
  double milliseconds = 0;
  /// Tells whether the event keeps a time.
  bool timed = true;
};

/// Keeps the times of one device's events. Not thread-safe.
class event_times {
public:
  /// Records that an event was created.
  void created(event_id x, bool timed) { events_[x] = {timed, false}; }
  /// Records that an event was recorded on the device.
  void recorded(event_id x);
  /// Forgets an event.
  void destroyed(event_id x);

  /// Returns the milliseconds between two completed records, on whichever
  /// devices they were made.
  result<float> elapsed(device::device& on, event_id from, event_id to);

  /// Returns the records of all recorded events. The device must be idle. Waits
  /// for it briefly.
  result<std::vector<event_time>> capture(device::device& on);
  /// Restores the records, after the events were created again.
  status restore(device::device& on, std::span<const event_time> past);

private:
  struct known {
    bool timed = true;
    bool recorded = false;
  };

  /// Returns how many milliseconds before `now` each event was recorded that
  /// this device timed, and the anchor of those that were restored.
  result<std::map<event_id, double>> before_now(device::device& on,
                                                event_id now);

  std::unordered_map<event_id, known> events_;
  /// Holds the restored events that were not recorded since.
  std::map<event_id, event_time> past_;
  bool anchored_ = false;
};

} // namespace vgpu
