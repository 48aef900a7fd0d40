#include "policies/simulator/workload.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

namespace vgpu::simulator {

namespace {

constexpr std::size_t most_sizes = 64;

/// Draws random numbers. The standard fixes the results of the engine but not
/// of its distributions.
class dice {
public:
  explicit dice(std::uint64_t seed) : engine_(seed) {}

  /// Returns a number in [0, 1).
  double fraction() {
    constexpr auto unused_bits = 11;
    return std::ldexp(static_cast<double>(engine_() >> unused_bits), -53);
  }
  double exponential(double mean) { return -std::log1p(-fraction()) * mean; }
  std::size_t below(std::size_t end) {
    return std::min(
        static_cast<std::size_t>(fraction() * static_cast<double>(end)),
        end - 1);
  }

private:
  std::mt19937_64 engine_;
};

bool read_positive(const char*& at, const char* end, double& to) {
  auto [next, error] = std::from_chars(at, end, to);
  at = next;
  return error == std::errc{} && to > 0 && std::isfinite(to);
}

double total_weight(const std::vector<size_weight>& all) {
  auto out = 0.0;
  for (const auto& x : all)
    out += x.weight;
  return out;
}

double mean_share(const std::vector<size_weight>& all) {
  auto out = 0.0;
  for (const auto& x : all)
    out += x.share * x.weight;
  return out / total_weight(all);
}

double pick_share(const std::vector<size_weight>& all, dice& random) {
  auto at = random.fraction() * total_weight(all);
  for (const auto& x : all)
    if ((at -= x.weight) < 0)
      return x.share;
  return all.back().share;
}

/// Rounds to milliseconds, which are precise enough and readable.
double rounded(double seconds) {
  constexpr double thousand = 1000;
  return std::round(seconds * thousand) / thousand;
}

} // namespace

result<std::vector<size_weight>> read_sizes(const std::string& text) {
  std::vector<size_weight> out;
  const auto* at = text.data();
  const auto* end = at + text.size();
  auto good = !text.empty();
  while (good && out.size() < most_sizes) {
    size_weight x;
    good = read_positive(at, end, x.share) && x.share <= 1;
    if (good && at != end && *at == ':')
      good = read_positive(++at, end, x.weight);
    out.push_back(x);
    if (!good || at == end)
      break;
    good = *at++ == ',';
  }
  if (!good || at != end)
    return fault{fault_kind::usage,
                 "sizes '" + text +
                     "': give shares of more than 0 and at most 1, each with "
                     "its weight or without, such as 0.125:3,0.5,1"};
  return out;
}

std::string node_name(std::size_t number) {
  return "node" + std::to_string(number);
}

std::vector<arrival> generate(const workload_options& options,
                              const cluster_shape& cluster) {
  constexpr double shortest_run = 0.001;
  constexpr double idle_after = 30;
  dice random{options.seed};
  auto pgpus = static_cast<double>(cluster.nodes) * cluster.gpus_per_node;
  auto rate = options.rate > 0
                  ? options.rate
                  : options.aim * pgpus /
                        (options.run_time * mean_share(options.sizes));
  std::vector<arrival> out;
  out.reserve(options.vgpus);
  auto now = 0.0;
  for (std::size_t i = 0; i < options.vgpus; ++i) {
    auto& x = out.emplace_back();
    now += random.exponential(1 / rate);
    x.at = rounded(now);
    x.runs =
        std::max(rounded(random.exponential(options.run_time)), shortest_run);
    auto share = pick_share(options.sizes, random);
    x.constraints.share = share;
    // The load is between half and one and a half of the share, which is its
    // mean.
    x.load = std::max(
        0.001, rounded(std::min(1.0, share * (0.5 + random.fraction()))));
    auto part = share * (0.5 + random.fraction() / 2);
    x.constraints.memory = static_cast<std::uint64_t>(
                               part * static_cast<double>(cluster.memory)) >>
                           20 << 20;
    if (random.below(10) == 0)
      x.constraints.priority = 10;
    if (random.below(3) == 0)
      x.host = node_name(random.below(cluster.nodes));
    if (random.fraction() < options.idle) {
      x.constraints.idle_after_ms =
          static_cast<std::uint32_t>(idle_after * 1000);
      x.idle.push_back({rounded(x.runs / 2), std::max(x.runs, shortest_run)});
    }
  }
  return out;
}

} // namespace vgpu::simulator
