// vgpu-node: offers this host's pGPUs to a cluster.
#include "actors/link/log.hpp"
#include "actors/link/managers/leader_link.hpp"
#include "actors/link/system.hpp"
#include "actors/node/supervisor.hpp"
#include "nodes/daemons/inventory.hpp"
#include "nodes/keys/joined_keys.hpp"
#include "nodes/sandbox/sandbox.hpp"
#include "nodes/support/capability_option.hpp"
#include "nodes/support/daemon.hpp"
#include "nodes/support/descriptor_limit.hpp"
#include "nodes/support/manual_pages.hpp"
#include "nodes/support/metrics.hpp"
#include "nodes/support/paths.hpp"
#include "nodes/support/run_dir.hpp"
#include "nodes/support/version.hpp"
#include "schema/base/busy_poll.hpp"
#include "schema/base/host.hpp"
#include "schema/base/sizes.hpp"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <cctype>

using namespace vgpu;

namespace {

struct options {
  std::string manager;
  std::string run_dir = default_run_dir();
  std::string bind = "ipc";
  std::string memory = "4GiB";
  std::string standby_memory = "auto";
  std::string worker = sibling("vgpu-worker");
  std::string sandbox = "auto";
  bool insecure_network = false;
  inventory_options inventory;
  std::string metrics;
  daemon_ties ties;
};

void describe(CLI::App& app, options& x) {
  app.description("A node of a vgpu cluster: registers this host's GPUs with "
                  "the manager and runs a\nworker process for each session "
                  "that is placed here.");
  app.set_version_flag("--version", version_of("vgpu-node"),
                       "print the version and exit");
  add_manual_option(app, "vgpu-node");
  app.add_option("--manager", x.manager,
                 "the manager's endpoint, or several separated by commas "
                 "(default: $VGPU_MANAGER, or the one in the run directory)");
  app.add_option("--name", x.inventory.node, "this node's name")->required();
  app.add_option("--device", x.inventory.device, "cpu, nvidia or auto")
      ->check(CLI::IsMember({"cpu", "nvidia", "auto"}))
      ->capture_default_str();
  app.add_option("--gpus-per-node", x.inventory.gpus,
                 "number of cpu GPUs to offer")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--memory", x.memory, "memory of each cpu GPU")
      ->capture_default_str();
  app.add_option("--standby-memory", x.standby_memory,
                 "memory of a GPU that one standby takes, which makes a "
                 "recovery faster; with 0 there are none. auto: 1GiB of real "
                 "GPUs, and 0 of cpu GPUs, whose workers start at once")
      ->envname("VGPU_STANDBY_MEMORY")
      ->capture_default_str();
  describe_capability(app, x.inventory.capability);
  app.add_option("--bind", x.bind,
                 "the address or interface on which workers accept calls from "
                 "other hosts; `ipc` accepts calls from this host only")
      ->capture_default_str();
  app.add_flag("--insecure-network", x.insecure_network,
               "let workers accept calls from other hosts without keys; then "
               "whoever is in between reads and changes them");
  app.add_option("--sandbox", x.sandbox,
                 "what workers may do: `auto` gives up all rights that this "
                 "host lets them give up; `off` keeps those of the node, for a "
                 "debugger")
      ->check(CLI::IsMember({"auto", "off"}))
      ->envname("VGPU_SANDBOX")
      ->capture_default_str();
  app.add_option("--run-dir", x.run_dir, "directory of its sockets")
      ->capture_default_str();
  app.add_option("--worker", x.worker)->group("");
  describe_metrics(app, x.metrics);
  describe(app, x.ties);
  app.footer(
      "Examples:\n"
      "  vgpu-node --name a\n"
      "  vgpu node join TOKEN --name b\n"
      "  vgpu-node --name b --manager tcp://10.0.0.1:7070 --bind 10.0.0.2\n"
      "VGPU_LOG=error|warn|info|debug sets the level of the log on stderr.\n"
      "On SIGTERM or SIGINT the node leaves the cluster, which moves its "
      "sessions to other nodes, and exits.");
}

/// Returns an endpoint at this address with a free port.
std::string tcp_at(const std::string& host) {
  return "tcp://" + host + ":*";
}

int complain(const std::string& what) {
  std::cerr << "vgpu-node: " << what << std::endl;
  return 1;
}

/// Tries once to bind where the workers will listen. They must not bind to all
/// addresses, because their address is sent to programs on other hosts.
status check_bind(zmq::context_t& zmq, const std::string& bind) {
  if (bind == "ipc")
    return {};
  auto refuse = [&](const std::string& why) {
    return fault{fault_kind::usage,
                 "--bind '" + bind + "': " + why +
                     "; give ipc, or an address or interface of this host that "
                     "other hosts can reach"};
  };
  if (bind.empty() || bind == "*" || bind == "0.0.0.0" || bind == "::" ||
      bind == "[::]")
    return refuse("it is not a single address");
  try {
    zmq::socket_t{zmq, zmq::socket_type::router}.bind(tcp_at(bind));
  } catch (const zmq::error_t& e) {
    return refuse(e.what());
  }
  return {};
}

/// Fails where workers would listen on a network without keys, unless that is
/// wanted. Then it is told each time.
status check_network(const options& x, bool has_keys) {
  if (has_keys || x.bind == "ipc" || !leaves_host(tcp_at(x.bind)))
    return {};
  if (!x.insecure_network)
    return fault{fault_kind::refused,
                 "--bind " + x.bind +
                     ": other hosts reach it, and this node has no key for " +
                     x.manager +
                     ". Run `vgpu keys init` and `vgpu token node` on the "
                     "manager's host and `vgpu node join` here, or give "
                     "--insecure-network where you trust everybody on the "
                     "network"};
  spdlog::warn("--insecure-network: whoever reaches workers at {}, or is in "
               "between, can read and change what programs do",
               x.bind);
  return {};
}

/// Returns whether the name can be part of a file's name.
bool good_name(const std::string& name) {
  auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' ||
           c == '_';
  };
  return !name.empty() && name.size() <= 32 &&
         std::all_of(name.begin(), name.end(), plain);
}

