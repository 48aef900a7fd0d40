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

/// Names the exit codes of `vgpu`. `vgpu run` returns its program's code.
enum exit_code : int {
  succeeded = 0,
  /// The command was tried and did not work.
  failed = 1,
  /// The command line is wrong.
  wrong_usage = 2,
  /// No manager answers.
  no_manager = 3,
  /// The audit log is not as it was written.
  chain_broken = 4,
  cannot_run = 126,
  not_found = 127,
};

/// Prints `vgpu NAME: WHAT` to stderr and returns `code`.
int complain(const std::string& name, const std::string& what,
             int code = failed);
/// Prints the fault and returns the code that fits it.
int complain(const std::string& name, const fault& why);

/// Describes the cluster that a command addresses: options that most commands
/// share.
struct target {
  std::string run_dir;
  std::string manager;

  /// Adds the options.
  void add_to(CLI::App& app);
  /// Returns the manager's endpoint that the options choose.
  std::string endpoint() const;
};

/// Says how long a command waits for a manager and for an immediate answer.
inline constexpr std::chrono::milliseconds patience{5'000};

/// Sends the request `what` to the manager and waits up to `within` for the
/// answer. Complains in the name of the subcommand `me` about a fault, and
/// returns the exit code.
int order(const std::string& me, const target& where, control::body what,
          std::chrono::milliseconds within = patience);

/// Does the work of a subcommand and returns the exit code. Each function below
/// adds one or more subcommands, and the callback of the chosen one sets
/// `todo`.
using job = std::function<int()>;
void add_cluster_commands(CLI::App& app, job& todo);  // up, down, kill-*, ...
void add_show_commands(CLI::App& app, job& todo);     // status, events
void add_set_commands(CLI::App& app, job& todo);      // set, policy
void add_movement_commands(CLI::App& app, job& todo); // suspend, migrate, ...
void add_usage_command(CLI::App& app, job& todo);
void add_key_commands(CLI::App& app, job& todo); // keys, token, node, login
void add_tenant_command(CLI::App& app, job& todo);
void add_audit_command(CLI::App& app, job& todo);
void add_page_commands(CLI::App& app, job& todo); // completion, manual
void add_coverage_command(CLI::App& app, job& todo);
void add_simulate_command(CLI::App& app, job& todo);
void add_run_command(CLI::App& app, job& todo,
                     const std::vector<std::string>& program);
void add_trace_command(CLI::App& app, job& todo,
                       const std::vector<std::string>& program);

/// Removes the program and its arguments from a line of `vgpu run` or `trace`,
/// so that `vgpu` does not parse them. They follow `--`, or begin with the
/// first word that is neither an option nor an option's value.
std::vector<std::string> take_program(int& argc, char** argv);

} // namespace vgpu::command
