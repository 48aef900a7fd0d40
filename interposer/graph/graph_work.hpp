// What the nodes of a graph do.
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

struct empty_work {};

struct kernel_work {
  CUfunction function = nullptr;
  launch_shape shape;
  std::vector<std::byte> parameters; ///< the parameter block
};

struct copy_work {
  transfer what; ///< async
};

struct fill_work {
  CUDA_MEMSET_NODE_PARAMS what{};
};

struct host_work {
  CUDA_HOST_NODE_PARAMS what{};
};

struct event_record_work {
  CUevent event = nullptr;
};

struct event_wait_work {
  CUevent event = nullptr;
};

/// Words of memory that are written and waited for.
struct operations_work {
  std::vector<CUstreamBatchMemOpParams> what;
  CUcontext context = nullptr; ///< null where it was captured
};

/// A graph of the node's own.
struct child_work {
  std::unique_ptr<graph> what;
};

/// What is done, how often, or which of several, as a condition says. The
/// bodies are the node's own.
struct conditional_work {
  std::shared_ptr<condition> on;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::unique_ptr<graph>> bodies;
  /// Their handles, as the program was told them.
  std::unique_ptr<CUgraph[]> told;
};

struct allocation_work {
  std::shared_ptr<graph_memory> what;
};

struct free_work {
  std::shared_ptr<graph_memory> what;
};

using work =
    std::variant<empty_work, kernel_work, copy_work, fill_work, host_work,
                 event_record_work, event_wait_work, operations_work,
                 child_work, conditional_work, allocation_work, free_work>;

CUgraphNodeType type_of(const work& x) noexcept;

/// Whether it waits for what other work may have to bring: of work that may
/// come in any order it is to be the last.
bool waits_for_values(const work& x) noexcept;

/// Whether it allocates or frees memory: see graph::has_memory().
bool has_memory(const work& x) noexcept;

/// A copy, child graphs and bodies and all. Memory and conditions are the same:
/// a graph that has any is not to be copied but to be launched.
work clone(const work& x);

/// Adds what it does to memory.
void add_memory_steps(const work& x, std::vector<memory_step>& out);

/// Appends the calls that do it, in the stream's order. What it refers to may
/// have gone since: then the code says so. Precondition: it is no
/// conditional_work (conditional_launch.hpp).
CUresult issue(const work& x, stream& in);

// -- from the driver API's descriptions: checked as the driver checks them
// -----------------------------------------------------------------------------

CUresult describe(const launch_request& from, context& in, kernel_work& out);
CUresult describe(const CUDA_KERNEL_NODE_PARAMS& from, context& in,
                  kernel_work& out);
CUresult describe(const CUDA_MEMCPY3D& from, copy_work& out);
CUresult describe(const CUDA_MEMSET_NODE_PARAMS& from, fill_work& out);
CUresult describe(const CUDA_HOST_NODE_PARAMS& from, host_work& out);
CUresult describe(const CUDA_BATCH_MEM_OP_NODE_PARAMS& from,
                  operations_work& out);
/// For a node of `into`, on the device that they name.
/// CUDA_ERROR_NOT_SUPPORTED for other memory than the device's own, and where
/// `into` is a node's.
CUresult describe(const CUDA_MEM_ALLOC_NODE_PARAMS& from, const context& in,
                  const graph& into, allocation_work& out);
/// CUDA_ERROR_INVALID_VALUE for what no graph allocates, and for what another
/// node frees already.
CUresult describe_free(CUdeviceptr at, const graph& into, free_work& out);

// -- and back
// -----------------------------------------------------------------------------

/// Reads into `parameters` are valid as long as the node is not changed;
/// `pointers` gets one for each parameter.
CUDA_KERNEL_NODE_PARAMS kernel_params(const kernel_work& x,
                                      std::vector<void*>& pointers);
CUDA_MEMCPY3D copy_params(const copy_work& x);

} // namespace vgpu::interposer
