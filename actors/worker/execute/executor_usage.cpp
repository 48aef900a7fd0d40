// What a session used of its devices, and what of that is charged.
#include "actors/worker/execute/executor_shared.hpp"

#include <algorithm>
#include <optional>

namespace vgpu {

namespace {

/// One thread counts, others read.
void grow(std::atomic<std::uint64_t>& x, std::uint64_t by) {
  x.store(x.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

} // namespace

void executor::look_beside() {
  control::side_memory sum{0, 0, 0};
  auto add = [](std::int64_t& to, const std::optional<std::uint64_t>& x) {
    to = to < 0 || !x ? -1 : to + static_cast<std::int64_t>(*x);
  };
  for (const auto& x : devices_) {
    auto one = x->beside();
    add(sum.variables, one.variables);
    add(sum.code, one.code);
    add(sum.context, one.context);
  }
  variables_ = sum.variables;
  code_ = sum.code;
  context_ = sum.context;
}

control::side_memory executor::beside() const noexcept {
  // Its driver has put all of it on the host.
  if (aside_)
    return {0, 0, 0};
  return {variables_, code_, context_};
}

void executor::count(const call_traffic& x) {
  if (recovers_)
    return grow(replayed_, x.to_device + x.from_device);
  grow(to_device_, x.to_device);
  grow(from_device_, x.from_device);
}

std::chrono::nanoseconds executor::device_time() const {
  auto out = gates_.charged();
  for (const auto* x : meters_)
    out += x->busy();
  return out;
}

std::vector<std::chrono::nanoseconds> executor::device_times() const {
  std::vector<std::chrono::nanoseconds> out;
  for (std::size_t i = 0; i < meters_.size(); ++i)
    out.push_back(gates_.charged(i) + meters_[i]->busy());
  return out;
}

std::chrono::nanoseconds executor::worked() const {
  auto out = gates_.charged();
  for (const auto* x : meters_)
    out += x->worked();
  return out;
}

control::usage executor::used() const {
  // The account of what is set apart first: it may only grow meanwhile.
  auto going = recovery_->going.load() != 0;
  auto apart = recovery_->apart.load();
  auto all = static_cast<std::uint64_t>(device_time().count());
  auto out = traffic();
  out.replay_ns = going ? all : std::min(apart, all);
  out.device_ns = all - out.replay_ns;
  return out;
}

control::usage executor::traffic() const {
  control::usage out;
  out.to_device = to_device_.load(std::memory_order_relaxed);
  out.from_device = from_device_.load(std::memory_order_relaxed);
  out.replay_bytes = replayed_.load(std::memory_order_relaxed);
  return out;
}

void executor::begin_recovery() {
  if (recovers_)
    return;
  recovers_ = true;
  recovery_->going = devices_.size();
}

void executor::end_recovery() {
  if (!recovers_)
    return;
  recovers_ = false;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    auto idle = work_meters_[i] ? work_meters_[i]->proof(std::nullopt)
                                : work_meter::done_mark{};
    devices_[i]->when_done(std::nullopt, [idle, meter = meters_[i],
                                          times = timing_units_[i],
                                          of = recovery_](CUresult) {
      idle();
      if (times != nullptr)
        times->settle_times();
      of->apart += static_cast<std::uint64_t>(meter->busy().count());
      --of->going;
    });
  }
}

void executor::charge_apart(std::chrono::nanoseconds time) {
  recovery_->apart += static_cast<std::uint64_t>(time.count());
}

void executor::rest() {
  gates_.rest();
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (work_meters_[i] && work_meters_[i]->unseen())
      devices_[i]->when_done(
          std::nullopt,
          [idle = work_meters_[i]->proof(std::nullopt)](CUresult) { idle(); });
}

} // namespace vgpu
