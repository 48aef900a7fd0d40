// vgpu-client: represents the vGPUs of one host's programs.
#include "actors/client/client.hpp"
#include "actors/client/guest_server.hpp"
#include "actors/link/frames.hpp"
#include "actors/link/log.hpp"
#include "actors/link/managers/leader_link.hpp"
#include "actors/link/system.hpp"
#include "nodes/cluster/own_cluster.hpp"
#include "nodes/daemons/zmq_busy_poll.hpp"
#include "nodes/keys/joined_keys.hpp"
#include "nodes/support/descriptor_limit.hpp"
#include "nodes/support/manual_pages.hpp"
#include "nodes/support/paths.hpp"
#include "nodes/support/run_dir.hpp"
#include "nodes/support/stop_signal.hpp"
#include "nodes/support/version.hpp"
#include "schema/base/endpoints.hpp"
#include "schema/base/sizes.hpp"
#include "schema/log/client_place.hpp"

#include <CLI/CLI.hpp>

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <optional>

using namespace vgpu;

namespace {

struct options {
  std::string manager;
  std::string transport = "auto";
  std::uint32_t idle_ms = 5000;
  std::string state_memory;
  std::string state_dir = "/var/tmp";
};

/// Returns the default for the host memory that each suspended session may use:
/// a quarter of the host's memory.
std::uint64_t memory_for_a_state() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) / 4 *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string own_name() {
  utsname host{};
  ::uname(&host);
  return std::string{"client/"} + host.nodename + "-" +
         std::to_string(::getpid());
}

transport parse_transport(const std::string& text) {
  return text == "mapped"      ? transport::mapped
         : text == "forwarded" ? transport::forwarded
                               : transport::automatic;
}

/// Returns the given manager, or else the default cluster's if it is up, or
/// else that of the user's login, or else one of a cluster of its own.
result<std::string> find_manager(const std::string& named) {
  if (!named.empty())
    return named;
  auto usual = endpoint_in(default_run_dir());
  if (auto good = check_own_cluster(usual); !good)
    return good.why();
  if (somebody_listens(usual))
    return usual;
  auto logged_in = manager_of_login(key_folder{});
  return !logged_in || !logged_in->empty() ? logged_in : own_cluster();
}

/// Returns where to look for a manager while there is none.
std::string later_manager(const fault& why) {
  // Nobody can listen there.
  return why.kind == fault_kind::refused ? "ipc:///dev/null/manager.sock"
                                         : default_endpoint();
}

/// Checks what the user has set. A client that listened before it found this
/// wrong would end while programs wait for its word, and they would try others.
status check(const options& given) {
  if (auto polling = chosen_busy_poll(); !polling)
    return polling.why();
  if (given.manager.empty())
    return {};
  if (auto good = check_endpoints(given.manager); !good)
    return good;
  auto keys = keys_to_managers(key_folder{}, login_key_file, given.manager);
  return keys ? status{} : keys.why();
}

