// Memory and events that this process shares with others of its vGPU (CUDA
// driver API, cuIpcGetMemHandle and its kin; memory by descriptors).
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/memory/share_handle.hpp"
#include "interposer/session/address_space.hpp"
#include "interposer/stream/stream_event.hpp"
#include "schema/base/physical_memory.hpp"
#include "schema/base/shared_resource.hpp"

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace vgpu::interposer {

struct pool;

/// What this process lends, and what it has opened of others. A handle's 64
/// bytes name a secret of the process that lends, chosen at random, and the
/// thing; the workers find each other by it. From the first on that is lent or
/// opened the session is not protected. Thread-safe.
class shared_things {
public:
  /// Of the allocation that the address lies in. CUDA_ERROR_INVALID_VALUE for
  /// what cuMemAlloc and its kin did not make.
  CUresult handle_of(device_address at, CUipcMemHandle& out);
  /// A second time, the same pointer: each opening is to be closed.
  /// CUDA_ERROR_INVALID_CONTEXT for what this process lends itself,
  /// CUDA_ERROR_INVALID_VALUE for what nobody lends, CUDA_ERROR_MAP_FAILED
  /// where that is on another host.
  CUresult open(context& in, const CUipcMemHandle& what, CUdeviceptr& out);
  /// What is opened by a handle is closed, and what comes from a pool freed.
  enum class by : std::uint8_t { handle, pool };
  CUresult close(device_address at, by how);
  /// All that this context opened: it ends.
  void close_all(std::uint64_t context);
  /// The allocation is freed: its handle names nothing from now on. Whether it
  /// had one.
  bool forget(device_address at) noexcept;

  // What counts on a device's quota for the sake of others: what this process
  // has freed and another still has, and what it has opened and nobody else
  // counts any more. The worker knows, and tells nobody who does not ask.

  /// Memory that was lent is freed: it counts for as long as others may have
  /// it. When the call that frees it is in the log, and before its bytes count
  /// no more.
  void leave(std::uint8_t device, std::uint64_t bytes);
  /// Asks how much that is now, where it may decide whether there is room for
  /// so many bytes more. Nothing at all for who shares nothing.
  void recount(std::uint8_t device, std::uint64_t bytes);
  /// Releases what was borrowed as memory to be placed.
  void give_back(std::uint8_t device, std::uint64_t bytes);

  /// Of what was allocated from a pool that can be shared.
  CUresult handle_of(device_address at, CUmemPoolPtrExportData& out);
  /// As of a CUipcMemHandle, on the pool's device; data of another pool's, or
  /// of this process's, is CUDA_ERROR_INVALID_VALUE.
  CUresult open(const pool& from, std::uint64_t context,
                const CUmemPoolPtrExportData& data, CUdeviceptr& out);

  /// Memory that the program places by itself: under the serial that `name`
  /// has. Fills in the rest of it, and how the memory lies.
  CUresult lend(memory_id what, std::uint8_t device, share_name& name,
                std::uint64_t& layout);
  /// What a descriptor names becomes memory `as`. CUDA_ERROR_INVALID_VALUE for
  /// what nobody lends, CUDA_ERROR_MAP_FAILED where that is on another host.
  CUresult borrow(const share_descriptor& from, memory_id as,
                  std::uint8_t device);
  /// By which others know what this process lends.
  share_secret own();

  /// CUDA_ERROR_INVALID_HANDLE for an event that was not made to be shared.
  CUresult handle_of(event& x, CUipcEventHandle& out);
  /// An event of this process that is the other's too. Codes as open().
  CUresult open(context& in, const CUipcEventHandle& what, CUevent& out);

private:
  struct opened {
    share_name what{};
    std::uint8_t device = 0;
    std::uint64_t context = 0;
    std::uint64_t pool = 0; // or 0: by a handle
    memory_id memory{};
    device_address at = 0; // of the granules
    std::uint64_t bytes = 0;
    unsigned times = 1;
  };
  using opened_map = std::map<device_address, opened>;

  const share_secret& secret();
  CUresult lend(const allocation& what, std::uint8_t device, share_handle& out);
  /// The same as a handle's bytes, to be opened by `pool`'s key.
  template <class Handle>
  CUresult hand_out(const allocation& what, std::uint8_t device,
                    std::uint64_t kind, std::uint64_t pool, Handle& out);
  CUresult open(const share_handle& read, std::uint8_t device,
                std::uint64_t context, std::uint64_t pool, CUdeviceptr& out);
  opened_map::iterator find(const share_name& what, std::uint8_t device);
  void unmap(opened_map::iterator which);

  /// Of one device.
  struct counts {
    std::uint64_t counted = 0; // in used() of the device's addresses
    std::uint64_t opened = 0;  // may come to count
  };
  void take(std::uint8_t device, std::uint64_t bytes);

  std::mutex mutex_;
  share_secret secret_{};
  std::map<device_address, share_handle> lent_; // without kind
  std::atomic<bool> lends_{false};
  opened_map opened_; // by what the program was given
  std::uint64_t last_memory_ = 0;

  std::mutex counts_mutex_; // taken with other locks held; itself the last
  std::map<std::uint8_t, counts> counts_;
  std::atomic<bool> has_counts_{false};
};

/// Gives the process's own. Precondition: the driver's state is made.
shared_things& sharing() noexcept;

/// The device that a descriptor names, or the current one where this process
/// has it not.
std::uint8_t device_named(const std::array<std::uint8_t, 16>& uuid);

} // namespace vgpu::interposer
