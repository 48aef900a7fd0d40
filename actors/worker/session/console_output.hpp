// Text that kernels print, and times of traced work.
#pragma once

#include "actors/worker/session/answers.hpp"
#include "schema/log/work_times.hpp"

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
  using positions = std::array<std::uint64_t, text_console_count>;

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

  /// Tells when a piece of traced work was executed. The times of a replay are
  /// others, so they have no position.
  void tell(const work_times& what) {
    std::lock_guard guard{lock_};
    if (sink_)
      sink_->print(console::times, session_area::at_end,
                   {reinterpret_cast<const char*>(&what), sizeof what});
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