int run(const options& given) {
  allow_many_descriptors();
  reuse_frames_memory();
  stop_signal stop;
  auto name = own_name();
  start_log("vgpu-client", "warn");
  if (auto good = check(given); !good) {
    std::cerr << "vgpu-client: " << good.why().what << '\n';
    return 2;
  }
  // It is a lock too: there is one client for this user, manager and transport.
  auto taken = client_place::take(given.manager, given.transport);
  if (!taken) {
    spdlog::info(
        "Exiting: another vgpu-client serves this user and manager: {}",
        taken.why().what);
    return 0;
  }
  std::optional place{std::move(*taken)};
  auto polling = *chosen_busy_poll(); // check() has seen it
  constexpr std::chrono::nanoseconds where_scarce{0};
  zmq_busy_poll io_busy_poll{polling.limits(where_scarce)};
  auto manager = find_manager(given.manager);
  system_config config;
  caf::actor_system system{config};
  zmq::context_t zmq{
      2}; // Each of a program's two connections has an I/O thread.
  link_options to_manager;
  to_manager.name = name;
  to_manager.greeting = control::hello{.software = version_of("vgpu-client"),
                                       .as = control::role::client};
  auto endpoints = manager ? *manager : later_manager(manager.why());
  if (auto good = check_endpoints(endpoints); !good) {
    std::cerr << "vgpu-client: " << good.why().what << '\n';
    return 2;
  }
  auto keys = keys_to_managers(key_folder{}, login_key_file, endpoints);
  if (!keys) {
    std::cerr << "vgpu-client: " << keys.why().what << '\n';
    return 2;
  }
  to_manager.keys = keys->present;
  to_manager.next_keys = keys->next;
  auto link =
      spawn_leader_link(system, zmq, split_endpoints(endpoints), to_manager);
  if (!link) {
    std::cerr << "vgpu-client: " << link.why().what << '\n';
    return 2;
  }
  std::shared_ptr<own_keys> known;
  if (*keys) {
    known = std::make_shared<own_keys>(keys->present->own);
    link->actor =
        system.spawn(renewing_link, link->actor,
                     std::make_shared<joined_renewal>(
                         key_folder{}, login_key_file,
                         [known](const key_pair& x) { known->renew(x); }),
                     keys->next);
  }
  client_options own;
  own.name = name;
  own.idle_for = std::chrono::milliseconds{given.idle_ms};
  if (!manager) {
    spdlog::error(
        "Cannot find or start a manager: {}. Programs fail until it is "
        "available: start a cluster with `vgpu up`, or set VGPU_MANAGER.",
        manager.why().what);
    own.no_manager = manager.why().what;
  }
  auto hub = system.spawn(client, own, link->actor, [&] { stop.stop(0); });
  session_client_options options;
  options.transport = parse_transport(given.transport);
  options.state_memory = given.state_memory.empty()
                             ? memory_for_a_state()
                             : *parse_size(given.state_memory);
  options.state_dir = given.state_dir;
  options.busy_poll = polling.limits(where_scarce);
  options.keys = known;
  auto server =
      spawn_guest_server(system, zmq, options, place->take_sockets(), hub);
  auto status = stop.wait();
  caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(hub, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(link->actor, caf::exit_reason::user_shutdown);
  spdlog::debug("ZeroMQ I/O threads busy-polled in {} of {} waits and received "
                "something in {} of these.",
                io_busy_poll.busy_polled(), io_busy_poll.waited(),
                io_busy_poll.found());
  // Programs that are still connected find another client. The process ends
  // without joining its sessions' threads.
  std::cout.flush();
  place.reset();
  ::_exit(status);
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Connects the CUDA programs of this host to their vGPUs. The first "
      "program starts it; it exits when no program has used it for a while.\n"
      "\n"
      "Example: vgpu-client --manager tcp://10.0.0.1:7070"};
  app.set_version_flag("--version", version_of("vgpu-client"),
                       "Print the version and exit");
  add_manual_option(app, "vgpu-client");
  options given;
  app.add_option("--manager", given.manager,
                 "Endpoint of the manager, or several separated by commas "
                 "(default: the cluster of `vgpu up`, or else a manager and a "
                 "node that the client starts and stops itself)")
      ->envname("VGPU_MANAGER");
  app.add_option("--transport", given.transport,
                 "How calls reach workers: mapped (shared memory), forwarded "
                 "(ZeroMQ), or auto")
      ->envname("VGPU_TRANSPORT")
      ->check(CLI::IsMember({"auto", "mapped", "forwarded"}))
      ->capture_default_str();
  app.add_option("--idle-ms", given.idle_ms,
                 "Milliseconds without a program after which the client exits")
      ->envname("VGPU_CLIENT_IDLE_MS")
      ->capture_default_str();
  app.add_option("--state-memory", given.state_memory,
                 "Host memory that the checkpoint of one suspended vGPU, or "
                 "one snapshot, may use; larger ones go to --state-dir "
                 "(default: a quarter of the host's memory)")
      ->envname("VGPU_STATE_MEMORY")
      ->check([](const std::string& text) {
        auto bytes = parse_size(text);
        return bytes ? std::string{} : bytes.why().what;
      });
  app.add_option("--state-dir", given.state_dir,
                 "Directory of the checkpoints and snapshots that are larger "
                 "than --state-memory")
      ->envname("VGPU_STATE_DIR")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(given);
  } catch (const std::exception& x) {
    std::cerr << "vgpu-client: " << x.what() << '\n';
    return 1;
  }
}
