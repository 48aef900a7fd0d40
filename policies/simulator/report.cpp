#include "policies/simulator/report.hpp"

#include <nlohmann/json.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <vector>

namespace vgpu::simulator {

namespace {

double pgpus_of(const setting& all) {
  return static_cast<double>(all.cluster.nodes) * all.cluster.gpus_per_node;
}

[[gnu::format(printf, 1, 2)]] std::string print(const char* form, ...) {
  char out[96];
  va_list values;
  va_start(values, form);
  std::vsnprintf(out, sizeof out, form, values);
  va_end(values);
  return out;
}

std::string percent(double part) {
  return print("%.1f %%", 100 * part);
}

std::string time_text(double seconds) {
  constexpr double minute = 60;
  constexpr double hour = 3600;
  if (seconds < minute)
    return print("%.1f s", seconds);
  if (seconds < 2 * hour)
    return print("%.1f min", seconds / minute);
  return print("%.1f h", seconds / hour);
}

double local_part(const outcome& x) {
  return static_cast<double>(x.local) /
         static_cast<double>(std::max<std::size_t>(x.could_be_local, 1));
}

using cells = std::vector<std::string>;

bool takes_turns(const result_of_policy& x) {
  return x.overcommit > 1;
}

/// These columns appear only with memory swapping.
const cells turns_head{"first place", "preempted", "swapping"};

cells turns_of(const outcome& x) {
  return {time_text(x.first_waiting.mean), std::to_string(x.preempted),
          percent(x.swapping)};
}

cells cells_of(const setting& all, const result_of_policy& x, bool turns) {
  const auto& what = x.what;
  const auto& mean = what.while_coming;
  cells out{name_of(x),
            percent(mean.busy / pgpus_of(all)),
            percent(mean.promised),
            time_text(what.waiting.mean),
            time_text(what.waiting.p95),
            time_text(what.waiting.p99),
            print("%.3f", what.fairness),
            print("%.2f", what.slowdown.mean),
            std::to_string(what.migrations),
            std::to_string(what.reclaimed),
            std::to_string(what.most_pgpus),
            percent(local_part(what)),
            std::to_string(what.refused + what.gave_up + what.never),
            time_text(what.ended),
            print("%.0f", decision_rate(what))};
  if (turns)
    std::ranges::copy(turns_of(what), std::back_inserter(out));
  return out;
}

/// Aligns the columns, the first one to the left.
std::string aligned(const std::vector<cells>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& x : rows)
    for (std::size_t i = 0; i < x.size(); ++i)
      widths[i] = std::max(widths[i], x[i].size());
  std::string out;
  for (const auto& x : rows) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::string pad(widths[i] - x[i].size(), ' ');
      out += i == 0 ? x[i] + pad : "  " + pad + x[i];
    }
    out += '\n';
  }
  return out;
}

nlohmann::ordered_json describe(const distribution& x) {
  return {{"mean", x.mean}, {"p95", x.p95}, {"p99", x.p99}, {"max", x.most}};
}

nlohmann::ordered_json describe(const setting& all,
                                const result_of_policy& row) {
  const auto& x = row.what;
  const auto& mean = x.while_coming;
  nlohmann::ordered_json utilisation = nlohmann::ordered_json::array();
  nlohmann::ordered_json queue = nlohmann::ordered_json::array();
  for (const auto& each : x.over_time.means()) {
    utilisation.push_back(each.busy / pgpus_of(all));
    queue.push_back(each.queue);
  }
  return {{"placement", row.name},
          {"overcommit", row.overcommit},
          {"utilisation", mean.busy / pgpus_of(all)},
          {"memory_promised", mean.promised},
          {"queue", mean.queue},
          {"waiting_seconds", describe(x.waiting)},
          {"first_waiting_seconds", describe(x.first_waiting)},
          {"slowdown", describe(x.slowdown)},
          {"fairness", x.fairness},
          {"migrations", x.migrations},
          {"reclaimed", x.reclaimed},
          {"preempted", x.preempted},
          {"swapping_part", x.swapping},
          {"most_gpus_in_use", x.most_pgpus},
          {"most_vgpus_on_a_node", x.most_on_a_node},
          {"local_part", local_part(x)},
          {"finished", x.finished},
          {"refused", x.refused},
          {"gave_up", x.gave_up},
          {"never_placed", x.never},
          {"seconds", x.ended},
          {"decisions", x.decisions},
          {"decisions_per_second", decision_rate(x)},
          {"over_time",
           {{"span_seconds", x.over_time.span()},
            {"utilisation", std::move(utilisation)},
            {"queue", std::move(queue)}}}};
}

} // namespace

std::string name_of(const result_of_policy& x) {
  return x.overcommit > 1 ? x.name + print(" x%.3g", x.overcommit) : x.name;
}

double decision_rate(const outcome& x) {
  return x.decision_seconds > 0
             ? static_cast<double>(x.decisions) / x.decision_seconds
             : 0;
}

std::uint64_t peak_memory() {
  constexpr std::uint64_t kib = 1024;
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_maxrss) * kib;
}

std::string table_of(const setting& all,
                     std::span<const result_of_policy> rows) {
  std::vector<cells> all_cells{{"placement", "utilisation", "memory", "wait",
                                "p95", "p99", "fairness", "slowdown", "moved",
                                "reclaimed", "GPUs", "local", "unserved",
                                "took", "decisions/s"}};
  auto turns = std::ranges::any_of(rows, takes_turns);
  if (turns)
    std::ranges::copy(turns_head, std::back_inserter(all_cells.front()));
  for (const auto& x : rows)
    all_cells.push_back(cells_of(all, x, turns));
  return std::to_string(all.vgpus) + " vGPUs on " +
         std::to_string(all.cluster.nodes) + " nodes of " +
         std::to_string(all.cluster.gpus_per_node) + " GPUs\n\n" +
         aligned(all_cells) +
         print("\nmemory of this process: %.0f MiB\n",
               static_cast<double>(peak_memory()) / (1 << 20));
}

std::string json_of(const setting& all,
                    std::span<const result_of_policy> rows) {
  auto policies = nlohmann::ordered_json::array();
  for (const auto& x : rows)
    policies.push_back(describe(all, x));
  nlohmann::ordered_json out{{"vgpus", all.vgpus},
                             {"nodes", all.cluster.nodes},
                             {"gpus_per_node", all.cluster.gpus_per_node},
                             {"memory", all.cluster.memory},
                             {"process_memory", peak_memory()},
                             {"policies", std::move(policies)}};
  return out.dump(2, ' ', false,
                  nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace vgpu::simulator
