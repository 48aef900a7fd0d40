// Manual pages, made from a command line's own description.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace vgpu {

/// Is a manual page: its name, as `vgpu-run`, and its text for man(7).
struct manual_page {
  std::string name;
  std::string text;
};

/// Returns the page of a program, and those of its subcommands. All are of this
/// section of the manual: 1 for commands, 8 for daemons.
std::vector<manual_page> manual_pages(const CLI::App& of,
                                      const std::string& program, int section);

/// Adds an option that --help hides: `--manual` prints the page of a daemon and
/// ends it.
void add_manual_option(CLI::App& app, const std::string& program);

} // namespace vgpu
