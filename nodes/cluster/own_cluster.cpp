#include "nodes/cluster/own_cluster.hpp"

#include "nodes/cluster/cluster_launcher.hpp"
#include "nodes/support/paths.hpp"
#include "nodes/support/run_dir.hpp"
#include "schema/base/endpoints.hpp"

#include <cstdint>

namespace vgpu {

namespace {

constexpr std::uint32_t idle_ms = 5'000;
// This is the largest number that a program is likely to request. Later
// programs use the same cluster.
constexpr unsigned gpus = 8;

} // namespace

result<std::string> own_cluster() {
  cluster_options shape;
  shape.run_dir = own_cluster_dir();
  auto endpoint = endpoint_in(shape.run_dir);
  if (auto good = check_own_cluster(endpoint); !good)
    return good.why();
  if (somebody_listens(endpoint))
    return endpoint;
  shape.gpus_per_node = gpus;
  shape.end_when_idle_ms = idle_ms;
  launch_ties ties;
  ties.nodes_follow_manager = true;
  ties.remove_run_dir = true;
  auto up = launch_cluster(shape, ties);
  if (!up)
    return up.why();
  return up->endpoint;
}

} // namespace vgpu
