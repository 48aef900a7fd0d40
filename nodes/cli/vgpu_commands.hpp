// The subcommands of `vgpu`.
#pragma once

#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"

#include <CLI/CLI.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace vgpu::command {

/// Exit codes of `vgpu`; `vgpu run` passes its program's on.
enum exit_code : int {
  succeeded = 0,
  failed = 1,      // it was tried and did not work
  wrong_usage = 2, // the command line
  no_manager = 3,  // no manager answers
  cannot_run = 126,
  not_found = 127,
};

/// Prints `vgpu NAME: WHAT` to stderr.
int complain(const std::string& name, const std::string& what,
             int code = failed);
/// The same, with the code that fits the fault.
int complain(const std::string& name, const fault& why);

/// Which cluster a command is for: options that most of them share.
struct target {
  std::string run_dir;
  std::string manager;

  void add_to(CLI::App& app);
  std::string endpoint() const;
};

/// How long a manager is waited for, and for what it does at once.
inline constexpr std::chrono::milliseconds patience{5'000};

/// Has the manager do `what`, and waits until it is done, for as long as
/// `within`. Complains where it is not; `me` is the subcommand's name.
int order(const std::string& me, const target& where, control::body what,
          std::chrono::milliseconds within = patience);

/// Each adds one or more subcommands; the callback of the one that was chosen
/// sets `todo`, which does the work and returns the exit code.
using job = std::function<int()>;
void add_cluster_commands(CLI::App& app, job& todo);  // up, down, kill-*, ...
void add_show_commands(CLI::App& app, job& todo);     // status, events
void add_set_commands(CLI::App& app, job& todo);      // set, policy
void add_movement_commands(CLI::App& app, job& todo); // suspend, migrate, ...
void add_usage_command(CLI::App& app, job& todo);
void add_coverage_command(CLI::App& app, job& todo);
void add_simulate_command(CLI::App& app, job& todo);
void add_run_command(CLI::App& app, job& todo,
                     const std::vector<std::string>& program);

/// Cuts the program and its arguments off a `vgpu run` line, so that nothing
/// of theirs is taken for ours: what follows `--`, or begins with the first
/// word that is neither an option nor an option's value.
std::vector<std::string> take_program(int& argc, char** argv);

} // namespace vgpu::command
