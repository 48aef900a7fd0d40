// Tells a traced program when its work was executed.
#pragma once

#include "actors/worker/session/console_output.hpp"
#include "devices/interface/trace_unit.hpp"
#include "schema/base/ids.hpp"

#include <cstddef>
#include <memory>

namespace vgpu {

/// Follows the session's work while the program is traced, and tells the times
/// of each call's work before anybody learns that the work is done. A replay
/// tells them again; the program keeps the first ones. The executor's thread
/// uses it.
class work_recorder {
public:
  explicit work_recorder(std::shared_ptr<console_output> to)
      : to_(std::move(to)) {}

  /// Begins or ends tracing, for the calls from now on.
  void record(bool on) noexcept { on_ = on; }
  bool is_on() const noexcept { return on_; }

  /// Notes when the call was received. A call that waits for its turn is
  /// received again; the first time counts.
  void receive(call_number call);

  /// Lets the device trace what is enqueued during its life. It does nothing
  /// for a device without such a unit, and while nothing is traced.
  class traced {
  public:
    traced(work_recorder& by, device::trace_unit* unit, std::size_t ordinal,
           call_number call);
    traced(const traced&) = delete;
    traced& operator=(const traced&) = delete;
    ~traced();

  private:
    device::trace_unit* unit_ = nullptr;
    std::shared_ptr<device::work_span> span_;
  };

private:
  using clock = device::work_span::clock;

  std::shared_ptr<device::work_span> follow(std::size_t ordinal,
                                            call_number call);

  std::shared_ptr<console_output> to_;
  bool on_ = false;
  call_number received_{};
  clock::time_point received_at_{};
};

} // namespace vgpu
