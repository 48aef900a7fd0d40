// How busy each of a session's devices was of late, for who watches it.
#pragma once

#include "schema/log/session_area.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu {

/// Percents of the last half second to second, and where the program's side
/// finds them. Thread-safe.
class busy_meter {
public:
  using clock = std::chrono::steady_clock;
  using times = std::vector<std::chrono::nanoseconds>;

  /// Where it is read until forget() how long each device has worked, ever.
  void watch(std::function<times()> read);
  void forget();

  /// A log that this process maps, in which it is shown; null: in none.
  void show(std::shared_ptr<const session_area> in);

  /// To be called several times a second.
  void look(clock::time_point now = clock::now());

  /// Of each device, as of the last look.
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
  sample older_, newer_; // a window apart
  std::vector<std::uint8_t> percents_;
};

} // namespace vgpu
