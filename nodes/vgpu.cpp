// vgpu: the command.
#include "actors/log.hpp"
#include "nodes/vgpu_commands.hpp"

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

namespace vgpu::command {

int complain(const std::string& name, const std::string& what, int code) {
  std::cerr << "vgpu " << name << ": " << what << std::endl;
  return code;
}

int complain(const std::string& name, const fault& why) {
  return complain(name, why.what,
                  why.code == CUDA_ERROR_SYSTEM_NOT_READY ? no_manager
                                                          : failed);
}

} // namespace vgpu::command

namespace {

/// Takes `--` and what follows it off a `run` in `given`: it is the program's
/// affair, and CLI11 would look for options in it.
std::vector<std::string> take_program(std::vector<std::string>& given) {
  auto dashes = !given.empty() && given.front() == "run"
                    ? std::find(given.begin(), given.end(), "--")
                    : given.end();
  std::vector<std::string> out{dashes, given.end()};
  given.erase(dashes, given.end());
  return out;
}

} // namespace

int main(int argc, char** argv) {
  using namespace vgpu::command;
  std::vector<std::string> given{argv + 1, argv + argc};
  auto program = take_program(given);
  CLI::App app{"Runs CUDA programs on virtual GPUs, and manages the cluster "
               "that provides them.",
               "vgpu"};
  app.require_subcommand(1);
  app.footer("`vgpu COMMAND --help` tells more, with examples.\n"
             "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no manager "
             "answers;\n`vgpu run` passes on its program's (126: cannot be "
             "run, 127: not found).");
  job todo;
  add_run_command(app, todo, std::move(program));
  add_cluster_commands(app, todo);
  add_show_commands(app, todo);
  try {
    // It takes them from the back.
    std::reverse(given.begin(), given.end());
    app.parse(std::move(given));
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? succeeded : wrong_usage;
  }
  vgpu::start_log("vgpu", "error");
  try {
    return todo();
  } catch (const std::exception& e) {
    std::cerr << "vgpu: " << e.what() << std::endl;
    return failed;
  }
}
