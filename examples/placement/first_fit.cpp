// A placement policy of your own: it chooses the first GPU, by the nodes'
// names, that has the memory and does not promise more compute than it has.
// Later nodes stay empty, and can be switched off. If every GPU would promise
// too much, the vGPU waits.
//
//   c++ -std=c++20 -shared -fPIC -I SOURCE first_fit.cpp -o libfirst_fit.so
//   vgpu-manager --placement-policy ./libfirst_fit.so
#include "policies/placement/placement_plugin.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace vgpu::policy;

/// Returns whether the constraints allow this GPU.
bool is_wished(const node_view& node, const pgpu_view& gpu,
               const demand& what) {
  auto among = [&](const std::vector<place>& places) {
    return std::any_of(places.begin(), places.end(), [&](const place& x) {
      return x.node == node.name &&
             std::count(x.pgpus.begin(), x.pgpus.end(), gpu.ordinal) != 0;
    });
  };
  return (what.node.empty() || what.node == node.name) &&
         (what.pgpu < 0 ||
          static_cast<std::uint32_t>(what.pgpu) == gpu.ordinal) &&
         (what.backend.empty() || what.backend == gpu.backend) &&
         (what.where != demand::locality::local_only ||
          what.host == node.host) &&
         (!what.beside_somebody || among(what.beside)) && !among(what.apart) &&
         !among(what.failing);
}

bool has_room(const pgpu_view& gpu, const demand& what) {
  constexpr double whole = 1 + 1e-9;
  return gpu.healthy && gpu.reserved <= gpu.memory &&
         what.memory <= gpu.memory - gpu.reserved &&
         (gpu.sessions == 0 || gpu.shares + what.share <= whole);
}

class first_fit : public placement_policy {
public:
  std::optional<place> choose(const cluster_view& cluster,
                              const demand& what) override {
    const node_view* first = nullptr;
    std::vector<std::uint32_t> gpus;
    for (const auto& node : cluster.nodes) {
      if (!node.alive || (first != nullptr && first->name < node.name))
        continue;
      auto fitting = fit(node, what);
      if (fitting.size() < what.gpus)
        continue;
      first = &node;
      gpus = std::move(fitting);
    }
    if (first == nullptr)
      return std::nullopt;
    gpus.resize(what.gpus);
    return place{first->name, gpus};
  }

private:
  static std::vector<std::uint32_t> fit(const node_view& node,
                                        const demand& what) {
    std::vector<std::uint32_t> out;
    for (const auto& gpu : node.pgpus)
      if (is_wished(node, gpu, what) && has_room(gpu, what))
        out.push_back(gpu.ordinal);
    return out;
  }
};

} // namespace

VGPU_PLACEMENT_POLICY(first_fit)
