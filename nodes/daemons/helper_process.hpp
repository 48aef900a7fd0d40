// A helper, as a program that is started.
#pragma once

#include "actors/worker/serve/helper.hpp"

#include <string>
#include <vector>

namespace vgpu {

/// The descriptor by which it finds the file that it is handed.
inline constexpr int helper_file = 3;
/// What it ends with where it could not, and has changed nothing.
inline constexpr int helper_refused = 1;

struct helper_process {
  std::string name; // for messages, as "dry run"
  std::string program;
  std::vector<std::string> arguments; // the first is its name
  int file = -1;                      // that it is handed, if any
};

/// It writes to stderr why it could not, and ends with 0 if it could.
result<std::unique_ptr<helper>> start_helper(const helper_process& what,
                                             std::function<void()> ring);

} // namespace vgpu
