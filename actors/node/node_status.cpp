#include "actors/node/node_status.hpp"

#include "actors/records/records_json.hpp"

#include <algorithm>

namespace vgpu {

using nlohmann::json;

namespace {

const char* name_of(supervisor_state::stage x) {
  return x == supervisor_state::stage::running ? "running" : "starting";
}

json describe(const control::pgpu& pgpu, const supervisor_state& state) {
  auto ids = json::array();
  auto used = std::uint64_t{0};
  for (const auto& [id, x] : state.workers)
    if (std::count(x.order.pgpus.begin(), x.order.pgpus.end(), pgpu.ordinal) !=
        0) {
      ids.push_back(id.value);
      used += x.load.memory_bytes;
    }
  return {{"ordinal", pgpu.ordinal},
          {"backend", pgpu.backend},
          {"name", pgpu.facts.name},
          {"memory", pgpu.facts.total_memory},
          {"used", used},
          {"state", control::name_of(pgpu.state)},
          {"sessions", std::move(ids)}};
}

} // namespace

std::string node_status_json(const supervisor_state& state) {
  auto pgpus = json::array();
  for (const auto& x : state.opts.pgpus)
    pgpus.push_back(describe(x, state));
  auto vgpus = json::array();
  for (const auto& [id, x] : state.workers)
    vgpus.push_back({{"id", x.order.vgpu.value},
                     {"share", x.order.share},
                     {"sessions",
                      {{{"id", id.value},
                        {"epoch", x.order.epoch.value},
                        {"state", name_of(x.stage)},
                        {"node", state.opts.name},
                        {"program", x.order.program},
                        {"user", ""},
                        {"memory", x.load.memory_bytes},
                        {"quota", x.order.quota},
                        {"beside", to_json(x.load.side)},
                        {"calls", x.load.calls}}}}});
  return to_line({{"nodes",
                   {{{"name", state.opts.name},
                     {"state", state.registered ? "alive" : "apart"},
                     {"pgpus", std::move(pgpus)}}}},
                  {"vgpus", std::move(vgpus)}});
}

} // namespace vgpu
