// The clock by which a tool wants times.
#pragma once

#include "interposer/cupti/cupti_abi.hpp"

#include <cstdint>

#include <time.h>

namespace vgpu::cupti {

/// Turns times of the host's clock into times of the tool's own, which may run
/// at any steady rate. It reads both when it is set and before each use. Not
/// thread-safe.
class tool_clock {
public:
  static std::uint64_t host_now() noexcept {
    timespec x{};
    ::clock_gettime(CLOCK_REALTIME, &x);
    return static_cast<std::uint64_t>(x.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(x.tv_nsec);
  }

  void set(read_clock clock) noexcept {
    read_ = clock;
    first_ = last_ = now();
  }
  bool is_set() const noexcept { return read_ != nullptr; }
  std::uint64_t read() const noexcept {
    return read_ != nullptr ? read_() : host_now();
  }

  /// Reads both clocks, for the next conversions.
  void learn() noexcept {
    if (read_ != nullptr)
      last_ = now();
  }
  std::uint64_t of(std::uint64_t host) const noexcept {
    if (read_ == nullptr || host == 0)
      return host;
    auto host_span = static_cast<double>(last_.host - first_.host);
    auto own_span = static_cast<double>(last_.own - first_.own);
    auto rate = host_span > 0 ? own_span / host_span : 1.0;
    auto since = static_cast<double>(static_cast<std::int64_t>(host) -
                                     static_cast<std::int64_t>(first_.host));
    return first_.own +
           static_cast<std::uint64_t>(static_cast<std::int64_t>(since * rate));
  }

private:
  struct pair {
    std::uint64_t host = 0, own = 0;
  };
  pair now() const noexcept {
    return read_ != nullptr ? pair{host_now(), read_()} : pair{};
  }

  read_clock read_ = nullptr;
  pair first_, last_;
};

} // namespace vgpu::cupti
