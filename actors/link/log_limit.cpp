#include "actors/link/log_limit.hpp"

#include <utility>

namespace vgpu {

std::optional<std::uint64_t> log_limit::admits(const std::string& peer,
                                               clock::time_point now) {
  if (now - began_ >= span) {
    began_ = now;
    logged_ = 0;
    by_peer_.clear();
  }
  // A peer gets an entry only with a line, which bounds them.
  auto known = by_peer_.find(peer);
  auto full = logged_ >= most_of_all ||
              (known != by_peer_.end() && known->second >= most_of_one);
  if (full) {
    ++suppressed_;
    return std::nullopt;
  }
  ++logged_;
  ++by_peer_[peer];
  return std::exchange(suppressed_, 0);
}

std::string note_suppressed(std::uint64_t lines) {
  return lines == 0 ? std::string{}
                    : " (" + std::to_string(lines) +
                          " such lines before it were suppressed)";
}

} // namespace vgpu
