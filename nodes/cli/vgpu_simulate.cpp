// `vgpu simulate`: simulates days of a cluster in seconds.
#include "nodes/cli/vgpu_commands.hpp"
#include "nodes/support/balance_option.hpp"
#include "nodes/support/overcommit_option.hpp"
#include "nodes/support/placement_option.hpp"
#include "policies/simulator/report.hpp"
#include "policies/simulator/simulation.hpp"
#include "policies/simulator/trace.hpp"
#include "policies/simulator/workload.hpp"
#include "schema/base/sizes.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

namespace vgpu::command {

namespace {

constexpr const char* simulate_name = "simulate";
/// Gives the number of GPUs above which balancing is off, because sampling all
/// of them each second would take longer than everything else.
constexpr std::size_t most_balanced = 4096;
constexpr std::size_t most_simulated =
    1'000'000; // the largest number of nodes, and of GPUs

struct simulate_options {
  std::string trace;
  bool generate = false;
  simulator::workload_options workload;
  std::string sizes;
  std::string write;
  simulator::cluster_shape cluster;
  std::string memory = "80GiB";
  std::string placement = "least-loaded,bin-pack,spread";
  std::string sharing = "best-effort";
  std::string balance;
  std::string copy_rate = "5G";
  overcommit promises;
  bool as_json = false;
  std::string plot;
};

/// Describes a message and its exit code.
struct simulate_failure {
  std::string what;
  int code = wrong_usage;
};
template <class T>
using outcome_of = std::variant<T, simulate_failure>;

simulate_failure cannot(const std::string& what, const std::string& file) {
  return {"cannot " + what + " '" + file + "': " + std::strerror(errno),
          failed};
}

outcome_of<std::vector<simulator::arrival>> read_file(const std::string& name) {
  if (name == "-") {
    auto got = simulator::read_trace(std::cin, "standard input");
    if (!got)
      return simulate_failure{got.why().what};
    return std::move(*got);
  }
  errno = 0;
  std::error_code error;
  if (std::filesystem::is_directory(name, error))
    errno = EISDIR;
  std::ifstream from;
  if (errno != EISDIR)
    from.open(name, std::ios::binary);
  if (!from.is_open())
    return cannot("read", name);
  auto got = simulator::read_trace(from, name);
  if (!got)
    return simulate_failure{got.why().what};
  return std::move(*got);
}

std::optional<simulate_failure>
write_file(const std::string& name,
           const std::function<void(std::ostream&)>& what) {
  std::ofstream to{name, std::ios::binary};
  if (to)
    what(to);
  to.close();
  if (!to)
    return cannot("write", name);
  return {};
}

/// Parses the options that are given as text.
vgpu::status read_words(simulate_options& x,
                        simulator::simulation_options& to) {
  auto memory = parse_size(x.memory);
  if (!memory)
    return memory.why().reworded("--memory: " + memory.why().what);
  x.cluster.memory = *memory;
  auto rate = parse_size(x.copy_rate);
  if (!rate)
    return rate.why().reworded("--copy-rate: " + rate.why().what);
  to.copy_rate = static_cast<double>(*rate);
  to.sharing = *policy::parse_share_policy(x.sharing);
  if (!x.sizes.empty()) {
    auto sizes = simulator::read_sizes(x.sizes);
    if (!sizes)
      return sizes.why().reworded("--" + sizes.why().what);
    x.workload.sizes = std::move(*sizes);
  }
  auto pgpus = x.cluster.nodes * x.cluster.gpus_per_node;
  if (pgpus > most_simulated)
    return fault{fault_kind::usage,
                 "--nodes times --gpus-per-node is " + std::to_string(pgpus) +
                     ": give at most " + std::to_string(most_simulated)};
  auto every = x.balance.empty()
                   ? std::optional{std::chrono::milliseconds{1000}}
                   : balance_every(x.balance);
  to.balance_every.reset();
  if (every && !(x.balance.empty() && pgpus > most_balanced))
    to.balance_every = std::chrono::duration<double>(*every).count();
  to.cluster = x.cluster;
  return {};
}

result<std::vector<placement_choice>> read_policies(const std::string& text) {
  std::vector<placement_choice> out;
  std::istringstream names{text};
  for (std::string name; std::getline(names, name, ',');) {
    auto one = read_placement(name);
    if (!one)
      return one.why().reworded("--placement: " + one.why().what);
    one->name = name; // the name as it was given
    out.push_back(std::move(*one));
  }
  if (out.empty())
    return fault{fault_kind::usage, "--placement: give " + placement_range()};
  return out;
}

int simulate(simulate_options x) {
  auto fail = [](const simulate_failure& why) {
    return complain(simulate_name, why.what, why.code);
  };
  simulator::simulation_options how;
  if (auto good = read_words(x, how); !good)
    return fail({good.why().what});
  auto policies = read_policies(x.placement);
  if (!policies)
    return fail({policies.why().what});
  auto trace =
      x.generate
          ? outcome_of<std::vector<simulator::arrival>>{simulator::generate(
                x.workload, x.cluster)}
          : read_file(x.trace);
  if (auto* why = std::get_if<simulate_failure>(&trace))
    return fail(*why);
  const auto& arrivals = std::get<0>(trace);
  if (!x.write.empty())
    if (auto why = write_file(x.write, [&](std::ostream& to) {
          simulator::write_trace(to, arrivals);
        }))
      return fail(*why);
  std::vector<simulator::result_of_policy> rows;
  for (auto& each : *policies) {
    how.placement = each.how;
    how.own = each.own;
    how.swapping = {};
    rows.push_back({each.name, simulator::simulate(arrivals, how)});
    // A second row shows the effect of memory swapping.
    how.swapping = swapping_of(x.promises);
    if (auto promised = how.swapping.promised; promised > 1)
      rows.push_back({each.name, simulator::simulate(arrivals, how), promised});
  }
  simulator::setting all{x.cluster, arrivals.size()};
  if (!x.plot.empty())
    if (auto why = write_file(x.plot, [&](std::ostream& to) {
          to << simulator::svg_of(all, rows);
        }))
      return fail(*why);
  std::cout << (x.as_json ? simulator::json_of(all, rows) + "\n"
                          : simulator::table_of(all, rows));
  std::cout.flush();
  return succeeded;
}

void add_workload_options(CLI::App& sub, simulate_options& x) {
  auto positive = CLI::Range(1e-6, 1e9);
  sub.add_flag("--generate", x.generate,
               "generate a trace instead of reading one");
  sub.add_option("--seed", x.workload.seed, "seed of the random numbers")
      ->capture_default_str();
  sub.add_option("--vgpus", x.workload.vgpus, "number of vGPUs that arrive")
      ->check(CLI::Range(std::size_t{1}, simulator::most_arrivals))
      ->capture_default_str();
  sub.add_option("--rate", x.workload.rate,
                 "average number of arrivals per second (default: as many as "
                 "keep 85 % of the GPUs busy)")
      ->check(positive);
  sub.add_option("--run-time", x.workload.run_time,
                 "average run time of a vGPU in seconds")
      ->check(positive)
      ->capture_default_str();
  sub.add_option(
      "--sizes", x.sizes,
      "requested shares, each with its weight (default 0.125:3,0.25:2,0.5,1)");
  sub.add_option("--idle", x.workload.idle,
                 "fraction of the vGPUs that are idle half way, for as long as "
                 "they run")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  sub.add_option("--write", x.write, "write the trace to this file as well");
}

void add_cluster_options(CLI::App& sub, simulate_options& x) {
  sub.add_option("--nodes", x.cluster.nodes, "number of nodes of the cluster")
      ->check(CLI::Range(std::size_t{1}, most_simulated))
      ->capture_default_str();
  sub.add_option("--gpus-per-node", x.cluster.gpus_per_node,
                 "number of GPUs of each node")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  sub.add_option("--memory", x.memory, "memory of each GPU")
      ->capture_default_str();
  sub.add_option("--placement", x.placement,
                 "placement policies to compare, separated by commas: " +
                     placement_range())
      ->capture_default_str();
  std::vector<std::string> policies{policy::share_policy_names.begin(),
                                    policy::share_policy_names.end()};
  sub.add_option("--sharing", x.sharing, "how a GPU's time is shared")
      ->check(CLI::IsMember(policies))
      ->capture_default_str();
  sub.add_option("--balance", x.balance,
                 "seconds between checks for overloaded GPUs, or off (default: "
                 "1, or off with more than 4096 GPUs)")
      ->check([](const std::string& text) {
        return text == "off" || balance_every(text)
                   ? std::string{}
                   : "'" + text + "': give seconds from 0.1 to 3600, or off";
      });
  sub.add_option("--copy-rate", x.copy_rate,
                 "bytes per second at which a migration copies a vGPU's memory")
      ->capture_default_str();
  describe_overcommit(sub, x.promises);
}

} // namespace

void add_simulate_command(CLI::App& app, job& todo) {
  auto x = std::make_shared<simulate_options>();
  auto* sub = app.add_subcommand(
      "simulate",
      "Runs a trace of vGPUs through the manager's policies in virtual time,\n"
      "and compares placements. Needs no cluster and no GPU.");
  auto* trace = sub->add_option(
      "TRACE", x->trace,
      "a file with one JSON object per line; - reads standard input");
  add_workload_options(*sub, *x);
  trace->excludes("--generate");
  add_cluster_options(*sub, *x);
  sub->add_flag("--json", x->as_json,
                "print JSON, including all values over time");
  sub->add_option("--plot", x->plot,
                  "draw utilisation, queue and waiting to this SVG file");
  sub->footer(
      "A line of a trace is a vGPU: when it comes and how long it runs, in\n"
      "seconds, and any option of `vgpu run`:\n"
      "  {\"at\": 12.5, \"runs\": 300, \"share\": 0.25, \"memory\": \"8GiB\"}\n"
      "  {\"at\": 13, \"runs\": 60, \"load\": 0.4, \"host\": \"node3\",\n"
      "   \"idle-after\": 30, \"idle\": [[20, 600]]}\n"
      "(each on one line; docs/using/simulator.md describes all fields).\n"
      "Examples:\n"
      "  vgpu simulate --generate --nodes 100 --vgpus 20000 --plot days.svg\n"
      "  vgpu simulate recorded.jsonl --nodes 12 --placement bin-pack,spread\n"
      "  vgpu simulate --generate --rate 2 --write made.jsonl --json |\n"
      "    jq '.policies[] | {placement, fairness}'\n"
      "Exit codes: 0 success, 1 a file cannot be read or written, 2 wrong "
      "usage or\n"
      "a wrong line in the trace.");
  sub->callback([x, &todo] {
    if (!x->generate && x->trace.empty())
      throw CLI::RequiredError("TRACE or --generate");
    todo = [x] { return simulate(*x); };
  });
}

} // namespace vgpu::command
