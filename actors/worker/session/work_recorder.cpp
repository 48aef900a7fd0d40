#include "actors/worker/session/work_recorder.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace vgpu {

namespace {

std::uint64_t ns_of(device::work_span::clock::time_point x) {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(
      duration_cast<nanoseconds>(x.time_since_epoch()).count());
}

} // namespace

void work_recorder::receive(call_number call) {
  if (received_at_ != clock::time_point{} && received_.value == call.value)
    return;
  received_ = call;
  received_at_ = clock::now();
}

std::shared_ptr<device::work_span> work_recorder::follow(std::size_t ordinal,
                                                         call_number call) {
  auto submitted = clock::now();
  receive(call);
  work_times base;
  base.call = call.value;
  base.received = ns_of(std::min(received_at_, submitted));
  base.submitted = ns_of(submitted);
  base.device = static_cast<std::uint32_t>(ordinal);
  return std::make_shared<device::work_span>(
      [to = to_, base](const device::work_span::times& x) {
        // A device's clock is known less exactly than how long the work took,
        // so work that seems to begin before the device got it is told later.
        auto out = base;
        auto began = ns_of(x.began);
        auto late = out.submitted > began ? out.submitted - began : 0;
        out.began = began + late;
        out.ended = std::max(out.began, ns_of(x.ended) + late);
        out.reached = std::clamp(ns_of(x.reached), out.submitted, out.began);
        to->tell(out);
      });
}

work_recorder::traced::traced(work_recorder& by, device::trace_unit* unit,
                              std::size_t ordinal, call_number call) {
  if (!by.on_ || unit == nullptr) [[likely]]
    return;
  unit_ = unit;
  span_ = by.follow(ordinal, call);
  unit_->trace(span_);
}

work_recorder::traced::~traced() {
  if (!span_) [[likely]]
    return;
  unit_->trace(nullptr);
  span_->close();
}

} // namespace vgpu
