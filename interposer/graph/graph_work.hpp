// The work that nodes of a graph do.
#pragma once

#include "interposer/code/launch.hpp"
#include "interposer/graph/graph_memory.hpp"
#include "interposer/memory/copies.hpp"
#include "interposer/stream/stream_event.hpp"

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <variant>
#include <vector>

namespace vgpu::interposer {

class condition;
class graph;

/// An empty node does no work.
struct empty_work {};

/// A kernel node launches a kernel.
struct kernel_work {
  CUfunction function = nullptr;
  launch_shape shape;
  std::vector<std::byte> parameters; ///< the parameter block
  launch_attributes with;

  /// Takes over the attributes of another kernel node.
  void keep_attributes_of(const kernel_work& other) {
    shape.cluster = other.shape.cluster;
    shape.cooperative = other.shape.cooperative;
    with = other.with;
  }
  /// Becomes `fresh`. The parameter block stays where it is if its size does,
  /// because programs pass on the pointers into it that they got earlier.
  void take_over(kernel_work&& fresh);
};

/// A copy node copies between host, device and arrays.
struct copy_work {
  transfer what; ///< The transfer is async.
};

/// A fill node sets memory.
struct fill_work {
  CUDA_MEMSET_NODE_PARAMS what{};
};

/// A host node calls a function of the program.
struct host_work {
  CUDA_HOST_NODE_PARAMS what{};
};

/// A record node records an event.
struct event_record_work {
  CUevent event = nullptr;
};

/// A wait node waits for an event.
struct event_wait_work {
  CUevent event = nullptr;
};

/// A node of memory operations writes words of memory and waits for them.
struct operations_work {
  std::vector<CUstreamBatchMemOpParams> what;
  CUcontext context = nullptr; ///< null for a captured node
};

/// A child node launches a graph that it owns.
struct child_work {
  std::unique_ptr<graph> what;
};

/// A conditional node chooses by a condition which of its bodies runs, or how
/// often. It owns the bodies.
struct conditional_work {
  std::shared_ptr<condition> on;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::unique_ptr<graph>> bodies;
  /// Holds the handles of the bodies, as returned to the program.
  std::unique_ptr<CUgraph[]> told;
};

/// An allocation node allocates memory of the graph.
struct allocation_work {
  std::shared_ptr<graph_memory> what;
};

/// A free node frees memory of a graph.
struct free_work {
  std::shared_ptr<graph_memory> what;
};

using work =
    std::variant<empty_work, kernel_work, copy_work, fill_work, host_work,
                 event_record_work, event_wait_work, operations_work,
                 child_work, conditional_work, allocation_work, free_work>;

CUgraphNodeType type_of(const work& x) noexcept;

/// Tells whether the work waits for values that other work may have to write.
/// Among work without an order, such work must be the last.
bool waits_for_values(const work& x) noexcept;

/// Tells whether the work allocates or frees memory: see graph::has_memory().
bool has_memory(const work& x) noexcept;

/// Gives new work the attributes of a node's earlier work, where both are
/// kernels. New parameters do not change attributes.
void keep_attributes(work& fresh, const work& earlier);

/// Copies the work, with child graphs and bodies. Both copies share memory and
/// conditions, so a graph that has any is copied only for a launch.
work clone(const work& x);

/// Appends the work's memory steps to `out`.
void add_memory_steps(const work& x, std::vector<memory_step>& out);

/// Appends the calls of the work, in the stream's order. Returns an error where
/// an object that the work refers to no longer exists. Precondition: the work
/// is no conditional_work (conditional_launch.hpp).
CUresult issue(const work& x, stream& in);

// The functions below describe work from the driver API's structs, after the
// driver's checks.
// -----------------------------------------------------------------------------

CUresult describe(const launch_request& from, context& in, kernel_work& out);
CUresult describe(const CUDA_KERNEL_NODE_PARAMS& from, context& in,
                  kernel_work& out);
CUresult describe(const CUDA_MEMCPY3D& from, copy_work& out);
CUresult describe(const CUDA_MEMSET_NODE_PARAMS& from, fill_work& out);
CUresult describe(const CUDA_HOST_NODE_PARAMS& from, host_work& out);
CUresult describe(const CUDA_BATCH_MEM_OP_NODE_PARAMS& from,
                  operations_work& out);
/// Describes an allocation node of `into`, on the device that the parameters
/// name. Returns CUDA_ERROR_NOT_SUPPORTED for memory that is not the device's
/// own, and where `into` belongs to a node.
CUresult describe(const CUDA_MEM_ALLOC_NODE_PARAMS& from, const context& in,
                  const graph& into, allocation_work& out);
/// Describes a free node of `into`. Returns CUDA_ERROR_INVALID_VALUE for memory
/// that no graph allocates, or that another node frees already.
CUresult describe_free(CUdeviceptr at, const graph& into, free_work& out);

// The functions below return the driver API's structs of work.
// -----------------------------------------------------------------------------

/// Returns a kernel node's parameters, which are valid until the node changes.
/// `pointers` gets one pointer for each parameter.
CUDA_KERNEL_NODE_PARAMS kernel_params(const kernel_work& x,
                                      std::vector<void*>& pointers);
/// Returns a copy node's parameters.
CUDA_MEMCPY3D copy_params(const copy_work& x);

} // namespace vgpu::interposer
