// What came by one of two connections before what was sent ahead of it by the
// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace vgpu {

/// Keeps what came too early until what is missing has come, by where it begins
/// in the order in which all was sent. What a peer can make it keep is bounded.
/// One thread's.
template <class T>
class reorder_buffer {
public:
  static constexpr std::size_t most_bytes = std::size_t{96} << 20;
  static constexpr std::size_t most = std::size_t{1} << 14;

  /// False when it is too much: then nothing more is kept, and all of it has
  /// to be sent again.
  bool keep(std::uint64_t at, std::size_t bytes, T what) {
    if (bytes > most_bytes - bytes_ || kept_.size() == most) {
      clear();
      return false;
    }
    if (kept_.try_emplace(at, bytes, std::move(what)).second)
      bytes_ += bytes;
    return true;
  }

  /// The first of them, if nothing is missing before it any more, where all
  /// before `next` has come.
  std::optional<T> take(std::uint64_t next) {
    auto first = kept_.begin();
    if (first == kept_.end() || first->first > next)
      return std::nullopt;
    std::optional<T> out{std::move(first->second.second)};
    bytes_ -= first->second.first;
    kept_.erase(first);
    return out;
  }

  void clear() {
    kept_.clear();
    bytes_ = 0;
  }

  /// In their order.
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
