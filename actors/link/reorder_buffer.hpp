// Puts messages that arrive by two connections back into the order in which
// they were sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace vgpu {

/// Keeps messages that arrived too early until the missing ones have arrived.
/// The key is a message's position in the order of sending. Limits bound what a
/// peer can make it keep. Not thread-safe.
template <class T>
class reorder_buffer {
public:
  static constexpr std::size_t most_bytes = std::size_t{96} << 20;
  static constexpr std::size_t most = std::size_t{1} << 14;

  /// Keeps `what`, which begins at position `at`. Returns false when it would
  /// exceed a limit; the buffer then drops everything, and the peer must send
  /// all of it again.
  bool keep(std::uint64_t at, std::size_t bytes, T what) {
    if (bytes > most_bytes - bytes_ || kept_.size() == most) {
      clear();
      return false;
    }
    if (kept_.try_emplace(at, bytes, std::move(what)).second)
      bytes_ += bytes;
    return true;
  }

  /// Returns the first message if it begins at or before `next`, so that
  /// nothing before it is missing.
  std::optional<T> take(std::uint64_t next) {
    auto first = kept_.begin();
    if (first == kept_.end() || first->first > next)
      return std::nullopt;
    std::optional<T> out{std::move(first->second.second)};
    bytes_ -= first->second.first;
    kept_.erase(first);
    return out;
  }

  /// Drops everything.
  void clear() {
    kept_.clear();
    bytes_ = 0;
  }

  /// Calls `f` with each message in order.
  template <class F>
  void each(const F& f) const {
    for (const auto& [at, what] : kept_)
      f(what.second);
  }

private:
  std::map<std::uint64_t, std::pair<std::size_t, T>> kept_;
  std::size_t bytes_ = 0;
};

} // namespace vgpu
