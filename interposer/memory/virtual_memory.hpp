// Memory that the program maps by itself: addresses, memory without addresses,
// and the mapping between them (CUDA driver API, "Virtual Memory Management").
#pragma once

#include "interposer/memory/share_handle.hpp"
#include "interposer/session/address_space.hpp"
#include "schema/base/physical_memory.hpp"

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <vector>

namespace vgpu::interposer {

/// Holds all such memory of the process. Memory of the host is pinned memory in
/// the host window, of which a mapping is a second view: the program's copies
/// use the window, kernels and the program itself the mapping. It counts
/// against no quota. Memory of a device counts against the quota from its
/// creation until it has neither a handle nor a mapping, and no process has a
/// descriptor of it. Reserved addresses cost nothing, and neither does another
/// process's memory while that process lives.
///
/// The members check arguments as the driver does, and return
/// CUDA_ERROR_INVALID_VALUE unless they say otherwise. Thread-safe.
class virtual_memory {
public:
  // -- addresses

  /// Reserves whole granules of the device's window, at a multiple of
  /// `alignment` (0 or a power of two). Returns CUDA_ERROR_OUT_OF_MEMORY when
  /// there are not enough.
  CUresult reserve(std::uint8_t device, std::uint64_t bytes,
                   std::uint64_t alignment, CUdeviceptr& out);
  /// Frees exactly one reservation, in which nothing is mapped.
  CUresult free(CUdeviceptr at, std::uint64_t bytes);

  // -- memory

  /// Makes memory without addresses. Returns CUDA_ERROR_INVALID_DEVICE for a
  /// device that does not exist, CUDA_ERROR_NOT_SUPPORTED for an unsupported
  /// way of sharing, and CUDA_ERROR_OUT_OF_MEMORY beyond the quota. The current
  /// device says whether memory of the host is supported.
  CUresult create(std::uint8_t current, std::uint64_t bytes,
                  const CUmemAllocationProp& what,
                  CUmemGenericAllocationHandle& out);
  /// Drops one reference to a handle.
  CUresult release(CUmemGenericAllocationHandle handle);
  /// Returns the handle of the memory that is mapped there, with one more
  /// reference.
  CUresult retain(const void* at, CUmemGenericAllocationHandle& out);
  CUresult properties(CUmemGenericAllocationHandle handle,
                      CUmemAllocationProp& out) const;

  // -- memory of several processes

  /// Makes a descriptor by which another process can import the memory. The
  /// memory lives as long as any process has the descriptor. Returns
  /// CUDA_ERROR_INVALID_VALUE where the memory was not created as exportable.
  CUresult give(CUmemGenericAllocationHandle handle, int& file);
  /// Imports the memory of a descriptor, which may be this process's own.
  /// Returns CUDA_ERROR_NOT_SUPPORTED where it is on another host.
  CUresult take(int file, CUmemGenericAllocationHandle& out);
  /// Releases memory that only descriptors kept alive and whose descriptors are
  /// all closed. No event announces the closing, so callers use this where
  /// memory is short, or before they report its use.
  void collect();
  /// Returns the ways in which the mapping's memory may be exported.
  CUmemAllocationHandleType handle_types(device_address at) const;

  // -- both

  /// Maps memory into reserved addresses of its own device, or memory of the
  /// host into those of any device that supports it. Returns
  /// CUDA_ERROR_NOT_SUPPORTED for a part of the memory, and for addresses of
  /// another device.
  CUresult map(CUdeviceptr at, std::uint64_t bytes, std::uint64_t offset,
               CUmemGenericAllocationHandle handle);
  /// Unmaps whole mappings. Waits for the device.
  CUresult unmap(CUdeviceptr at, std::uint64_t bytes);
  CUresult set_access(CUdeviceptr at, std::uint64_t bytes,
                      const CUmemAccessDesc* wanted, std::size_t count);
  CUresult access(CUdeviceptr at, CUmemLocation by,
                  unsigned long long& out) const;

  /// Finds the mapping that the address lies in.
  std::optional<allocation> find(device_address at) const;
  /// Tells whether any memory of the host is mapped, which kernels may then
  /// use.
  bool any_on_host() const noexcept {
    return on_host_.load(std::memory_order_relaxed) != 0;
  }
  /// Tells whether copies may use all of [at, at + bytes), over any number of
  /// mappings: memory of a device if that device may, memory of the host if
  /// anybody may.
  bool usable(device_address at, std::uint64_t bytes) const;

private:
  struct reservation {
    std::uint64_t bytes = 0;
    std::uint8_t device = 0;
  };
  struct memory {
    std::uint64_t bytes = 0;
    std::uint8_t device = 0;
    /// Holds the place in the host window; 0 for memory of a device.
    device_address host = 0;
    CUmemAllocationProp what{};
    std::size_t handles = 1;
    std::size_t mappings = 0;
    /// Holds the message under which the memory is lent. Its serial is 0 where
    /// the memory is not lent.
    share_descriptor says{};
    bool foreign = false;
    /// Holds the other ends of its descriptors. For another process's memory it
    /// holds the descriptor from which the memory was imported, which keeps it
    /// alive.
    std::vector<unique_fd> ends{};
  };
  struct mapping {
    std::uint64_t bytes = 0;
    CUmemGenericAllocationHandle memory = 0;
    std::uint64_t serial = 0;
    std::uint8_t device = 0; // whose window it is in
    /// Holds the access of each device, and that of the_host. A device without
    /// an entry has none.
    std::map<int, CUmemAccess_flags> access;
  };
  static constexpr int the_host = -1;
  using mapping_map = std::map<device_address, mapping>;

  const reservation* reserved(device_address at, std::uint64_t bytes) const;
  mapping_map::const_iterator mapping_at(device_address at) const;
  /// Finds the mappings that cover exactly this range; empty where none do.
  std::pair<mapping_map::iterator, mapping_map::iterator>
  whole_mappings(device_address at, std::uint64_t bytes);
  CUresult create_on_host(std::uint8_t device, std::uint64_t bytes,
                          const CUmemAllocationProp& what,
                          CUmemGenericAllocationHandle& out);
  static CUresult check_access(const CUmemAccessDesc& wanted, const memory& to);
  CUresult give_access(device_address at, mapping& x,
                       const CUmemAccessDesc& wanted);
  bool is_open(const mapping& x) const;
  void forget_unused(CUmemGenericAllocationHandle handle);
  memory* named(CUmemGenericAllocationHandle handle);
  static const share_descriptor& named_for_others(memory& x);
  CUresult give_again(const memory& x, int& file) const;
  CUresult take_own(const share_name& what, CUmemGenericAllocationHandle& out);

  mutable std::shared_mutex mutex_;
  std::map<device_address, reservation> reservations_;
  std::map<CUmemGenericAllocationHandle, memory> memories_;
  mapping_map mappings_;
  // Memory that only descriptors keep alive
  std::set<CUmemGenericAllocationHandle> given_away_;
  std::uint64_t last_memory_ = 0;
  std::atomic<std::size_t> on_host_{0}; // mappings of memory of the host
};

/// Returns the process's own memory of this kind. Precondition: the driver's
/// state is made.
virtual_memory& virtual_memories() noexcept;

} // namespace vgpu::interposer
