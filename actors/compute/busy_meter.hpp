// The recent utilisation of each of a session's devices.
#pragma once

#include "schema/log/session_area.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu {

/// Computes each device's utilisation over the last half second to second, in
/// percent, and shows it to the program. Thread-safe.
class busy_meter {
public:
  using clock = std::chrono::steady_clock;
  using times = std::vector<std::chrono::nanoseconds>;

  /// Sets the source, until forget(): `read` returns the total time that each
  /// device has worked.
  void watch(std::function<times()> read);
  /// Drops the source.
  void forget();

  /// Sets the session's log in which the percents are shown, or null for none.
  void show(std::shared_ptr<const session_area> in);

  /// Takes a sample. Call it several times a second.
  void look(clock::time_point now = clock::now());

  /// Returns each device's percents as of the last look().
  std::vector<std::uint8_t> percents() const;

private:
  static constexpr std::chrono::milliseconds window{500};
  struct sample {
    clock::time_point at;
    times worked;
  };

  mutable std::mutex lock_;
  std::function<times()> read_;
  std::shared_ptr<const session_area> shown_;
  /// Are samples of the device times, about one window apart.
  sample older_, newer_;
  std::vector<std::uint8_t> percents_;
};

} // namespace vgpu
