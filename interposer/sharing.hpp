// Memory and events that this process shares with others of its vGPU (CUDA
// driver API, cuIpcGetMemHandle and its kin).
#pragma once

#include "interposer/context.hpp"
#include "interposer/stream_event.hpp"
#include "schema/sharing.hpp"

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace vgpu::interposer {

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
  CUresult close(device_address at);
  /// All that this context opened: it ends.
  void close_all(std::uint64_t context);
  /// The allocation is freed: its handle names nothing from now on. Whether it
  /// had one.
  bool forget(device_address at) noexcept;

  /// CUDA_ERROR_INVALID_HANDLE for an event that was not made to be shared.
  CUresult handle_of(event& x, CUipcEventHandle& out);
  /// An event of this process that is the other's too. Codes as open().
  CUresult open(context& in, const CUipcEventHandle& what, CUevent& out);

private:
  struct lent {
    std::uint64_t serial = 0;
    CUipcMemHandle handle{};
  };
  struct opened {
    share_name what{};
    std::uint8_t device = 0;
    std::uint64_t context = 0;
    memory_id memory{};
    device_address at = 0; // of the granules
    std::uint64_t bytes = 0;
    unsigned times = 1;
  };
  using opened_map = std::map<device_address, opened>;

  const share_secret& secret();
  opened_map::iterator find(const share_name& what, std::uint8_t device);
  void unmap(opened_map::iterator which);

  std::mutex mutex_;
  share_secret secret_{};
  std::map<device_address, lent> lent_;
  std::atomic<bool> lends_{false};
  opened_map opened_; // by what the program was given
  std::uint64_t last_memory_ = 0;
};

shared_things& sharing();

} // namespace vgpu::interposer
