// Conditions of graphs (CUDA Driver API, "Graph Management",
// cuGraphConditionalHandleCreate).
#pragma once

#include "interposer/address_space.hpp"

#include <cuda.h>

#include <memory>

namespace vgpu::interposer {

struct context;
struct stream;

/// The value by which conditional nodes choose: a word of device memory. Its
/// handle is its address, which is what kernels get and where
/// cudaGraphSetConditional() stores (devices/README.md, "Conditions"). To the
/// log it is memory like any other, so that it moves and comes back as such.
/// Belongs to a graph, and lives as long as one that can be launched uses it.
class condition {
public:
  struct settings {
    unsigned value = 0;
    /// Whether the word gets it at each launch.
    bool assigned = false;
  };

  /// Zero until something is set. CUDA_ERROR_OUT_OF_MEMORY by the quota.
  static CUresult make(context& in, CUgraph of, settings what,
                       std::shared_ptr<condition>& out);
  condition(context& in, CUgraph of, settings what, allocation memory);
  condition(const condition&) = delete;
  condition& operator=(const condition&) = delete;
  ~condition();

  CUgraphConditionalHandle handle() const noexcept { return memory_.address; }
  device_address word() const noexcept { return memory_.address; }
  context& owner() const noexcept { return owner_; }

  /// The graph that it was made for: conditional nodes of it, and of the graphs
  /// in it, may have it.
  const CUgraph graph;
  const settings default_value;
  /// A node has it: no other may.
  bool has_node = false;

  /// What a launch does with it first.
  CUresult begin_launch(stream& in) const;

private:
  context& owner_;
  const allocation memory_;
};

/// Null when the handle names nothing.
std::shared_ptr<condition> find_condition(CUgraphConditionalHandle handle);

} // namespace vgpu::interposer
