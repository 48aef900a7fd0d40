#include "actors/worker/session/session_account.hpp"

#include <algorithm>
#include <optional>

namespace vgpu {

namespace {

/// Adds to a counter that one thread writes and others read.
void grow(std::atomic<std::uint64_t>& x, std::uint64_t by) {
  x.store(x.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

} // namespace

// -- time ---------------------------------------------------------------------

std::chrono::nanoseconds session_account::device_time() const {
  auto out = gates_.charged();
  for (const auto& x : devices_)
    out += x.meter->busy();
  return out;
}

std::vector<std::chrono::nanoseconds> session_account::device_times() const {
  std::vector<std::chrono::nanoseconds> out;
  for (const auto& x : devices_)
    out.push_back(gates_.charged(x.ordinal) + x.meter->busy());
  return out;
}

std::chrono::nanoseconds session_account::worked() const {
  auto out = gates_.charged();
  for (const auto& x : devices_)
    out += x.meter->worked();
  return out;
}

void session_account::charge_apart(std::chrono::nanoseconds time) {
  apart_->ns += static_cast<std::uint64_t>(time.count());
}

void session_account::begin_recovery() {
  if (recovers_)
    return;
  recovers_ = true;
  apart_->recovering = devices_.size();
}

void session_account::end_recovery() {
  if (!recovers_)
    return;
  recovers_ = false;
  for (const auto& x : devices_) {
    auto idle = x.host_meter ? x.host_meter->proof(std::nullopt)
                             : work_meter::done_mark{};
    x.device->when_done(
        std::nullopt,
        [idle, meter = x.meter, times = x.can.timing, of = apart_](CUresult) {
          idle();
          if (times != nullptr)
            times->settle_times();
          of->ns += static_cast<std::uint64_t>(meter->busy().count());
          --of->recovering;
        });
  }
}

// -- bytes --------------------------------------------------------------------

void session_account::count(const call_traffic& x) {
  if (recovers_)
    return grow(replayed_, x.to_device + x.from_device);
  grow(to_device_, x.to_device);
  grow(from_device_, x.from_device);
}

control::usage session_account::traffic() const {
  control::usage out;
  out.to_device = to_device_.load(std::memory_order_relaxed);
  out.from_device = from_device_.load(std::memory_order_relaxed);
  out.replay_bytes = replayed_.load(std::memory_order_relaxed);
  return out;
}

control::usage session_account::used() const {
  // The time apart is read first, because the rest may only grow meanwhile.
  auto recovering = apart_->recovering.load() != 0;
  auto apart = apart_->ns.load();
  auto all = static_cast<std::uint64_t>(device_time().count());
  auto out = traffic();
  out.replay_ns = recovering ? all : std::min(apart, all);
  out.device_ns = all - out.replay_ns;
  return out;
}

// -- memory -------------------------------------------------------------------

void session_account::measure_side_memory() {
  control::side_memory sum{0, 0, 0};
  auto add = [](std::int64_t& to, const std::optional<std::uint64_t>& x) {
    to = to < 0 || !x ? -1 : to + static_cast<std::int64_t>(*x);
  };
  for (const auto& x : devices_) {
    auto one = x.device->beside();
    add(sum.variables, one.variables);
    add(sum.code, one.code);
    add(sum.context, one.context);
  }
  variables_ = sum.variables;
  code_ = sum.code;
  context_ = sum.context;
}

control::side_memory session_account::side_memory() const noexcept {
  // The driver has moved all of it to the host.
  if (is_off_devices_)
    return {0, 0, 0};
  return {variables_, code_, context_};
}

} // namespace vgpu
