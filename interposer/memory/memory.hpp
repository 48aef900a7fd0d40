// Device memory and pinned memory: allocating, freeing, finding.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/session/address_space.hpp"

#include <cuda.h>

#include <cstdint>
#include <optional>

namespace vgpu::interposer {

/// Allocates device memory in this context. Refuses it at once where it exceeds
/// the quota.
CUresult allocate(context& in, std::uint64_t bytes, memory_kind kind,
                  std::uint64_t pool, CUdeviceptr& out);
/// Returns to the book what nothing uses: reserves of pools, and memory that
/// other processes gave back. Call it where the quota is too short for so many
/// bytes, before a last try.
void make_room(std::uint8_t device, std::uint64_t bytes);
/// Allocates only addresses, within the quota. Another call makes the memory at
/// these addresses. Precondition: the thread holds a promise of the device's
/// space until it has appended that call.
CUresult allocate_addresses(context& in, std::uint64_t bytes, memory_kind kind,
                            device_address& out);
/// Allocates managed memory: device memory that the program may touch.
CUresult allocate_managed(context& in, std::uint64_t bytes, unsigned flags,
                          CUdeviceptr& out);
/// Frees device memory. Returns CUDA_ERROR_INVALID_VALUE where no allocation
/// begins there. It does not wait, because the log orders the free after
/// earlier work. With `in_order`, for cuMemFreeAsync, its pool no longer counts
/// it as used.
CUresult free_device(device_address at, bool in_order = false);

/// Allocates pinned memory in the host window. For 0 bytes, `out` is null.
CUresult allocate_pinned(context& in, std::uint64_t bytes, unsigned flags,
                         void*& out);
/// Frees pinned memory. Waits for copies into it that are under way.
CUresult free_pinned(const void* at);

/// Allocates whole granules of pinned memory that the program maps by itself.
/// No context owns it.
CUresult allocate_placed_host(std::uint8_t device, std::uint64_t bytes,
                              device_address& out);
/// Frees such memory, which no device uses any more.
void free_placed_host(device_address at);
/// Allocates host memory for a pool.
CUresult allocate_pooled_host(context& in, std::uint64_t bytes,
                              std::uint64_t pool, CUdeviceptr& out);
/// Frees host memory of a pool. Waits until no device uses it. Returns
/// CUDA_ERROR_INVALID_VALUE where no such memory begins there.
CUresult free_pooled_host(device_address at);
/// Ends pinned memory that is in no book any more, and that no device uses.
void end_pinned(const allocation& what);

/// Takes whole pages of the host window for memory that the program has
/// registered. Fills in the address.
CUresult allocate_host_addresses(context& in, allocation& what);
/// Lets the worker give these addresses memory, which kernels use in place.
void begin_pinned(const allocation& what);
/// Returns unused addresses of allocate_host_addresses().
void give_up_host_addresses(const allocation& what);
/// Tells whether addresses of allocate_host_addresses() begin here.
bool is_shown(device_address at);
/// Frees addresses of allocate_host_addresses() where nothing is mapped any
/// more. Waits for earlier work.
CUresult free_shown(device_address at);

/// Waits until no device uses host memory that is about to be freed or
/// unregistered. The next synchronisation returns the error of the work.
void wait_for_devices();

/// Frees everything that belongs to a context.
void free_all(context& of);

/// Names the kind of memory that a pointer points into.
enum class place : std::uint8_t {
  pageable, ///< the program's own memory, or unknown
  pinned,
  device,
};

/// Says what an address points into.
struct located {
  place where = place::pageable;
  std::uint8_t device = 0;
  /// Empty for pageable memory, and for addresses in a window that are not
  /// allocated.
  std::optional<allocation> in;
};
/// Finds what an address points into.
located locate(device_address at);
/// Finds what an address points into, for work that is only described. Memory
/// that a graph will allocate before this work counts as allocated.
located locate_planned(device_address at);
/// Tells whether [at, at + bytes) lies in one allocation of managed memory, or
/// in one managed variable.
bool is_managed(device_address at, std::uint64_t bytes);

} // namespace vgpu::interposer
