#include "actors/compute/usage_meter.hpp"

namespace vgpu {

namespace {

std::uint64_t busy(const control::usage& x) {
  return x.device_ns + x.replay_ns;
}

} // namespace

void usage_meter::watch(std::function<reading()> read) {
  std::lock_guard guard{lock_};
  read_ = std::move(read);
  looked_ = active_ = clock::now();
}

void usage_meter::forget() {
  std::lock_guard guard{lock_};
  look_at(clock::now());
  read_ = nullptr;
}

void usage_meter::look() {
  std::lock_guard guard{lock_};
  look_at(clock::now());
}

void usage_meter::look_at(clock::time_point now) {
  if (!read_)
    return;
  auto seen = read_();
  using nanoseconds = std::chrono::nanoseconds;
  auto span = std::chrono::duration_cast<nanoseconds>(now - looked_).count();
  byte_ns_ += static_cast<decltype(byte_ns_)>(last_.memory) *
              static_cast<std::uint64_t>(span);
  constexpr std::uint64_t byte_ns_of_kib_ms = 1024 * 1'000'000ull;
  used_ = seen.used;
  used_.to_device = to_device_.load(std::memory_order_relaxed);
  used_.from_device = from_device_.load(std::memory_order_relaxed);
  used_.replay_bytes = replayed_.load(std::memory_order_relaxed);
  used_.memory_kib_ms =
      static_cast<std::uint64_t>(byte_ns_ / byte_ns_of_kib_ms);
  if (seen.calls != last_.calls || busy(seen.used) != busy(last_.used))
    active_ = now;
  last_ = seen;
  looked_ = now;
  if (page_)
    page_->write(used_);
}

void usage_meter::charge(const control::usage& traffic) noexcept {
  to_device_.store(traffic.to_device, std::memory_order_relaxed);
  from_device_.store(traffic.from_device, std::memory_order_relaxed);
  replayed_.store(traffic.replay_bytes, std::memory_order_relaxed);
  if (page_)
    page_->write_traffic(traffic);
}

control::usage usage_meter::used() const {
  std::lock_guard guard{lock_};
  return used_;
}

std::chrono::nanoseconds usage_meter::worked() const {
  std::lock_guard guard{lock_};
  return last_.worked;
}

std::chrono::milliseconds usage_meter::idle() const {
  std::lock_guard guard{lock_};
  return std::chrono::duration_cast<std::chrono::milliseconds>(looked_ -
                                                               active_);
}

} // namespace vgpu
