// The position before which a session's log is not needed any more.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace vgpu {

/// Computes that position while devices still copy payloads out of the log.
/// Thread-safe.
class payload_pins {
public:
  /// Keeps the payload of the call at this position until the result is
  /// dropped, and `owner` with it.
  static std::shared_ptr<const void> pin(std::shared_ptr<payload_pins> self,
                                         std::uint64_t position,
                                         std::shared_ptr<const void> owner);

  /// Records that all calls before `position` were executed, whose payloads may
  /// still be copied. Returns the position before which nothing is needed any
  /// more.
  std::uint64_t advance(std::uint64_t position);

private:
  std::mutex lock_;
  std::multiset<std::uint64_t> held_;
  std::uint64_t position_ = 0;
};

} // namespace vgpu
