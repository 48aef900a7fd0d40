// Helpers of a worker as started programs.
#pragma once

#include "actors/worker/checkpoint/helper.hpp"

#include <string>
#include <vector>

namespace vgpu {

/// Gives the descriptor under which a helper finds its file.
inline constexpr int helper_file = 3;
/// Gives the exit status of a helper that failed and changed nothing.
inline constexpr int helper_refused = 1;

/// Says how to start a helper.
struct helper_process {
  std::string name; // for messages, such as "dry run"
  std::string program;
  /// Holds the arguments, of which the first is the program's name.
  std::vector<std::string> arguments;
  /// Is the file to pass to the helper, or -1.
  int file = -1;
};

/// Starts a helper, and calls `ring` on another thread when it has ended. The
/// helper ends with 0 when it succeeded, or else writes the reason to stderr.
result<std::unique_ptr<helper>> start_helper(const helper_process& what,
                                             std::function<void()> ring);

} // namespace vgpu
