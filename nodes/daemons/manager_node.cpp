// vgpu-manager: the cluster's brain.
#include "actors/link/link.hpp"
#include "actors/link/log.hpp"
#include "actors/link/system.hpp"
#include "actors/manager/manager.hpp"
#include "nodes/keys/served_keys.hpp"
#include "nodes/support/balance_option.hpp"
#include "nodes/support/daemon.hpp"
#include "nodes/support/descriptor_limit.hpp"
#include "nodes/support/etcd_client.hpp"
#include "nodes/support/manual_pages.hpp"
#include "nodes/support/metrics.hpp"
#include "nodes/support/overcommit_option.hpp"
#include "nodes/support/paths.hpp"
#include "nodes/support/placement_option.hpp"
#include "nodes/support/run_dir.hpp"
#include "nodes/support/version.hpp"

#include <CLI/CLI.hpp>

using namespace vgpu;
using std::chrono::milliseconds;

namespace {

struct options {
  std::string listen;
  std::string run_dir = default_run_dir();
  std::string store_path;
  std::string audit_path;
  std::int64_t lost_after_ms = 500;
  std::int64_t reconnect_ms = 100;
  std::int64_t client_grace_ms = 5'000;
  std::int64_t restart_grace_ms = 10'000;
  std::optional<std::int64_t> idle_ms;
  std::string metrics;
  std::string balance;
  overcommit promises;
  std::string placement;
  std::string etcd;
  std::int64_t lease_s = 2;
  std::string etcd_prefix = "/vgpu/";
  bool insecure_network = false;
  daemon_ties ties;
};

void describe(CLI::App& app, options& x) {
  app.description("The manager of a vgpu cluster: nodes, clients and commands "
                  "connect to it.\n`vgpu up` starts one; start it by hand for "
                  "a cluster of several hosts.");
  app.set_version_flag("--version", version_of("vgpu-manager"),
                       "print the version and exit");
  add_manual_option(app, "vgpu-manager");
  app.add_option("--listen", x.listen,
                 "endpoint to listen on: tcp://HOST:PORT or ipc://PATH "
                 "(default: manager.sock in the run directory)");
  app.add_flag("--insecure-network", x.insecure_network,
               "listen on a network without keys; then everybody who reaches "
               "the endpoint controls the cluster");
  app.add_option("--run-dir", x.run_dir, "directory of its files")
      ->capture_default_str();
  app.add_option("--store", x.store_path,
                 "file that keeps its state across restarts (default: "
                 "manager.store in the run directory)");
  app.add_option("--audit", x.audit_path,
                 "file of the audit log, which names the principal of every "
                 "order (default: the store's, with .audit)");
  app.add_option("--lost-after", x.lost_after_ms,
                 "milliseconds without a heartbeat after which a node is lost")
      ->check(CLI::Range(20, 3'600'000))
      ->capture_default_str();
  app.add_option(
         "--reconnect-within", x.reconnect_ms,
         "milliseconds that the peer of a closed connection has to reconnect")
      ->check(CLI::Range(0, 3'600'000))
      ->capture_default_str();
  app.add_option(
         "--client-grace", x.client_grace_ms,
         "milliseconds from the loss of a client until its sessions are closed")
      ->check(CLI::Range(0, 86'400'000))
      ->capture_default_str();
  app.add_option("--restart-grace", x.restart_grace_ms,
                 "milliseconds that sessions wait for their client to "
                 "reconnect after a restart of the manager")
      ->check(CLI::Range(0, 86'400'000))
      ->capture_default_str();
  app.add_option("--end-when-idle", x.idle_ms,
                 "milliseconds without a program after which the manager exits "
                 "(default: never)")
      ->check(CLI::Range(0, 86'400'000));
  app.add_option("--etcd", x.etcd,
                 "for several managers: the etcd cluster in which they elect "
                 "their leader, http://HOST:PORT[,http://HOST:PORT...]")
      ->check([](const std::string& text) {
        auto good = parse_etcd_members(text);
        return good ? std::string{} : good.why().what;
      });
  auto* lease = app.add_option("--lease", x.lease_s,
                               "seconds without a sign of the leader after "
                               "which another manager takes over")
                    ->check(CLI::Range(2, 60))
                    ->capture_default_str();
  auto* prefix =
      app.add_option(
             "--etcd-prefix", x.etcd_prefix,
             "prefix of the cluster's keys in etcd; each cluster needs its own")
          ->check([](const std::string& text) {
            return text.empty() || text.size() > 200 ? "give 1 to 200 bytes"
                                                     : std::string{};
          })
          ->capture_default_str();
  for (auto* option : {lease, prefix})
    option->needs("--etcd");
  describe_balance(app, x.balance);
  describe_overcommit(app, x.promises);
  describe_placement(app, x.placement);
  describe_metrics(app, x.metrics);
  describe(app, x.ties);
  app.footer(
      "Example, for nodes on other hosts:\n"
      "  vgpu keys init tcp://10.0.0.1:7070\n"
      "  vgpu-manager --listen tcp://10.0.0.1:7070\n"
      "One of two, on different hosts:\n"
      "  vgpu-manager --listen tcp://10.0.0.1:7070 --etcd "
      "http://10.0.0.9:2379\n"
      "VGPU_LOG=error|warn|info|debug sets the level of the log on stderr.\n"
      "On SIGTERM or SIGINT the manager shuts down cleanly.");
}

manager_options options_of(const options& x, const std::string& endpoint,
                           const placement_choice& placement) {
  manager_options out;
  out.endpoint = endpoint;
  out.liveness.lost_after = milliseconds{x.lost_after_ms};
  out.liveness.reconnect_within = milliseconds{x.reconnect_ms};
  out.beat_every = std::clamp(milliseconds{x.lost_after_ms / 5},
                              milliseconds{10}, milliseconds{1000});
  out.client_grace = milliseconds{x.client_grace_ms};
  out.restart_grace = milliseconds{x.restart_grace_ms};
  if (x.idle_ms)
    out.end_when_idle = milliseconds{*x.idle_ms};
  if (!x.balance.empty())
    out.balance_every = balance_every(x.balance);
  out.swapping = swapping_of(x.promises);
  out.placement = placement.how;
  out.own_placement = placement.own;
  out.placement_name = placement.name;
  out.random = random_number;
  out.wall_time = wall_time;
  return out;
}

manager_actor spawn_manager(caf::actor_system& system, const options& x,
                            manager_options what, std::shared_ptr<store> kept,
                            const link_actor& link) {
  if (x.etcd.empty())
    return system.spawn(manager, std::move(what), std::move(kept), link);
  candidacy how;
  how.election.endpoint = what.endpoint;
  how.election.lease = std::chrono::seconds{x.lease_s};
  how.etcd = make_etcd_client(*parse_etcd_members(x.etcd), x.etcd_prefix);
  return system.spawn(manager_candidate, std::move(what), std::move(kept), link,
                      std::move(how));
}

int complain(const std::string& what) {
  std::cerr << "vgpu-manager: " << what << std::endl;
  return 1;
}

/// Fails where everybody on a network could be the manager's peer, unless that
/// is wanted. Then it is told each time.
status check_network(const options& x, bool has_keys) {
  if (has_keys || !leaves_host(x.listen))
    return {};
  if (!x.insecure_network)
    return fault{fault_kind::refused,
                 "--listen " + x.listen +
                     ": other hosts reach it, and there are no keys. Run "
                     "`vgpu keys init " +
                     x.listen +
                     "` first, or give --insecure-network where you trust "
                     "everybody on the network"};
  spdlog::warn("--insecure-network: everybody who reaches {} controls this "
               "cluster, and nothing is encrypted",
               x.listen);
  return {};
}

int serve(options x) {
  // Each node, client and command has a connection.
  constexpr std::uint64_t most_connections = 1 << 20;
  allow_many_descriptors(most_connections);
  main_loop loop;
  if (x.listen.empty())
    x.listen = endpoint_in(x.run_dir);
  if (auto good = check_endpoint(x.listen); !good)
    return complain(good.why().what);
  if (auto made = make_private_dir(x.run_dir); !made)
    return complain(made.why().what);
  run_dir_part part{x.ties.remove_run_dir ? run_dir_part{x.run_dir}
                                          : run_dir_part{}};
  if (somebody_listens(x.listen))
    return complain("another process already listens on " + x.listen +
                    "; `vgpu status` shows which one");
  auto placement = read_placement(x.placement.empty() ? placement_choice{}.name
                                                      : x.placement);
  if (!placement)
    return complain(placement.why().what);
  if (x.store_path.empty())
    x.store_path = x.run_dir + "/manager.store";
  if (x.audit_path.empty())
    x.audit_path = x.store_path + ".audit";
  auto kept = store::open(x.store_path);
  if (!kept)
    return complain(kept.why().what);
  auto trail = audit_log::open(x.audit_path, wall_time());
  if (!trail)
    return complain(trail.why().what);
  zmq::context_t zmq;
  auto keys = served_keys::open(zmq, key_folder{}, x.listen);
  if (!keys)
    return complain(keys.why().what);
  system_config config;
  caf::actor_system system{config};
  link_options where;
  where.as = link_options::form::bind;
  where.endpoint = x.listen;
  where.name = "manager";
  if (auto good = check_network(x, *keys != nullptr); !good)
    return complain(good.why().what);
  if (*keys)
    where.keys = (*keys)->link();
  auto link = spawn_link(system, zmq, where);
  if (!link)
    return complain(link.why().what);
  auto how = options_of(x, link->endpoint, *placement);
  how.audit = std::move(*trail);
  how.insecure_network = leaves_host(x.listen) && !*keys;
  if (*keys) {
    how.enroll = (*keys)->enroller();
    how.permitted = (*keys)->permitted();
    how.rotation = (*keys)->rotation();
    how.renew = (*keys)->renewer();
  }
  auto brain =
      spawn_manager(system, x, std::move(how),
                    std::shared_ptr<store>{std::move(*kept)}, link->actor);
  loop.on_signal([&brain] { caf::anon_send(brain, manager_resign{}); });
  caf::anon_send(link->actor, control_consumer{brain});
  if (*keys)
    (*keys)->drive(link->actor, brain);
  // This handle keeps the actor alive: no other reference exists, and CAF ends
  // an unreachable actor.
  auto guard =
      system.spawn(end_watch, caf::actor_cast<caf::strong_actor_ptr>(brain),
                   &loop, [&loop] { loop.stop(); });
  if (x.ties.owner_fd >= 0)
    loop.watch_owner(x.ties.owner_fd, [&loop] { loop.stop(); });
  spdlog::info("Listening on {}{}", link->endpoint, *keys ? ", with keys" : "");
  auto metrics = metrics_server::start(system, brain, x.metrics);
  if (metrics) {
    if (*metrics)
      spdlog::info("Serving metrics at {}", (*metrics)->url());
    say_ready(x.ties, link->endpoint);
    loop.run();
    metrics->reset();
  }
  if (*keys)
    (*keys)->rest();
  end_actor(system, brain);
  end_actor(system, link->actor);
  end_actor(system, guard);
  system.clock().cancel_all();
  return metrics ? 0 : complain("--metrics: " + metrics.why().what);
}

} // namespace

int main(int argc, char** argv) {
  options x;
  CLI::App app;
  describe(app, x);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  start_log("vgpu-manager");
  try {
    return serve(std::move(x));
  } catch (const std::exception& e) {
    return complain(e.what());
  }
}