/// Prepares the sandbox of this node's workers. Returns what they give up, and
/// tells it in the log.
std::string sandbox_of(const options& x,
                       const std::vector<control::pgpu>& pgpus,
                       main_loop& loop) {
  if (x.sandbox == "off") {
    spdlog::warn("Workers run without a sandbox (--sandbox off)");
    return "off";
  }
  sandbox_needs needs;
  needs.nvidia = !pgpus.empty() && pgpus.front().backend == "nvidia";
  needs.tcp_port = x.bind != "ipc";
  needs.socket_folder = x.run_dir;
  needs.connected_by_node = true;
  auto report = try_sandbox(needs);
  loop.limit_children(std::make_unique<worker_groups>(report));
  auto out = report.text();
  spdlog::info("Sandbox of workers: {}", out);
  return out;
}

supervisor_options options_of(const options& x,
                              std::vector<control::pgpu> pgpus) {
  supervisor_options out;
  out.name = x.inventory.node;
  out.host = host_id();
  out.pid = static_cast<std::uint32_t>(::getpid());
  out.sandboxed = x.sandbox != "off";
  out.pgpus = std::move(pgpus);
  out.manager_peer = x.manager;
  out.worker_program = x.worker;
  out.worker_endpoint =
      "ipc://" + x.run_dir + "/node-" + x.inventory.node + ".sock";
  out.worker_bind = x.bind == "ipc" ? "ipc://" + x.run_dir + "/worker-%s.sock"
                                    : tcp_at(x.bind);
  return out;
}

link_options manager_side(const options& x, const manager_link_keys& keys) {
  link_options out;
  out.keys = keys.present;
  out.next_keys = keys.next;
  out.name = "node/" + x.inventory.node;
  out.greeting =
      control::hello{control::oldest_version, control::protocol_version,
                     version_of("vgpu-node"), control::role::node};
  return out;
}

link_options worker_side(const supervisor_options& x) {
  link_options out;
  out.as = link_options::form::bind;
  out.endpoint = x.worker_endpoint;
  out.name = "node/" + x.name;
  return out;
}

/// Passes the supervisor's reports to the main thread.
supervisor_watcher::behavior_type watcher(supervisor_watcher::pointer,
                                          main_loop* loop, daemon_ties* ties,
                                          int* status) {
  return {
      [=](const supervisor_ready&) {
        loop->post([=] { say_ready(*ties, "ready"); });
      },
      [=](const supervisor_failed& x) {
        loop->post([=] {
          complain(x.why);
          *status = 1;
        });
      },
  };
}

/// Returns the memory that a standby takes of each pGPU.
result<std::uint64_t> standby_memory_of(const options& x,
                                        const std::vector<control::pgpu>& all) {
  if (x.standby_memory != "auto")
    return parse_size(x.standby_memory);
  constexpr auto of_context_and_modules = std::uint64_t{1} << 30;
  return !all.empty() && all.front().backend == "nvidia"
             ? of_context_and_modules
             : 0;
}

