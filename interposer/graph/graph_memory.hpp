// Memory that graphs allocate and free by themselves (CUDA driver API, "Graph
// Management", cuGraphAddMemAllocNode).
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/session/address_space.hpp"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace vgpu::interposer {

/// Represents the memory of one allocation node. It owns its addresses as long
/// as a node refers to it or it is in use. The first launch that reaches the
/// node maps device memory at these addresses. Freed memory keeps its device
/// memory for the next launch, and counts against the quota, until it is
/// trimmed or other memory of graphs needs the room. In the log it is an
/// ordinary allocation. Thread-safe.
class graph_memory : public std::enable_shared_from_this<graph_memory> {
public:
  /// Describes the memory that an allocation node asks for.
  struct request {
    /// Names the graph that the node will belong to.
    CUgraph owner = nullptr;
    std::uint8_t device = 0;
    /// Holds the id of the context whose end frees the memory.
    std::uint64_t context = 0;
    std::uint64_t bytes = 0;
    CUmemPoolProps pool{};
    std::vector<CUmemAccessDesc> access;
  };

  /// Reserves addresses. Returns CUDA_ERROR_OUT_OF_MEMORY for more than twice
  /// the device's memory. As in a driver, a smaller request that does not fit
  /// is refused at the launch.
  static CUresult make(request what, std::shared_ptr<graph_memory>& out);
  graph_memory(device_address at, request asked);
  graph_memory(const graph_memory&) = delete;
  graph_memory& operator=(const graph_memory&) = delete;
  ~graph_memory();

  const device_address address;
  const request what;

  /// Returns the node's parameters for cuGraphMemAllocNodeGetParams. They are
  /// valid as long as this object lives.
  CUDA_MEM_ALLOC_NODE_PARAMS params() const noexcept;

  /// Notes that a node of this graph will free the memory. Returns
  /// CUDA_ERROR_INVALID_VALUE where a node of this graph frees it already, and
  /// where both the memory's own graph and another one would free it.
  CUresult claim_free(CUgraph by);

  /// Allocates the memory when a launch reaches the node. Returns
  /// CUDA_ERROR_INVALID_VALUE where the memory is in use, and
  /// CUDA_ERROR_OUT_OF_MEMORY beyond the quota.
  CUresult allocate();
  /// Frees the memory, in the log's order after earlier work. Returns
  /// CUDA_ERROR_INVALID_VALUE where it is not in use.
  CUresult free();

private:
  friend struct graph_memory_list;

  // The caller of these members holds the list's lock.
  void begin_use();
  void end_use();
  bool back();
  void give_back();

  bool backed_ = false;
  bool in_use_ = false;
  std::set<CUgraph> freed_in_;
};

/// Finds the memory that begins at `at`, or null.
std::shared_ptr<graph_memory> find_graph_memory(device_address at);
/// Returns the allocation that a node will make at `at` when a launch reaches
/// the node.
std::optional<allocation> planned_allocation(device_address at);

/// Frees memory for cuMemFree and cuMemFreeAsync. Returns
/// CUDA_ERROR_INVALID_VALUE where no memory in use begins at `at`.
CUresult free_graph_memory(device_address at);
/// Frees the graph memory of a context that has ended.
void discard_graph_memory(std::uint64_t context);
/// Returns a device's unused graph memory to the device.
void trim_graph_memory(std::uint8_t device);

// -- launches
// -----------------------------------------------------------------------------

/// Describes one allocation or free of a launch. Steps have the order of the
/// nodes.
struct memory_step {
  std::shared_ptr<graph_memory> what;
  bool allocates = false; ///< false: the step frees
};

/// Holds all memory of graphs, of all devices.
struct graph_memory_list {
  /// Counts the bytes of graph memory that are mapped on one device.
  struct usage {
    std::uint64_t now = 0;
    std::uint64_t idle = 0; ///< the unused part of `now`
    std::uint64_t used_high = 0;
    std::uint64_t reserved_high = 0;

    void add(std::uint64_t bytes) {
      now += bytes;
      idle += bytes;
      used_high = std::max(used_high, now);
      reserved_high = std::max(reserved_high, now);
    }
  };

  std::mutex mutex;
  std::map<device_address, graph_memory*> all;
  /// Keeps memory that is in use alive, even after its nodes are gone.
  std::map<device_address, std::shared_ptr<graph_memory>> in_use;
  std::array<usage, 64> usage_of;

  // The caller of the members below holds the lock.

  static bool in_use_now(const graph_memory& x) { return x.in_use_; }
  static bool back(graph_memory& x) { return x.back(); }
  /// Ends the use of some memory. `keeps` receives the references that the list
  /// drops, and must outlive the lock.
  void end_use(graph_memory& x,
               std::vector<std::shared_ptr<graph_memory>>& keeps);
  /// Returns the device's unused graph memory to the device.
  void trim(std::uint8_t device);
  /// Returns the device's book as it would be without the memory that graphs
  /// hold without using it.
  memory_account book_without_idle(std::uint8_t device) const;
  bool surely_fits(std::span<const memory_step> steps) const;
  /// Frees the memory of a context. `keeps` works as in end_use().
  void discard(std::uint64_t context,
               std::vector<std::shared_ptr<graph_memory>>& keeps);
  /// Checks the order of a launch's steps. Returns CUDA_ERROR_INVALID_VALUE, or
  /// lists the memory to free first.
  CUresult check_uses(std::span<const memory_step> steps, bool free_first,
                      std::vector<graph_memory*>& to_free) const;
  /// Checks whether the quota has room for a launch's steps, after the memory
  /// to free first.
  CUresult check_room(std::span<const memory_step> steps,
                      std::span<graph_memory* const> to_free) const;
};

/// Prepares a launch before it appends anything. Returns
/// CUDA_ERROR_INVALID_VALUE where it would allocate memory in use, unless
/// `free_first` frees that, or would free memory that is not in use. Returns
/// CUDA_ERROR_OUT_OF_MEMORY where the quota has no room for all that the launch
/// holds at one time.
CUresult begin_launch(std::span<const memory_step> steps, bool free_first);
/// Frees what a launch allocated before it ended in an error.
void abandon_launch(std::span<const memory_step> steps);
/// Maps the memory before the first launch (cuGraphUpload).
CUresult upload_memory(std::span<const memory_step> steps);

// -- CU_GRAPH_MEM_ATTR_*
// -----------------------------------------------------------------------------

/// Gets an attribute. As in a driver, memory counts as used while it is
/// reserved. Returns CUDA_ERROR_INVALID_VALUE for an attribute that does not
/// exist.
CUresult graph_memory_attribute(std::uint8_t device, CUgraphMem_attribute which,
                                std::uint64_t& out);
/// Resets a high-water mark to the present use. Returns
/// CUDA_ERROR_INVALID_VALUE for other attributes, and where `to` is not 0.
CUresult reset_graph_memory_attribute(std::uint8_t device,
                                      CUgraphMem_attribute which,
                                      std::uint64_t to);

} // namespace vgpu::interposer
