// `vgpu suspend`, `resume`, `migrate` and `drain`.
#include "actors/records/checked_json.hpp"
#include "actors/records/records_json.hpp"
#include "nodes/cli/command_client.hpp"
#include "nodes/cli/vgpu_commands.hpp"

#include <charconv>
#include <chrono>
#include <iostream>
#include <memory>
#include <thread>

namespace vgpu::command {

using nlohmann::json;
using std::chrono::milliseconds;

namespace {

/// This is longer than the manager waits for a worker to come to rest.
constexpr auto longest_move = milliseconds{120'000};
constexpr auto look_every = milliseconds{50};

/// Parses `17` or `vgpu/17`.
result<vgpu_id> parse_vgpu(std::string text) {
  constexpr std::string_view prefix = "vgpu/";
  if (text.starts_with(prefix))
    text.erase(0, prefix.size());
  std::uint64_t number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number == 0)
    return fault{
        fault_kind::usage,
        "'" + text +
            "' is not a vGPU: give its number, as `vgpu status` shows it"};
  return vgpu_id{number};
}

/// Parses `NODE` or `NODE/PGPU`.
result<control::migrate_vgpu> parse_target(vgpu_id what,
                                           const std::string& text) {
  control::migrate_vgpu out{what, text, -1};
  auto slash = text.rfind('/');
  if (slash == std::string::npos)
    return out;
  out.node = text.substr(0, slash);
  auto* begin = text.data() + slash + 1;
  auto [end, error] =
      std::from_chars(begin, text.data() + text.size(), out.pgpu);
  if (error != std::errc{} || end != text.data() + text.size() ||
      out.pgpu < 0 || out.node.empty())
    return fault{fault_kind::usage,
                 "'" + text + "' is not a GPU: give NODE or NODE/PGPU"};
  return out;
}

struct movement_options {
  target where;
  std::string name; // a vGPU or a node
  std::string to;
  bool flag = false;
};

int suspend(const movement_options& x) {
  auto vgpu = parse_vgpu(x.name);
  if (!vgpu)
    return complain("suspend", vgpu.why().what, wrong_usage);
  return order("suspend", x.where, control::suspend_vgpu{*vgpu, x.flag},
               longest_move);
}

int resume(const movement_options& x) {
  auto vgpu = parse_vgpu(x.name);
  if (!vgpu)
    return complain("resume", vgpu.why().what, wrong_usage);
  return order("resume", x.where, control::resume_vgpu{*vgpu}, longest_move);
}

int migrate(const movement_options& x) {
  auto vgpu = parse_vgpu(x.name);
  if (!vgpu)
    return complain("migrate", vgpu.why().what, wrong_usage);
  auto what = parse_target(*vgpu, x.to);
  if (!what)
    return complain("migrate", what.why().what, wrong_usage);
  return order("migrate", x.where, *what, longest_move);
}

/// Describes the sessions that a node still has, and whether one of them is
/// moving.
struct left_there {
  std::string vgpus;
  bool moving = false;
};

left_there look(const json& status, const std::string& node) {
  left_there out;
  for (const auto& vgpu : status.at("vgpus"))
    for (const auto& session : vgpu.at("sessions")) {
      if (session.at("node") != node)
        continue;
      out.vgpus += (out.vgpus.empty() ? "" : ", ") + vgpu.at("id").dump();
      out.moving = out.moving || session.at("moving").get<bool>() ||
                   session.at("state") == "placing";
    }
  return out;
}

int drain(const movement_options& x) {
  auto manager = command_client::connect(x.where.endpoint(), patience);
  if (!manager)
    return complain("drain", manager.why());
  auto got = (*manager)->ask(control::drain_node{x.name, x.flag}, longest_move);
  if (!got)
    return complain("drain", got.why());
  auto until = std::chrono::steady_clock::now() + longest_move;
  while (!x.flag) {
    auto status = (*manager)->ask(control::status_request{}, longest_move);
    if (!status)
      return complain("drain", status.why());
    auto left =
        look(parse_json(std::get<control::status_text>(*status).json), x.name);
    if (left.vgpus.empty())
      break;
    if (!left.moving || std::chrono::steady_clock::now() > until)
      return complain("drain", "node " + x.name + " still has vGPU " +
                                   left.vgpus +
                                   "; `vgpu events` says why each stays");
    // The loop asks the manager at intervals until nothing is left.
    std::this_thread::sleep_for(look_every);
  }
  return succeeded;
}

using act = int (*)(const movement_options&);

CLI::App* add(CLI::App& app, job& todo, const char* name, const char* what,
              const std::shared_ptr<movement_options>& x, act run) {
  auto* sub = app.add_subcommand(name, what);
  x->where.add_to(*sub);
  sub->callback([x, run, &todo] { todo = [x, run] { return run(*x); }; });
  return sub;
}

} // namespace

void add_movement_commands(CLI::App& app, job& todo) {
  auto x = std::make_shared<movement_options>();
  auto* sub =
      add(app, todo, "suspend",
          "Suspends a vGPU, which frees its GPU; its next call resumes it.", x,
          suspend);
  sub->add_option("VGPU", x->name, "the vGPU's number")->required();
  sub->add_flag("--hold", x->flag, "only `vgpu resume` resumes it");
  sub->footer("A checkpoint on its program's host keeps its memory. Examples:\n"
              "  vgpu suspend 1\n"
              "  vgpu suspend 1 --hold");

  x = std::make_shared<movement_options>();
  sub = add(app, todo, "resume", "Resumes a suspended vGPU.", x, resume);
  sub->add_option("VGPU", x->name, "the vGPU's number")->required();
  sub->footer("Example:\n  vgpu resume 1");

  x = std::make_shared<movement_options>();
  sub =
      add(app, todo, "migrate",
          "Migrates a vGPU to another GPU while its program runs.", x, migrate);
  sub->add_option("VGPU", x->name, "the vGPU's number")->required();
  sub->add_option("--to", x->to,
                  "NODE or NODE/PGPU (default: the manager chooses)");
  sub->footer("Examples:\n  vgpu migrate 1\n  vgpu migrate 1 --to b\n"
              "  vgpu migrate 1 --to b/0");

  x = std::make_shared<movement_options>();
  sub = add(app, todo, "drain",
            "Migrates all vGPUs off a node and places none on it.", x, drain);
  sub->add_option("NODE", x->name, "the node")->required();
  sub->add_flag("--undo", x->flag, "allow placement on the node again");
  sub->footer("Examples:\n  vgpu drain a\n  vgpu drain a --undo");
}

} // namespace vgpu::command