int serve(options x) {
  allow_many_descriptors(); // each worker has several
  main_loop loop;
  if (x.manager.empty())
    x.manager = default_endpoint(x.run_dir);
  if (!good_name(x.inventory.node))
    return complain("--name '" + x.inventory.node +
                    "': give 1 to 32 letters, digits, - or _");
  if (auto good = check_endpoints(x.manager); !good)
    return complain("--manager: " + good.why().what);
  auto memory = parse_size(x.memory);
  if (!memory)
    return complain("--memory: " + memory.why().what);
  // The workers inherit VGPU_BUSY_POLL, so a wrong value is refused here.
  if (auto polling = chosen_busy_poll(); !polling)
    return complain(polling.why().what);
  x.inventory.memory = *memory;
  auto pgpus = take_inventory(x.inventory);
  if (!pgpus)
    return complain(pgpus.why().what);
  if (auto made = make_private_dir(x.run_dir); !made)
    return complain(made.why().what);
  run_dir_part part{x.ties.remove_run_dir ? run_dir_part{x.run_dir}
                                          : run_dir_part{}};
  auto sandbox = sandbox_of(x, *pgpus, loop);
  auto what = options_of(x, std::move(*pgpus));
  what.sandbox = std::move(sandbox);
  what.lines = std::make_shared<switchboard>();
  auto standby = standby_memory_of(x, what.pgpus);
  if (!standby)
    return complain("--standby-memory: " + standby.why().what);
  what.standby_memory = *standby;
  if (somebody_listens(what.worker_endpoint))
    return complain("a node named '" + x.inventory.node +
                    "' is already running in this run directory; choose "
                    "another --name or --run-dir");
  auto keys = keys_to_managers(key_folder{}, node_key_file, x.manager);
  if (!keys)
    return complain(keys.why().what);
  what.keyed = static_cast<bool>(*keys);
  what.insecure_network =
      !what.keyed && x.bind != "ipc" && leaves_host(tcp_at(x.bind));
  zmq::context_t zmq;
  if (auto good = check_bind(zmq, x.bind); !good)
    return complain(good.why().what);
  if (auto good = check_network(x, what.keyed); !good)
    return complain(good.why().what);
  system_config config;
  caf::actor_system system{config};
  auto up = spawn_leader_link(system, zmq, split_endpoints(x.manager),
                              manager_side(x, *keys));
  auto down = spawn_link(system, zmq, worker_side(what));
  for (auto* each : {&up, &down})
    if (!*each) {
      for (auto* other : {&up, &down})
        if (*other)
          end_actor(system, (*other)->actor);
      return complain(each->why().what);
    }
  if (*keys)
    up->actor = system.spawn(
        renewing_link, up->actor,
        std::make_shared<joined_renewal>(key_folder{}, node_key_file),
        keys->next);
  auto status = 0;
  auto watch = system.spawn(watcher, &loop, &x.ties, &status);
  auto chief = system.spawn(supervisor, std::move(what), up->actor, down->actor,
                            loop.children(), watch);
  caf::anon_send(up->actor, control_consumer{chief});
  caf::anon_send(down->actor, control_consumer{chief});
  auto leave = [&chief] { caf::anon_send(chief, supervisor_stop{}); };
  loop.on_signal(leave);
  if (x.ties.owner_fd >= 0)
    loop.watch_owner(x.ties.owner_fd, leave);
  // This handle keeps the actor alive: no other reference exists, and CAF ends
  // an unreachable actor.
  auto guard =
      system.spawn(end_watch, caf::actor_cast<caf::strong_actor_ptr>(chief),
                   &loop, [&loop] { loop.stop(); });
  auto metrics = metrics_server::start(system, chief, x.metrics);
  if (metrics) {
    if (*metrics)
      spdlog::info("Serving metrics at {}", (*metrics)->url());
    loop.run();
    metrics->reset();
  } else {
    status = complain("--metrics: " + metrics.why().what);
    end_actor(system, chief);
  }
  chief = nullptr;
  end_actor(system, up->actor);
  end_actor(system, down->actor);
  end_actor(system, watch);
  end_actor(system, guard);
  system.clock().cancel_all();
  return status;
}

} // namespace

int main(int argc, char** argv) {
  options x;
  CLI::App app;
  describe(app, x);
  CLI11_PARSE(app, argc, argv);
  start_log("vgpu-node/" + x.inventory.node);
  try {
    return serve(std::move(x));
  } catch (const std::exception& e) {
    return complain(e.what());
  }
}
