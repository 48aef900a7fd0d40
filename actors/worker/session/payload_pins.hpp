// How far a session's log is no longer needed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace vgpu {

/// Tells how far a log is no longer needed while devices still copy payloads
/// out of it. Thread-safe.
class payload_pins {
public:
  /// Holds the payload of the call at this place until the result is dropped.
  /// `owner` is dropped with it.
  static std::shared_ptr<const void> pin(std::shared_ptr<payload_pins> self,
                                         std::uint64_t position,
                                         std::shared_ptr<const void> owner);

  /// Notes that everything before `position` was executed, payloads perhaps
  /// excepted. Returns the position before which nothing is needed any more.
  std::uint64_t advance(std::uint64_t position);

private:
  std::mutex lock_;
  std::multiset<std::uint64_t> held_;
  std::uint64_t position_ = 0;
};

} // namespace vgpu
