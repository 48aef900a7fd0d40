// Memory and events that this process shares with others of its vGPU (CUDA
// driver API, cuIpcGetMemHandle and related calls, and memory by descriptors).
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

/// Holds the objects that the process lends, and those of other processes that
/// it has opened. The 64 bytes of a handle contain a random secret of the
/// lending process and the name of the object; the workers find each other by
/// them. The first object that is lent or opened ends the session's protection.
/// Thread-safe.
class shared_things {
public:
  /// Makes a handle of the allocation that the address lies in. Returns
  /// CUDA_ERROR_INVALID_VALUE for memory that neither cuMemAlloc nor a related
  /// call made.
  CUresult handle_of(device_address at, CUipcMemHandle& out);
  /// Opens a handle. A second call returns the same pointer, and needs its own
  /// close(). Returns CUDA_ERROR_INVALID_CONTEXT for memory that this process
  /// lends, CUDA_ERROR_INVALID_VALUE where no process lends it, and
  /// CUDA_ERROR_MAP_FAILED where it is on another host.
  CUresult open(context& in, const CUipcMemHandle& what, CUdeviceptr& out);
  /// Says whether the memory was opened by a handle or by a pool. The program
  /// closes memory of a handle, and frees memory of a pool.
  enum class by : std::uint8_t { handle, pool };
  /// Closes memory that was opened.
  CUresult close(device_address at, by how);
  /// Closes everything that a context opened, as the context ends.
  void close_all(std::uint64_t context);
  /// Ends the handle of an allocation that is freed. Returns whether it had
  /// one.
  bool forget(device_address at) noexcept;

  // A device's quota also counts memory that other processes share: memory that
  // this process freed and another one still has, and memory that this process
  // opened and no other one counts any more. Only the worker knows how much
  // that is.

  /// Counts freed memory for as long as other processes may have it. The caller
  /// has appended the call that frees the memory, and its bytes still count.
  void leave(std::uint8_t device, std::uint64_t bytes);
  /// Asks the worker how much that memory is, where the answer decides whether
  /// the quota has room for `bytes` more. Does nothing where the process shares
  /// nothing.
  void recount(std::uint8_t device, std::uint64_t bytes);
  /// Stops counting memory of borrow(), which is released.
  void give_back(std::uint8_t device, std::uint64_t bytes);

  /// Makes a handle of an allocation from a pool that can be shared.
  CUresult handle_of(device_address at, CUmemPoolPtrExportData& out);
  /// Opens pooled memory on the pool's device, with the errors of open(). Data
  /// of another pool, or of this process, is CUDA_ERROR_INVALID_VALUE.
  CUresult open(const pool& from, std::uint64_t context,
                const CUmemPoolPtrExportData& data, CUdeviceptr& out);

  /// Lends memory that the program maps by itself, under the serial in `name`.
  /// Fills in the rest of the name, and the layout of the memory.
  CUresult lend(memory_id what, std::uint8_t device, share_name& name,
                std::uint64_t& layout);
  /// Opens the memory that a descriptor names, as memory `as`. Returns
  /// CUDA_ERROR_INVALID_VALUE where no process lends it, and
  /// CUDA_ERROR_MAP_FAILED where it is on another host.
  CUresult borrow(const share_descriptor& from, memory_id as,
                  std::uint8_t device);
  /// Returns the secret by which other processes name this process's lent
  /// objects.
  share_secret own();

  /// Makes a handle of an event. Returns CUDA_ERROR_INVALID_HANDLE for one that
  /// cannot be shared.
  CUresult handle_of(event& x, CUipcEventHandle& out);
  /// Opens an event that another process shares, with the errors of open().
  CUresult open(context& in, const CUipcEventHandle& what, CUevent& out);

private:
  struct opened {
    share_name what{};
    std::uint8_t device = 0;
    std::uint64_t context = 0;
    std::uint64_t pool = 0; // 0 where a handle opened it
    memory_id memory{};
    device_address at = 0; // of the granules
    std::uint64_t bytes = 0;
    unsigned times = 1;
  };
  using opened_map = std::map<device_address, opened>;

  const share_secret& secret();
  CUresult lend(const allocation& what, std::uint8_t device, share_handle& out);
  /// Makes a handle's bytes, which `pool`'s key opens.
  template <class Handle>
  CUresult hand_out(const allocation& what, std::uint8_t device,
                    std::uint64_t kind, std::uint64_t pool, Handle& out);
  CUresult open(const share_handle& read, std::uint8_t device,
                std::uint64_t context, std::uint64_t pool, CUdeviceptr& out);
  opened_map::iterator find(const share_name& what, std::uint8_t device);
  void unmap(opened_map::iterator which);

  /// Holds the counts of one device, in bytes.
  struct counts {
    std::uint64_t counted = 0; // part of used() of the window
    std::uint64_t opened = 0;  // not counted yet, but may be later
  };
  void take(std::uint8_t device, std::uint64_t bytes);

  std::mutex mutex_;
  share_secret secret_{};
  std::map<device_address, share_handle> lent_; // without their kind
  std::atomic<bool> lends_{false};
  opened_map opened_; // by the program's address
  std::uint64_t last_memory_ = 0;

  // Locked last: other locks may be held when it is taken.
  std::mutex counts_mutex_;
  std::map<std::uint8_t, counts> counts_;
  std::atomic<bool> has_counts_{false};
};

/// Returns the process's shared objects. Precondition: the driver's state is
/// made.
shared_things& sharing() noexcept;

/// Returns the device with this UUID, or the current one where the process does
/// not have that device.
std::uint8_t device_named(const std::array<std::uint8_t, 16>& uuid);

} // namespace vgpu::interposer
