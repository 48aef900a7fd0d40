// `vgpu completion` and `vgpu manual`.
#include "nodes/cli/completion_scripts.hpp"
#include "nodes/cli/vgpu_commands.hpp"
#include "nodes/support/manual_pages.hpp"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>

namespace vgpu::command {

namespace {

struct page_options {
  std::string shell_name;
  std::string folder;
};

const std::map<std::string, shell> shells{
    {"bash", shell::bash}, {"zsh", shell::zsh}, {"fish", shell::fish}};

/// Writes all pages into the folder.
int write_pages(const std::vector<manual_page>& pages,
                const std::filesystem::path& folder) {
  for (auto& x : pages) {
    auto path = folder / (x.name + ".1");
    std::ofstream out{path};
    out << x.text << std::flush;
    if (!out)
      return complain("manual", path.string() + " cannot be written; name a "
                                                "folder that exists");
  }
  return succeeded;
}

} // namespace

void add_page_commands(CLI::App& app, job& todo) {
  auto x = std::make_shared<page_options>();
  auto* complete = app.add_subcommand(
      "completion", "Prints a script by which a shell completes the words of "
                    "this command.");
  complete->add_option("shell", x->shell_name, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  complete->footer(
      "Examples:\n  source <(vgpu completion bash)\n"
      "  vgpu completion fish >~/.config/fish/completions/vgpu.fish");
  complete->callback([x, &app, &todo] {
    todo = [x, &app] {
      std::cout << completion_script(app, shells.at(x->shell_name))
                << std::flush;
      return succeeded;
    };
  });

  auto y = std::make_shared<page_options>();
  auto* manual = app.add_subcommand(
      "manual", "Prints the manual page of this command, for man, or writes "
                "all pages into a folder.");
  manual->add_option("--into", y->folder,
                     "the folder for vgpu.1, vgpu-run.1 and all others");
  manual->footer("Examples:\n  vgpu manual | man -l -\n"
                 "  vgpu manual --into /usr/local/share/man/man1");
  manual->callback([y, &app, &todo] {
    todo = [y, &app] {
      auto pages = manual_pages(app, app.get_name(), 1);
      if (!y->folder.empty())
        return write_pages(pages, y->folder);
      std::cout << pages.front().text << std::flush;
      return int{succeeded};
    };
  });
}

} // namespace vgpu::command
