// Memory that the program places by itself: addresses, memory without
// addresses, and which lies where (CUDA driver API, "Virtual Memory
// Management").
#pragma once

#include "interposer/memory/share_handle.hpp"
#include "interposer/session/address_space.hpp"
#include "schema/base/physical_memory.hpp"

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <vector>

namespace vgpu::interposer {

/// All of it in this process. Memory counts against the quota from its creation
/// until it has neither handle nor place, and no process a descriptor of it;
/// reserved addresses cost nothing, and neither does another process's memory
/// while that one lives.
/// Arguments are checked as the driver checks them: CUDA_ERROR_INVALID_VALUE
/// unless said otherwise. Thread-safe.
class virtual_memory {
public:
  // -- addresses

  /// Whole granules of the device's window, at a multiple of `alignment` (0 or
  /// a power of two). CUDA_ERROR_OUT_OF_MEMORY when there are not so many.
  CUresult reserve(std::uint8_t device, std::uint64_t bytes,
                   std::uint64_t alignment, CUdeviceptr& out);
  /// Of exactly what was reserved, and is mapped nowhere.
  CUresult free(CUdeviceptr at, std::uint64_t bytes);

  // -- memory

  /// CUDA_ERROR_INVALID_DEVICE for a device that there is not,
  /// CUDA_ERROR_NOT_SUPPORTED for memory that other processes can import in a
  /// way that nothing here provides, CUDA_ERROR_OUT_OF_MEMORY by the quota.
  CUresult create(std::uint64_t bytes, const CUmemAllocationProp& what,
                  CUmemGenericAllocationHandle& out);
  CUresult release(CUmemGenericAllocationHandle handle);
  /// The handle of the memory that is mapped there, once more.
  CUresult retain(const void* at, CUmemGenericAllocationHandle& out);
  CUresult properties(CUmemGenericAllocationHandle handle,
                      CUmemAllocationProp& out) const;

  // -- memory of several processes

  /// A descriptor by which another process may have the memory, as long as any
  /// has the descriptor. What was not created to be exported so is
  /// CUDA_ERROR_INVALID_VALUE.
  CUresult give(CUmemGenericAllocationHandle handle, int& file);
  /// A handle of the memory that the descriptor stands for; it may be this
  /// process's own. CUDA_ERROR_NOT_SUPPORTED where that is on another host.
  CUresult take(int file, CUmemGenericAllocationHandle& out);
  /// Releases what only descriptors held that are closed by now. Nobody tells
  /// when that happens: called where memory is short, or asked for.
  void collect();
  /// How the mapping's memory may be exported.
  CUmemAllocationHandleType handle_types(device_address at) const;

  // -- both

  CUresult map(CUdeviceptr at, std::uint64_t bytes, std::uint64_t offset,
               CUmemGenericAllocationHandle handle);
  /// Whole mappings; waits for the device.
  CUresult unmap(CUdeviceptr at, std::uint64_t bytes);
  CUresult set_access(CUdeviceptr at, std::uint64_t bytes,
                      const CUmemAccessDesc* wanted, std::size_t count);
  CUresult access(CUdeviceptr at, CUmemLocation by,
                  unsigned long long& out) const;

  /// The mapping that the address lies in.
  std::optional<allocation> find(device_address at) const;
  /// Whether its own device may use all of [at, at + bytes), over however many
  /// mappings.
  bool usable(device_address at, std::uint64_t bytes) const;

private:
  struct reservation {
    std::uint64_t bytes = 0;
    std::uint8_t device = 0;
  };
  struct memory {
    std::uint64_t bytes = 0;
    std::uint8_t device = 0;
    CUmemAllocationProp what{};
    std::size_t handles = 1;
    std::size_t mappings = 0;
    /// Under which it is lent; no serial: it is not.
    share_descriptor says{};
    bool foreign = false;
    /// The other ends of its descriptors; of what is another process's, the
    /// descriptor it came by, so that it stays there.
    std::vector<unique_fd> ends{};
  };
  struct mapping {
    std::uint64_t bytes = 0;
    CUmemGenericAllocationHandle memory = 0;
    std::uint64_t serial = 0;
    /// By device; what is not named has none.
    std::map<int, CUmemAccess_flags> access;
  };
  using mapping_map = std::map<device_address, mapping>;

  const reservation* reserved(device_address at, std::uint64_t bytes) const;
  mapping_map::const_iterator mapping_at(device_address at) const;
  /// The mappings that cover exactly this range; empty where none do.
  std::pair<mapping_map::iterator, mapping_map::iterator>
  whole_mappings(device_address at, std::uint64_t bytes);
  void forget_unused(CUmemGenericAllocationHandle handle);
  memory* named(CUmemGenericAllocationHandle handle);
  static const share_descriptor& named_for_others(memory& x);
  CUresult give_again(const memory& x, int& file) const;
  CUresult take_own(const share_name& what, CUmemGenericAllocationHandle& out);

  mutable std::shared_mutex mutex_;
  std::map<device_address, reservation> reservations_;
  std::map<CUmemGenericAllocationHandle, memory> memories_;
  mapping_map mappings_;
  std::set<CUmemGenericAllocationHandle>
      given_away_; // only descriptors hold it
  std::uint64_t last_memory_ = 0;
};

/// Gives the process's own. Precondition: the driver's state is made.
virtual_memory& virtual_memories() noexcept;

} // namespace vgpu::interposer
