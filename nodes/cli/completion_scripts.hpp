// Completions of a shell, made from a command line's own description.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>

namespace vgpu::command {

/// Names the shells that completion_script() knows.
enum class shell : std::uint8_t { bash, zsh, fish };

/// Returns a script that has the shell complete the command's subcommands, its
/// options, and those values of options that are a choice.
std::string completion_script(const CLI::App& of, shell in);

} // namespace vgpu::command
