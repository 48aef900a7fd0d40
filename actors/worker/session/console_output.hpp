// Text that kernels print.
#pragma once

#include "actors/worker/session/answers.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

namespace vgpu {

/// Gives each text that a kernel prints its position in all the session's text.
/// Thread-safe.
class console_output {
public:
  /// Holds the byte positions of a session's consoles.
  using positions = std::array<std::uint64_t, console_count>;

  /// Prints to this sink from now on.
  void print_to(std::shared_ptr<answer_sink> sink) {
    std::lock_guard guard{lock_};
    sink_ = std::move(sink);
  }

  void print(console where, std::string_view text) {
    std::lock_guard guard{lock_};
    auto& position = positions_[static_cast<std::size_t>(where)];
    if (sink_)
      sink_->print(where, position, text);
    position += text.size();
  }

  /// Returns how much was printed so far.
  positions printed() const {
    std::lock_guard guard{lock_};
    return positions_;
  }

  /// Continues at the positions of a state.
  void restore(const positions& printed) {
    std::lock_guard guard{lock_};
    positions_ = printed;
  }

private:
  mutable std::mutex lock_;
  positions positions_{};
  std::shared_ptr<answer_sink> sink_;
};

} // namespace vgpu
