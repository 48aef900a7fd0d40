// Device and pinned memory: allocating, freeing, finding.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/session/address_space.hpp"

#include <cuda.h>

#include <cstdint>
#include <optional>

namespace vgpu::interposer {

/// Allocates device memory in this context; the quota decides at once.
CUresult allocate(context& in, std::uint64_t bytes, memory_kind kind,
                  std::uint64_t pool, CUdeviceptr& out);
/// Only the addresses, within the quota: what stands behind them is another
/// call's to make.
CUresult allocate_addresses(context& in, std::uint64_t bytes, memory_kind kind,
                            device_address& out);
/// Allocates managed memory: device memory that the program may touch.
CUresult allocate_managed(context& in, std::uint64_t bytes, unsigned flags,
                          CUdeviceptr& out);
/// CUDA_ERROR_INVALID_VALUE for what is not the beginning of an allocation.
/// Does not wait: the log orders the free behind the work before it.
/// `in_order`: by cuMemFreeAsync, after which a pool counts it as used no more.
CUresult free_device(device_address at, bool in_order = false);

CUresult allocate_pinned(context& in, std::uint64_t bytes, unsigned flags,
                         void*& out);
/// Waits for copies into it that are under way.
CUresult free_pinned(const void* at);

/// Addresses in the host window for what the program has registered: whole
/// pages. Fills in the address.
CUresult allocate_host_addresses(context& in, allocation& what);
/// They were never known elsewhere, and are free again.
void give_up_host_addresses(const allocation& what);
/// Whether such addresses begin here.
bool is_shown(device_address at);
/// They show nothing any more and are free. Waits for the work before.
CUresult free_shown(device_address at);

/// Frees all that belongs to a context.
void free_all(context& of);

/// Where a pointer points.
enum class place : std::uint8_t {
  pageable, ///< the program's own memory, or nothing that is known
  pinned,
  device,
};

struct located {
  place where = place::pageable;
  std::uint8_t device = 0;
  /// Nothing for pageable memory, and for an address in a window that is not
  /// allocated.
  std::optional<allocation> in;
};
located locate(device_address at);
/// Likewise, for work that is only described: what a graph will have allocated
/// when it comes to the work is there.
located locate_planned(device_address at);
/// Whether [at, at + bytes) lies in one allocation of managed memory, or in one
/// managed variable.
bool is_managed(device_address at, std::uint64_t bytes);

} // namespace vgpu::interposer
