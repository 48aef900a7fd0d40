// Memory and events that two processes have at once: what a device can do
// besides device.hpp.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/base/physical_memory.hpp"
#include "schema/log/session_area.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace vgpu::device {

/// A descriptor that several hold; closed with the last of them.
using shared_descriptor = std::shared_ptr<const unique_fd>;

/// What one process hands to another so that both have the same thing. Memory:
/// a descriptor for each part, and a word with that part's bytes; parts follow
/// one another. An event: whatever the backend that made it understands.
struct shared_object {
  /// Of neither there are more.
  static constexpr std::size_t most = 64;

  std::vector<std::uint64_t> words{};
  std::vector<shared_descriptor> descriptors{};
};

/// Whether the parts of memory are what they should be for `bytes` in all:
/// whole granules, a descriptor each. CUDA_ERROR_INVALID_VALUE if not.
status check_parts(const shared_object& from, std::uint64_t bytes);

/// Whole granules around an allocation.
struct shared_granules {
  shared_object what{};
  std::uint64_t lead = 0;  // bytes before the granule of its first byte
  std::uint64_t bytes = 0; // in all
};

/// A device whose memory and events can be another process's too is one of
/// these as well. Called as the device is: by one thread. What is imported
/// comes from a worker of this host, and is checked like a stranger's word.
class sharing_unit {
public:
  virtual ~sharing_unit() = default;

  /// Whether nothing may be using the session's memory while share_memory()
  /// makes it shareable.
  virtual bool shares_at_rest() const noexcept = 0;
  /// Whether a process that works on that pGPU of this host can use what is
  /// shared here.
  virtual bool is_reached_by(std::uint32_t pgpu) const noexcept = 0;
  /// Makes what map() put behind [address, address + bytes) shareable; its
  /// contents and addresses stay. What else lies in these granules is shared
  /// with it. The same answer each time. CUDA_ERROR_NOT_SUPPORTED where the
  /// hardware cannot.
  virtual result<shared_granules> share_memory(device_address address,
                                               std::uint64_t bytes) = 0;
  /// Likewise of what create_memory() made, wherever it is mapped: nothing
  /// else lies in its granules. CUDA_ERROR_INVALID_VALUE for memory that was
  /// imported.
  virtual result<shared_granules> share_memory(memory_id id) = 0;
  /// Memory without an address, as if create_memory() had made it, but its
  /// pages are another process's: what memory_unit does with memory, it does
  /// with this. It uses no quota. CUDA_ERROR_INVALID_VALUE where the parts do
  /// not make up these bytes.
  virtual status import_memory(memory_id id, std::uint64_t bytes,
                               const shared_object& from) = 0;

  /// Of an event without timing. Its latest record holds in the other process
  /// too.
  virtual result<shared_object> share_event(event_id id) = 0;
  /// An event that is another process's: recorded here or there, it is waited
  /// for here and there. destroy_event() ends it here alone.
  virtual status import_event(event_id id, const shared_object& from) = 0;
};

} // namespace vgpu::device
