// `vgpu status` and `vgpu events`.
#include "actors/link/printable.hpp"
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

void print_node(const json& node, bool detail) {
  std::cout << "node " << text(node["name"]) << "  " << text(node["state"])
            << "  process " << node["pid"] << "\n";
  // An older manager or node says nothing about it.
  if (detail && !node.value("sandbox", "").empty())
    std::cout << "  sandbox: " << text(node["sandbox"]) << "\n";
  for (const auto& pgpu : node["pgpus"])
    std::cout << "  pGPU " << pgpu["ordinal"] << "  " << text(pgpu["name"])
              << "  " << text(pgpu["state"]) << "  " << show_size(pgpu["used"])
              << " of " << show_size(pgpu["memory"]) << " used  "
              << pgpu["sessions"].size() << " session(s)  load "
              << std::round(pgpu["load"].get<double>() * 10) / 10 << "  "
              << text(pgpu["policy"]) << ", quantum " << pgpu["quantum_ms"]
              << " ms\n";
}

/// Prints a session's memory on a line of its own.
void print_memory(const json& session) {
  auto known = [&](const char* what) {
    const auto& bytes = session["beside"][what];
    return bytes.is_null() ? std::string{"not known"} : show_size(bytes);
  };
  std::cout << "    memory: " << show_size(session["memory"])
            << " allocated of " << show_size(session["quota"])
            << "; in addition: variables " << known("variables") << ", code "
            << known("code") << ", context " << known("context") << "\n";
}

void print_vgpu(const json& vgpu, bool detail) {
  std::cout << "vgpu " << vgpu["id"] << "  share " << vgpu["share"]
            << "  limit " << vgpu["limit"] << "  priority " << vgpu["priority"]
            << "  memory "
            << (vgpu["memory"] == 0u ? "by share" : show_size(vgpu["memory"]))
            << "  protection " << text(vgpu["protection"]) << "\n";
  for (const auto& session : vgpu["sessions"]) {
    std::cout << "  session " << session["id"] << "  " << text(session["state"])
              << "  epoch " << session["epoch"];
    if (!text(session["node"]).empty())
      std::cout << "  on " << text(session["node"]) << " pGPU "
                << session["pgpus"].dump();
    if (!text(session["waiting_because"]).empty())
      std::cout << " (" << text(session["waiting_because"]) << ")";
    std::cout << "  " << text(session["program"]) << " [" << session["pid"]
              << "]  " << show_size(session["memory"]) << "  "
              << session["calls"] << " calls\n";
    // A manager of an earlier release does not know it.
    auto recovers = session.value("recovers", std::string{});
    if (!recovers.empty())
      std::cout << "    protection: " << recovers << "\n";
    if (detail)
      print_memory(session);
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
  auto all = json::parse(answer);
  std::cout << "manager at " << text(all["manager"]["endpoint"]);
  if (all["manager"].value("term", 0u) != 0)
    std::cout << "  leads, term " << all["manager"]["term"];
  std::cout << "  process " << all["manager"]["pid"] << "  up "
            << static_cast<std::uint64_t>(
                   all["manager"]["uptime"].get<double>())
            << " s\n";
  for (const auto& node : all["nodes"])
    print_node(node, x.detail);
  for (const auto& vgpu : all["vgpus"])
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
