// Memory that graphs allocate and free by themselves (CUDA Driver API, "Graph
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

/// What an allocation node allocates. Its addresses are its own as long as a
/// node knows it or it is in use; there is device memory behind them from the
/// first launch that comes to the node on. What is freed keeps its memory for
/// the next launch, and counts against the quota, until it is trimmed or other
/// memory of graphs needs the room. To the log it is memory like any other.
/// Thread-safe.
class graph_memory : public std::enable_shared_from_this<graph_memory> {
public:
  struct request {
    /// The graph that the node will be in.
    CUgraph owner = nullptr;
    std::uint8_t device = 0;
    /// Id of the context with which it goes.
    std::uint64_t context = 0;
    std::uint64_t bytes = 0;
    CUmemPoolProps pool{};
    std::vector<CUmemAccessDesc> access;
  };

  /// Takes addresses. CUDA_ERROR_OUT_OF_MEMORY for more than twice what the
  /// device has: less than that is a launch's to refuse, as a driver does it.
  static CUresult make(request what, std::shared_ptr<graph_memory>& out);
  graph_memory(device_address at, request asked);
  graph_memory(const graph_memory&) = delete;
  graph_memory& operator=(const graph_memory&) = delete;
  ~graph_memory();

  const device_address address;
  const request what;

  /// The node's parameters as cuGraphMemAllocNodeGetParams tells them: valid as
  /// long as this.
  CUDA_MEM_ALLOC_NODE_PARAMS params() const noexcept;

  /// A node of this graph is to free it. CUDA_ERROR_INVALID_VALUE where one
  /// does already, and where its own graph and another would both do it.
  CUresult claim_free(CUgraph by);

  /// A launch has come to its node: CUDA_ERROR_INVALID_VALUE where it is in
  /// use, CUDA_ERROR_OUT_OF_MEMORY beyond the quota.
  CUresult allocate();
  /// CUDA_ERROR_INVALID_VALUE where it is not in use. The log orders it behind
  /// the work before it.
  CUresult free();

private:
  friend struct graph_memory_list;

  // With the list's lock held.
  void begin_use();
  void end_use();
  bool back();
  void give_back();

  bool backed_ = false;
  bool in_use_ = false;
  std::set<CUgraph> freed_in_;
};

/// The memory that begins at `at`, or null.
std::shared_ptr<graph_memory> find_graph_memory(device_address at);
/// What a node will have allocated at `at` when a launch comes to it.
std::optional<allocation> planned_allocation(device_address at);

/// cuMemFree and cuMemFreeAsync: CUDA_ERROR_INVALID_VALUE where nothing that is
/// in use begins at `at`.
CUresult free_graph_memory(device_address at);
/// A context is gone, and all memory with it.
void discard_graph_memory(std::uint64_t context);
/// Gives memory that is not in use back to the device.
void trim_graph_memory(std::uint8_t device);

// -- launches
// -----------------------------------------------------------------------------

/// What a launch does to memory, in the order of its nodes.
struct memory_step {
  std::shared_ptr<graph_memory> what;
  bool allocates = false; ///< else it frees
};

/// The list holds all memory of graphs, of all devices.
struct graph_memory_list {
  /// Of one device, in bytes that are backed.
  struct usage {
    std::uint64_t now = 0;
    std::uint64_t idle = 0; ///< of that, not in use
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
  /// Keeps what outlives its nodes until it is freed.
  std::map<device_address, std::shared_ptr<graph_memory>> in_use;
  std::array<usage, 64> usage_of;

  // With the lock held.

  static bool in_use_now(const graph_memory& x) { return x.in_use_; }
  static bool back(graph_memory& x) { return x.back(); }
  /// Ends the use of one; `keeps` gets what the list released, and must outlive
  /// the lock.
  void end_use(graph_memory& x,
               std::vector<std::shared_ptr<graph_memory>>& keeps);
  void trim(std::uint8_t device);
  /// What the quota allows graphs to hold: what is free, and what they have
  /// without using it.
  std::int64_t room(std::uint8_t device) const;
  void discard(std::uint64_t context,
               std::vector<std::shared_ptr<graph_memory>>& keeps);
  /// CUDA_ERROR_INVALID_VALUE, or what is to be freed first.
  CUresult check_uses(std::span<const memory_step> steps, bool free_first,
                      std::vector<graph_memory*>& to_free) const;
  CUresult check_room(std::span<const memory_step> steps,
                      std::span<graph_memory* const> to_free) const;
};

/// Before a launch appends anything: CUDA_ERROR_INVALID_VALUE where it would
/// allocate what is in use, unless `free_first` has it freed, or free what is
/// not; CUDA_ERROR_OUT_OF_MEMORY where the quota has no room for what it holds
/// at one time.
CUresult begin_launch(std::span<const memory_step> steps, bool free_first);
/// The launch ended in an error: what it allocated is not in use.
void abandon_launch(std::span<const memory_step> steps);
/// Memory ahead of the first launch (cuGraphUpload).
CUresult upload_memory(std::span<const memory_step> steps);

// -- CU_GRAPH_MEM_ATTR_*
// -----------------------------------------------------------------------------

/// CUDA_ERROR_INVALID_VALUE for attributes that there are not. Memory is used,
/// as a driver counts it, as long as it is reserved.
CUresult graph_memory_attribute(std::uint8_t device, CUgraphMem_attribute which,
                                std::uint64_t& out);
/// High-water marks alone, and to 0 alone.
CUresult reset_graph_memory_attribute(std::uint8_t device,
                                      CUgraphMem_attribute which,
                                      std::uint64_t to);

} // namespace vgpu::interposer
