// A command line's description, read from its parser.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace vgpu {

/// Is an option, a positional argument or a subcommand.
struct described_word {
  /// Holds all its names, as `-f, --follow`.
  std::string name;
  std::string description;
  /// Says what its value is; empty: it has none.
  std::string value{};
  /// Hold the names that a shell completes, and the values if they are a
  /// choice.
  std::vector<std::string> words{};
  std::vector<std::string> choices{};
};

/// Describes a command without its subcommands' options.
struct described_command {
  /// Holds the words to it, as `vgpu keys init`.
  std::string path;
  std::string description;
  std::string footer;
  std::vector<described_word> subcommands{};
  std::vector<described_word> positionals{};
  std::vector<described_word> options{};
};

/// Describes a program and all its subcommands, the program first. What --help
/// hides is left out.
std::vector<described_command> describe_commands(const CLI::App& of,
                                                 const std::string& program);

} // namespace vgpu
