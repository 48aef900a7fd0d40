// `vgpu status` and `vgpu events`.
#include "actors/link/printable.hpp"
#include "actors/records/checked_json.hpp"
#include "actors/records/records_json.hpp"
#include "nodes/cli/command_client.hpp"
#include "nodes/cli/vgpu_commands.hpp"
#include "schema/base/sizes.hpp"

#include <cmath>
#include <ctime>
#include <iostream>
#include <memory>
#include <thread>

namespace vgpu::command {

using nlohmann::json;
using std::chrono::milliseconds;

namespace {

/// Says how long one request for further events waits.
constexpr std::uint32_t wait_ms = 30'000;

struct show_options {
  target where;
  bool as_json = false;
  bool detail = false;
  bool follow = false;
  std::uint64_t after = 0;
  double since = 0; // events before this time were shown already

  std::string endpoint() const { return where.endpoint(); }
};

/// Returns a peer's text in a form that takes one line.
std::string text(const json& x) {
  return shown(text_of(x));
}

// -- status -------------------------------------------------------------------

/// A tenant is told of no processes but those of its own sessions.
std::string process_text(const json& pid) {
  return pid == 0u ? std::string{} : "  process " + pid.dump();
}

void print_node(const json& node, bool detail) {
  std::cout << "node " << text(node.at("name")) << "  "
            << text(node.at("state")) << process_text(node.at("pid")) << "\n";
  // An older manager or node says nothing about it.
  if (node.value("insecure_network", false))
    std::cout << "  WARNING: its workers listen on a network without keys\n";
  if (detail && !node.value("sandbox", "").empty())
    std::cout << "  sandbox: " << text(node.at("sandbox")) << "\n";
  for (const auto& pgpu : node.at("pgpus"))
    std::cout << "  pGPU " << pgpu.at("ordinal") << "  "
              << text(pgpu.at("name")) << "  " << text(pgpu.at("state")) << "  "
              << show_size(pgpu.at("used")) << " of "
              << show_size(pgpu.at("memory")) << " used  "
              << pgpu.at("sessions").size() << " session(s)  load "
              << std::round(pgpu.at("load").get<double>() * 10) / 10 << "  "
              << text(pgpu.at("policy")) << ", quantum "
              << pgpu.at("quantum_ms") << " ms\n";
}

/// Prints a session's memory on a line of its own.
void print_memory(const json& session) {
  auto known = [&](const char* what) {
    const auto& bytes = session.at("beside").at(what);
    return bytes.is_null() ? std::string{"not known"} : show_size(bytes);
  };
  std::cout << "    memory: " << show_size(session.at("memory"))
            << " allocated of " << show_size(session.at("quota"))
            << "; in addition: variables " << known("variables") << ", code "
            << known("code") << ", context " << known("context") << "\n";
}

void print_vgpu(const json& vgpu, bool detail) {
  std::cout << "vgpu " << vgpu.at("id") << "  share " << vgpu.at("share")
            << "  limit " << vgpu.at("limit") << "  priority "
            << vgpu.at("priority") << "  memory "
            << (vgpu.at("memory") == 0u ? "by share"
                                        : show_size(vgpu.at("memory")))
            << "  protection " << text(vgpu.at("protection"));
  // A manager of an earlier release does not know it.
  if (detail && vgpu.contains("on_divergence"))
    std::cout << "  on divergence " << text(vgpu.at("on_divergence"));
  std::cout << "\n";
  for (const auto& session : vgpu.at("sessions")) {
    std::cout << "  session " << session.at("id") << "  "
              << text(session.at("state")) << "  epoch " << session.at("epoch");
    if (!text(session.at("node")).empty())
      std::cout << "  on " << text(session.at("node")) << " pGPU "
                << session.at("pgpus").dump();
    if (!text(session.at("waiting_because")).empty())
      std::cout << " (" << text(session.at("waiting_because")) << ")";
    std::cout << "  " << text(session.at("program")) << " ["
              << session.at("pid") << "]  " << show_size(session.at("memory"))
              << "  " << session.at("calls") << " calls\n";
    // A manager of an earlier release does not know it.
    auto recovers = session.value("recovers", std::string{});
    if (!recovers.empty())
      std::cout << "    protection: " << recovers << "\n";
    if (!detail)
      continue;
    if (session.value("standby", false))
      std::cout << "    a standby has its objects, and serves it if its worker "
                   "dies\n";
    print_memory(session);
    auto touches = session.value("managed_memory", std::string{});
    if (!touches.empty())
      std::cout << "    " << touches << "\n";
  }
}

int status(const show_options& x) {
  auto manager = command_client::connect(x.endpoint(), patience);
  if (!manager)
    return complain("status", manager.why());
  auto got = (*manager)->ask(control::status_request{}, patience);
  if (!got)
    return complain("status", got.why());
  const auto& answer = std::get<control::status_text>(*got).json;
  if (x.as_json) {
    std::cout << answer << std::endl;
    return succeeded;
  }
  auto all = parse_json(answer);
  std::cout << "manager at " << text(all.at("manager").at("endpoint"));
  if (all.at("manager").value("term", 0u) != 0)
    std::cout << "  leads, term " << all.at("manager").at("term");
  std::cout << process_text(all.at("manager").at("pid")) << "  up "
            << static_cast<std::uint64_t>(
                   all.at("manager").at("uptime").get<double>())
            << " s\n";
  if (all.at("manager").value("insecure_network", false))
    std::cout << "WARNING: everybody who reaches the manager controls this "
                 "cluster; it has no keys (--insecure-network)\n";
  for (const auto& node : all.at("nodes"))
    print_node(node, x.detail);
  for (const auto& vgpu : all.at("vgpus"))
    print_vgpu(vgpu, x.detail);
  return succeeded;
}

// -- events -------------------------------------------------------------------

std::string clock_time(double when) {
  auto seconds = static_cast<std::time_t>(when);
  std::tm parts = {};
  ::localtime_r(&seconds, &parts);
  char out[32];
  auto n = std::strftime(out, sizeof(out), "%H:%M:%S", &parts);
  auto ms = static_cast<int>((when - static_cast<double>(seconds)) * 1000);
  std::snprintf(out + n, sizeof(out) - n, ".%03d", ms);
  return out;
}

void print(const control::event& x, bool as_json) {
  if (as_json) {
    std::cout << to_line(to_json(x)) << "\n";
    return;
  }
  std::cout << clock_time(x.time) << "  " << shown(x.kind);
  if (x.session)
    std::cout << "  session " << x.session.value;
  if (x.epoch)
    std::cout << " epoch " << x.epoch.value;
  std::cout << "  " << shown(x.text);
  if (x.calls != 0)
    std::cout << "  " << x.calls << " calls";
  if (x.bytes != 0)
    std::cout << "  " << show_size(x.bytes);
  if (x.milliseconds != 0)
    std::cout << "  " << x.milliseconds << " ms";
  std::cout << "\n";
}

/// Prints events from one connection until it is lost (a fault) or, without
/// --follow, until no more events are left.
vgpu::status print_events(command_client& manager, show_options& x,
                          double& last) {
  for (;;) {
    auto got =
        manager.ask(control::events_request{x.after, x.follow ? wait_ms : 0},
                    milliseconds{wait_ms} + patience);
    if (!got)
      return got.why();
    const auto& list = std::get<control::events>(*got).list;
    for (const auto& event : list) {
      x.after = event.number;
      if (event.time < x.since)
        continue;
      print(event, x.as_json);
      last = event.time;
    }
    std::cout.flush();
    if (list.empty() && !x.follow)
      return {};
  }
}

int events(show_options x) {
  auto manager = command_client::connect(x.endpoint(), patience);
  if (!manager)
    return complain("events", manager.why());
  auto last = 0.0;
  auto done = print_events(**manager, x, last);
  // This waits for a manager that is restarting. Another leader numbers its
  // events anew, and may repeat earlier ones.
  while (!done && x.follow) {
    auto term = (*manager)->term();
    manager->reset();
    manager = command_client::connect(x.endpoint(), milliseconds{wait_ms},
                                      milliseconds{wait_ms});
    if (!manager)
      return complain("events", manager.why());
    if ((*manager)->term() != term) {
      x.after = 0;
      x.since = last;
    }
    done = print_events(**manager, x, last);
  }
  return done ? succeeded : complain("events", done.why());
}

void add_common(CLI::App& sub, show_options& x) {
  sub.add_flag("--json", x.as_json, "print JSON");
  x.where.add_to(sub);
}

} // namespace

void add_show_commands(CLI::App& app, job& todo) {
  auto x = std::make_shared<show_options>();
  auto* show = app.add_subcommand(
      "status", "Shows the nodes, their GPUs and the sessions on them.");
  add_common(*show, *x);
  show->add_flag(
      "--detail", x->detail,
      "show also what the workers of each node may not do, and the GPU memory "
      "that each session uses in addition to its allocations: variables and "
      "code of its modules, its context");
  show->footer("Examples:\n  vgpu status\n"
               "  vgpu status --detail\n"
               "  vgpu status --json | jq '.vgpus[].sessions[]'");
  show->callback([x, &todo] { todo = [x] { return status(*x); }; });

  auto y = std::make_shared<show_options>();
  auto* tell = app.add_subcommand(
      "events", "Shows what happened in the cluster, oldest first.");
  add_common(*tell, *y);
  tell->add_flag("--follow,-f", y->follow, "keep printing new events");
  tell->add_option("--after", y->after, "only events with a higher number");
  tell->footer("Examples:\n  vgpu events\n  vgpu events --follow --json");
  tell->callback([y, &todo] { todo = [y] { return events(*y); }; });
}

} // namespace vgpu::command
