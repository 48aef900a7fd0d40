// Optional interface of a device: memory and events that two processes share.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/base/physical_memory.hpp"
#include "schema/log/session_area.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace vgpu::device {

/// Shares a file descriptor between several owners, the last of which closes
/// it.
using shared_descriptor = std::shared_ptr<const unique_fd>;

/// Holds the data that one process passes to another so that both use the same
/// object. For memory it holds one descriptor for each part and one word with
/// that part's size in bytes; the parts follow one another. For an event its
/// contents are private to the backend.
struct shared_object {
  /// Neither list has more elements than this.
  static constexpr std::size_t most = 64;

  std::vector<std::uint64_t> words{};
  std::vector<shared_descriptor> descriptors{};
};

/// Checks that the parts of shared memory are `bytes` bytes in all and whole
/// granules, with a descriptor each. Returns CUDA_ERROR_INVALID_VALUE if they
/// are not.
status check_parts(const shared_object& from, std::uint64_t bytes);

/// Holds the whole granules around an allocation, ready to be shared.
struct shared_granules {
  shared_object what{};
  std::uint64_t lead = 0;  // bytes before the granule of its first byte
  std::uint64_t bytes = 0; // total size
};

/// A device that can share memory and events with another process implements
/// this interface. As with `device`, one thread calls it. Imported objects come
/// from a worker of this host, and the device checks them like any untrusted
/// input.
class sharing_unit {
public:
  virtual ~sharing_unit() = default;

  /// Tells whether share_memory() needs the session's memory to be unused while
  /// it makes the memory shareable.
  virtual bool shares_at_rest() const noexcept = 0;
  /// Tells whether a process that works on pGPU `pgpu` of this host can use
  /// what this device shares.
  virtual bool is_reached_by(std::uint32_t pgpu) const noexcept = 0;
  /// Makes the memory that map() mapped at [address, address + bytes)
  /// shareable. Contents and addresses stay, and repeated calls return the same
  /// answer. Everything else in the same granules is shared with it. Returns
  /// CUDA_ERROR_NOT_SUPPORTED where the hardware cannot share memory.
  virtual result<shared_granules> share_memory(device_address address,
                                               std::uint64_t bytes) = 0;
  /// Makes memory of create_memory() shareable, wherever it is mapped. Nothing
  /// else lies in its granules. Returns CUDA_ERROR_INVALID_VALUE for memory
  /// that was imported.
  virtual result<shared_granules> share_memory(memory_id id) = 0;
  /// Creates memory without an address, as create_memory() does, whose pages
  /// belong to another process. Every function of memory_unit works with it,
  /// and it uses no quota. Returns CUDA_ERROR_INVALID_VALUE where the parts do
  /// not add up to `bytes`.
  virtual status import_memory(memory_id id, std::uint64_t bytes,
                               const shared_object& from) = 0;

  /// Makes an event without timing shareable. Its latest record holds in the
  /// other process too.
  virtual result<shared_object> share_event(event_id id) = 0;
  /// Creates an event from one that another process shares. A record in either
  /// process counts for waits in both. destroy_event() ends it in this process
  /// alone.
  virtual status import_event(event_id id, const shared_object& from) = 0;
};

} // namespace vgpu::device
