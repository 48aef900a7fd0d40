// `vgpu up` and `vgpu down`, and the commands that inject faults.
#include "actors/records/checked_json.hpp"
#include "nodes/cli/command_client.hpp"
#include "nodes/cli/vgpu_commands.hpp"
#include "nodes/cluster/cluster_launcher.hpp"
#include "nodes/support/balance_option.hpp"
#include "nodes/support/capability_option.hpp"
#include "nodes/support/paths.hpp"
#include "nodes/support/placement_option.hpp"
#include "schema/base/endpoints.hpp"
#include "schema/base/host.hpp"
#include "schema/base/sizes.hpp"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace vgpu::command {

using nlohmann::json;

namespace {

// -- up and down --------------------------------------------------------------

int up(const cluster_options& x) {
  if (auto memory = parse_size(x.memory); !memory)
    return complain("up", "--memory: " + memory.why().what, wrong_usage);
  if (!x.listen.empty())
    if (auto good = check_endpoint(x.listen); !good)
      return complain("up", "--listen: " + good.why().what, wrong_usage);
  auto made = cluster_up(x);
  if (!made)
    return complain("up", made.why());
  std::cout << "manager at " << made->endpoint << " (process "
            << made->manager.pid << ")\n";
  for (const auto& node : made->nodes)
    std::cout << "node " << node.name << " (process " << node.pid << ")\n";
  if (made->endpoint != default_endpoint(default_run_dir()))
    std::cout << "to use it: export VGPU_MANAGER=" << made->endpoint << "\n";
  return succeeded;
}

void add_up(CLI::App& app, job& todo) {
  auto x = std::make_shared<cluster_options>();
  x->run_dir = default_run_dir();
  auto* sub = app.add_subcommand("up", "Starts a cluster on this host.");
  sub->add_option("--nodes", x->nodes, "number of nodes, named a, b, c, ...")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  sub->add_option("--gpus-per-node", x->gpus_per_node,
                  "number of cpu GPUs of each node")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  sub->add_option("--device", x->device, "cpu, nvidia or auto")
      ->check(CLI::IsMember({"cpu", "nvidia", "auto"}))
      ->capture_default_str();
  sub->add_option("--memory", x->memory, "memory of each cpu GPU")
      ->capture_default_str();
  describe_capability(*sub, x->capability);
  sub->add_option("--run-dir", x->run_dir, "directory of its files and logs")
      ->capture_default_str();
  sub->add_option("--listen", x->listen,
                  "endpoint on which the manager listens (default: "
                  "manager.sock in the run directory)");
  sub->add_option("--bind", x->bind,
                  "address on which workers accept calls from other hosts; "
                  "`ipc` accepts calls from this host only")
      ->capture_default_str();
  sub->add_flag("--insecure-network", x->insecure_network,
                "listen on a network without keys; then everybody who reaches "
                "it controls the cluster");
  sub->add_option("--lost-after", x->lost_after_ms,
                  "milliseconds without a heartbeat after which a node is lost")
      ->check(CLI::Range(20, 3'600'000));
  describe_balance(*sub, x->balance);
  describe_overcommit(*sub, x->promises);
  describe_placement(*sub, x->placement);
  sub->add_option("--client-grace", x->client_grace_ms)->group("");
  sub->add_option("--worker", x->worker)->group("");
  sub->footer("Returns when all nodes have joined. Examples:\n"
              "  vgpu up\n"
              "  vgpu up --nodes 3 --gpus-per-node 2 --memory 1GiB\n"
              "  vgpu up --listen tcp://127.0.0.1:7070 --bind 127.0.0.1\n"
              "`vgpu down` stops it.");
  sub->callback([x, &todo] { todo = [x] { return up(*x); }; });
}

/// Returns the number of programs that the cluster serves, or 0 where its
/// manager does not answer.
std::size_t served_programs(const std::string& endpoint) {
  constexpr std::chrono::milliseconds patience{1'000};
  auto manager = command_client::connect(endpoint, patience);
  if (!manager)
    return 0;
  auto got = (*manager)->ask(control::status_request{}, patience);
  auto* text = got ? std::get_if<control::status_text>(&*got) : nullptr;
  // A manager's answer that cannot be read must not keep anybody from ending
  // it.
  std::size_t out = 0;
  try {
    auto status = text != nullptr ? parse_json(text->json) : json{};
    for (const auto& x : status.at("vgpus"))
      out += x.at("sessions").size();
  } catch (const json::exception&) {
    return 0;
  }
  return out;
}

int down(const std::string& run_dir) {
  auto record = read_record(run_dir);
  if (!record)
    return complain("down", record.why());
  auto programs = served_programs(record->endpoint);
  end_processes(*record);
  clean_run_dir(*record);
  if (programs != 0)
    std::cout << programs
              << (programs == 1 ? " program waits" : " programs wait")
              << " for a cluster at " << record->endpoint
              << "; end those that must not continue there\n";
  return succeeded;
}

void add_down(CLI::App& app, job& todo) {
  auto dir = std::make_shared<std::string>(default_run_dir());
  auto* sub = app.add_subcommand("down", "Stops what `vgpu up` started.");
  sub->add_option("--run-dir", *dir, "the cluster's run directory")
      ->capture_default_str();
  sub->footer("Example:\n  vgpu down");
  sub->callback([dir, &todo] { todo = [dir] { return down(*dir); }; });
}

// -- the manager --------------------------------------------------------------

int kill_manager(const std::string& run_dir) {
  auto record = read_record(run_dir);
  if (!record)
    return complain("kill-manager", record.why());
  if (!kill_process(record->manager))
    return complain("kill-manager",
                    "the manager (process " +
                        std::to_string(record->manager.pid) +
                        ") is not running; `vgpu restart-manager` starts it");
  return succeeded;
}

int restart_manager(const std::string& run_dir) {
  auto record = read_record(run_dir);
  if (!record)
    return complain("restart-manager", record.why());
  kill_process(record->manager);
  if (auto again = relaunch_manager(*record); !again)
    return complain("restart-manager", again.why());
  std::cout << "manager at " << record->endpoint << " (process "
            << record->manager.pid << ")\n";
  return succeeded;
}

void add_manager_command(CLI::App& app, job& todo, const char* name,
                         const char* what, int (*run)(const std::string&)) {
  auto dir = std::make_shared<std::string>(default_run_dir());
  auto* sub = app.add_subcommand(name, what);
  sub->add_option("--run-dir", *dir, "the cluster's run directory")
      ->capture_default_str();
  sub->footer(
      std::string{"Sessions keep running without their manager. Example:\n"
                  "  vgpu "} +
      name);
  sub->callback([dir, run, &todo] { todo = [dir, run] { return run(*dir); }; });
}

// -- injected faults ----------------------------------------------------------

result<json> ask_status(command_client& manager) {
  auto got = manager.ask(control::status_request{}, patience);
  if (!got)
    return got.why();
  return parse_json(std::get<control::status_text>(*got).json);
}

void tell_event(command_client& manager, std::string kind, std::string node,
                session_id session, std::string text) {
  control::event what;
  what.kind = std::move(kind);
  what.node = std::move(node);
  what.session = session;
  what.text = std::move(text);
  (void)manager.ask(std::move(what), patience);
}

/// Kills a process that the status names, if it runs on this host.
int kill_here(const std::string& command, const std::string& what,
              const std::string& host, int pid) {
  if (host != host_id())
    return complain(command, what + " runs on another host; kill process " +
                                 std::to_string(pid) + " there");
  if (!kill_process(process_of(pid, what)))
    return complain(command, what + " (process " + std::to_string(pid) +
                                 ") does not run");
  return succeeded;
}

const json* find_node(const json& status, const std::string& name) {
  for (const auto& node : status.at("nodes"))
    if (node.at("name") == name)
      return &node;
  return nullptr;
}

int kill_node(const target& where, const std::string& name) {
  const std::string me = "kill-node";
  auto manager = command_client::connect(where.endpoint(), patience);
  if (!manager)
    return complain(me, manager.why());
  auto status = ask_status(**manager);
  if (!status)
    return complain(me, status.why());
  auto* node = find_node(*status, name);
  if (node == nullptr)
    return complain(me,
                    "no node '" + name + "'; `vgpu status` lists the nodes");
  if (node->at("state") != "alive")
    return complain(me, "node " + name + " is " +
                            node->at("state").get<std::string>() + " already");
  if (node->at("host") == host_id())
    tell_event(**manager, "node-killed", name, {},
               name + " was killed by `vgpu kill-node`");
  return kill_here(me, "node " + name, node->at("host"), node->at("pid"));
}

int kill_worker(const target& where, std::uint64_t number) {
  const std::string me = "kill-worker";
  auto manager = command_client::connect(where.endpoint(), patience);
  if (!manager)
    return complain(me, manager.why());
  auto status = ask_status(**manager);
  if (!status)
    return complain(me, status.why());
  for (const auto& vgpu : status->at("vgpus"))
    for (const auto& session : vgpu.at("sessions"))
      if (session.at("id") == number) {
        auto* node = find_node(*status, session.at("node"));
        if (node == nullptr || session.at("state") != "running")
          return complain(me, "session " + std::to_string(number) +
                                  " has no worker now");
        auto host = node->at("host").get<std::string>();
        if (host == host_id())
          tell_event(**manager, "worker-killed", node->at("name"),
                     session_id{number},
                     "its worker was killed by `vgpu kill-worker`");
        return kill_here(me, "the worker of session " + std::to_string(number),
                         host, session.at("worker_pid"));
      }
  return complain(me, "no session " + std::to_string(number) +
                          "; `vgpu status` lists the sessions");
}

int inject(const target& where, const control::inject_fault& what) {
  return order("inject", where, what);
}

void add_kill_node(CLI::App& app, job& todo) {
  auto where = std::make_shared<target>();
  auto name = std::make_shared<std::string>();
  auto* sub = app.add_subcommand(
      "kill-node",
      "Kills a node's process (SIGKILL), and its workers with it.");
  sub->add_option("NAME", *name, "the node")->required();
  where->add_to(*sub);
  sub->footer("The manager moves its sessions to other nodes. Example:\n"
              "  vgpu kill-node a");
  sub->callback(
      [=, &todo] { todo = [=] { return kill_node(*where, *name); }; });
}

void add_kill_worker(CLI::App& app, job& todo) {
  auto where = std::make_shared<target>();
  auto number = std::make_shared<std::uint64_t>(0);
  auto* sub = app.add_subcommand(
      "kill-worker", "Kills the worker process of a session (SIGKILL).");
  sub->add_option("SESSION", *number, "the session's number")->required();
  where->add_to(*sub);
  sub->footer("The manager starts another one for the session. Example:\n"
              "  vgpu kill-worker 1");
  sub->callback(
      [=, &todo] { todo = [=] { return kill_worker(*where, *number); }; });
}

void add_inject(CLI::App& app, job& todo) {
  auto where = std::make_shared<target>();
  auto what = std::make_shared<control::inject_fault>();
  auto kind = std::make_shared<std::string>();
  std::vector<std::string> kinds;
  for (const auto& row : injected_fault_names)
    kinds.emplace_back(row.text);
  auto* sub = app.add_subcommand(
      "inject", "Injects a fault into a pGPU, to test recovery.");
  sub->add_option("NODE", what->node, "the node")->required();
  sub->add_option("PGPU", what->pgpu, "the pGPU's ordinal")->required();
  sub->add_option("KIND", *kind, "lost, hang or ecc")
      ->required()
      ->check(CLI::IsMember(kinds));
  where->add_to(*sub);
  sub->footer("The manager moves its sessions to other GPUs. Example:\n"
              "  vgpu inject a 0 lost");
  sub->callback([=, &todo] {
    what->kind = *value_in(injected_fault_names, *kind);
    todo = [=] { return inject(*where, *what); };
  });
}

} // namespace

void add_cluster_commands(CLI::App& app, job& todo) {
  add_up(app, todo);
  add_down(app, todo);
  add_kill_node(app, todo);
  add_kill_worker(app, todo);
  add_manager_command(app, todo, "kill-manager",
                      "Kills the manager that `vgpu up` started (SIGKILL).",
                      kill_manager);
  add_manager_command(app, todo, "restart-manager",
                      "Restarts that manager; kills it first if it is running.",
                      restart_manager);
  add_inject(app, todo);
}

} // namespace vgpu::command
