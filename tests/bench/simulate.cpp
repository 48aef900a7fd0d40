// Places very many vGPUs on a very large cluster, by the policies that the
// manager uses, in virtual time; prints what each strategy makes of it.
//
//   vgpu_simulate [NODES [VGPUS [CHANGES]]]
#include "policies/admission.hpp"
#include "policies/placement_index.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

using namespace vgpu::policy;

namespace {

constexpr auto gib = std::uint64_t{1} << 30;
constexpr std::uint32_t pgpus_a_node = 8;
constexpr auto memory_of_pgpu = 80 * gib;
/// A promise that is not more than what the device has, but for rounding.
constexpr double whole = 1 + 1e-9;

struct scale {
  std::size_t nodes = 10'000;
  std::size_t vgpus = 200'000;
  std::size_t changes = 100'000; // one leaves, another comes
};

cluster_view make_cluster(std::size_t nodes) {
  cluster_view out;
  out.nodes.reserve(nodes);
  for (std::size_t n = 0; n < nodes; ++n) {
    auto number = std::to_string(n);
    auto& node = out.nodes.emplace_back();
    node.name = "node" +
                std::string(6 - std::min<std::size_t>(6, number.size()), '0') +
                number;
    node.host = "host" + number;
    for (std::uint32_t p = 0; p < pgpus_a_node; ++p)
      node.pgpus.push_back({p, memory_of_pgpu, 0, 0, 0, true, "nvidia"});
  }
  return out;
}

/// Many small ones, few large ones; a third of the programs run on GPU hosts,
/// and of these hosts one in ten has half of them.
class demands {
public:
  explicit demands(std::size_t nodes) : nodes_(nodes) {}

  demand next(demand::locality where) {
    static constexpr double shares[] = {0.125, 0.125, 0.125, 0.25,
                                        0.25,  0.5,   1};
    demand out;
    out.share = shares[random_() % std::size(shares)];
    out.memory = static_cast<std::uint64_t>(out.share * 64) * gib / 2 +
                 random_() % 8 * gib;
    out.where = where;
    auto hosts =
        random_() % 2 == 0 ? std::max<std::size_t>(nodes_ / 10, 1) : nodes_;
    out.host = random_() % 3 == 0 ? "host" + std::to_string(random_() % hosts)
                                  : "elsewhere";
    return out;
  }
  std::size_t pick(std::size_t of) { return random_() % of; }

private:
  std::mt19937_64 random_{42};
  std::size_t nodes_;
};

/// What this process, of one thread, had of a processor: others that want it
/// too do not count.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) / 1e9;
}

struct outcome {
  std::size_t decisions = 0;
  std::size_t waiting = 0; // found no place
  double seconds = 0;
  std::size_t in_use = 0; // pGPUs
  std::size_t overcommitted = 0;
  double most_shares = 0;
  std::size_t most_on_a_node = 0;
  std::size_t local = 0; // of those whose program runs on a GPU's host
  std::size_t could_be_local = 0;
};

struct placed {
  place where;
  demand what;
};

void look(const placement_index& index, const std::vector<placed>& all,
          outcome& to) {
  for (const auto& node : index.cluster().nodes) {
    std::size_t here = 0;
    for (const auto& pgpu : node.pgpus) {
      here += pgpu.sessions;
      to.in_use += pgpu.sessions != 0 ? 1 : 0;
      to.overcommitted += pgpu.shares > whole ? 1 : 0;
      to.most_shares = std::max(to.most_shares, pgpu.shares);
    }
    to.most_on_a_node = std::max(to.most_on_a_node, here);
  }
  for (const auto& x : all) {
    if (x.what.host == "elsewhere")
      continue;
    ++to.could_be_local;
    // node000017 has host17.
    auto number = std::stoul(x.where.node.substr(std::strlen("node")));
    to.local += x.what.host == "host" + std::to_string(number) ? 1 : 0;
  }
}

outcome simulate(const scale& size, placement_strategy how,
                 demand::locality where) {
  placement_index index{make_cluster(size.nodes), how};
  auto extent = extent_of(index.cluster());
  demands coming{size.nodes};
  std::vector<placed> all;
  all.reserve(size.vgpus);
  outcome out;
  auto comes = [&] {
    auto what = coming.next(where);
    ++out.decisions;
    auto found = admit_within(extent, what)
                     ? index.choose(what)
                     : std::variant<place, no_place>{no_place{}};
    auto* chosen = std::get_if<place>(&found);
    if (chosen == nullptr) {
      ++out.waiting;
      return;
    }
    index.take(*chosen, what);
    all.push_back({std::move(*chosen), std::move(what)});
  };
  auto began = processor_seconds();
  for (std::size_t i = 0; i < size.vgpus; ++i)
    comes();
  for (std::size_t i = 0; i < size.changes && !all.empty(); ++i) {
    auto& leaves = all[coming.pick(all.size())];
    index.give(leaves.where, leaves.what);
    leaves = std::move(all.back());
    all.pop_back();
    comes();
  }
  out.seconds = processor_seconds() - began;
  look(index, all, out);
  return out;
}

bool read(const char* text, std::size_t& to) {
  auto* end = text + std::strlen(text);
  return std::from_chars(text, end, to).ptr == end && to != 0 &&
         to <= 10'000'000;
}

} // namespace

int main(int argc, char** argv) {
  scale size;
  std::size_t* fields[] = {&size.nodes, &size.vgpus, &size.changes};
  for (int i = 1; i < argc; ++i)
    if (i > 3 || !read(argv[i], *fields[i - 1])) {
      std::fprintf(stderr,
                   "usage: vgpu_simulate [NODES [VGPUS [CHANGES]]], each a "
                   "number from 1 to 10000000\n");
      return 2;
    }
  std::printf("%zu nodes of %u pGPUs, %zu vGPUs, then %zu that leave and as "
              "many that come\n\n"
              "| policy | decisions/s | pGPUs in use | promised too much | "
              "most shares on one | most vGPUs on a node | on their host | "
              "without a place |\n|---|---|---|---|---|---|---|---|\n",
              size.nodes, pgpus_a_node, size.vgpus, size.changes);
  struct row {
    const char* name;
    placement_strategy how;
    demand::locality where;
  };
  using strategy = placement_strategy;
  auto slowest = 1e300;
  for (auto [name, how, where] :
       {row{"local first (default)", strategy::least_loaded,
            demand::locality::local_first},
        row{"least loaded", strategy::least_loaded, demand::locality::any},
        row{"bin-pack", strategy::bin_pack, demand::locality::any},
        row{"spread", strategy::spread, demand::locality::any}}) {
    auto got = simulate(size, how, where);
    auto rate = static_cast<double>(got.decisions) / got.seconds;
    slowest = std::min(slowest, rate);
    std::printf(
        "| %s | %.0f | %zu | %zu | %.2f | %zu | %.0f %% | %zu |\n", name, rate,
        got.in_use, got.overcommitted, got.most_shares, got.most_on_a_node,
        100.0 * static_cast<double>(got.local) /
            static_cast<double>(std::max<std::size_t>(got.could_be_local, 1)),
        got.waiting);
  }
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  auto memory = static_cast<double>(used.ru_maxrss) / 1024;
  std::printf("\nslowest %.0f decisions/s on one core (must be at least "
              "10000), at most %.0f MiB of memory (must be below 4096)\n",
              slowest, memory);
  return slowest >= 10'000 && memory < 4096 ? 0 : 1;
}
