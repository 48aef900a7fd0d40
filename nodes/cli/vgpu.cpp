// vgpu: the command.
#include "actors/link/log.hpp"
#include "nodes/cli/command_client.hpp"
#include "nodes/cli/shown_output.hpp"
#include "nodes/cli/vgpu_commands.hpp"
#include "nodes/keys/joined_keys.hpp"
#include "nodes/support/paths.hpp"
#include "nodes/support/version.hpp"
#include "schema/base/endpoints.hpp"

#include <iostream>

namespace vgpu::command {

int complain(const std::string& name, const std::string& what, int code) {
  std::cerr << "vgpu " << name << ": " << what << std::endl;
  return code;
}

int complain(const std::string& name, const fault& why) {
  return complain(name, why.what,
                  why.kind == fault_kind::unreachable ? no_manager : failed);
}

void target::add_to(CLI::App& app) {
  run_dir = default_run_dir();
  app.add_option("--run-dir", run_dir, "the cluster's run directory")
      ->capture_default_str();
  app.add_option("--manager", manager,
                 "the manager's endpoint, or several separated by commas "
                 "(default: $VGPU_MANAGER, or the one in the run directory)")
      ->check([](const std::string& x) {
        auto good = check_endpoints(x);
        return good ? std::string{} : good.why().what;
      });
}

std::string target::endpoint() const {
  if (!manager.empty())
    return manager;
  auto usual = default_endpoint(run_dir);
  if (!chosen_manager().empty() || run_dir != default_run_dir() ||
      somebody_listens(usual))
    return usual;
  auto login = manager_of_login(key_folder{});
  if (!login)
    complain("login", login.why());
  return login && !login->empty() ? *login : usual;
}

int order(const std::string& me, const target& where, control::body what,
          std::chrono::milliseconds within) {
  auto manager = command_client::connect(where.endpoint(), patience);
  if (!manager)
    return complain(me, manager.why());
  auto got = (*manager)->ask(std::move(what), within);
  return got ? succeeded : complain(me, got.why());
}

} // namespace vgpu::command

int main(int argc, char** argv) {
  using namespace vgpu::command;
  vgpu::shown_output out{std::cout};
  vgpu::shown_output errors{std::cerr};
  CLI::App app{"Runs CUDA programs on virtual GPUs, and manages the cluster "
               "that provides them.",
               "vgpu"};
  app.set_version_flag("--version", vgpu::version_of("vgpu"),
                       "Print the version and exit");
  app.require_subcommand(1);
  app.footer(
      "`vgpu COMMAND --help` shows its options and examples.\n"
      "Exit codes: 0 success, 1 failure, 2 wrong usage, 3 no manager answers, "
      "4 a broken audit log;\n"
      "`vgpu run` and `trace` return that of their program (126: cannot be "
      "run, 127: not "
      "found).");
  job todo;
  auto program = take_program(argc, argv);
  add_run_command(app, todo, program);
  add_trace_command(app, todo, program);
  add_cluster_commands(app, todo);
  add_show_commands(app, todo);
  add_set_commands(app, todo);
  add_movement_commands(app, todo);
  add_usage_command(app, todo);
  add_key_commands(app, todo);
  add_tenant_command(app, todo);
  add_audit_command(app, todo);
  add_coverage_command(app, todo);
  add_simulate_command(app, todo);
  add_page_commands(app, todo);
  try {
    app.parse(argc, argv);
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
