// One device of a session: the device, its capabilities, and the session's
// objects on it.
#pragma once

#include "actors/compute/work_meter.hpp"
#include "actors/state/event_times.hpp"
#include "actors/state/vgpu_state.hpp"
#include "actors/worker/session/late_rooms.hpp"
#include "actors/worker/session/stream_order.hpp"
#include "devices/interface/change_unit.hpp"
#include "devices/interface/condition_unit.hpp"
#include "devices/interface/device.hpp"
#include "devices/interface/file_unit.hpp"
#include "devices/interface/memory_unit.hpp"
#include "devices/interface/meter.hpp"
#include "devices/interface/sharing_unit.hpp"
#include "devices/interface/tensor_map_unit.hpp"
#include "devices/interface/texture_unit.hpp"
#include "devices/interface/timing_unit.hpp"
#include "devices/interface/trace_unit.hpp"
#include "devices/interface/tuning_unit.hpp"
#include "devices/interface/value_unit.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_set>
#include <vector>

namespace vgpu {

/// Holds a device's capabilities besides device::device. Each pointer is null
/// where the device lacks the capability, and is valid as long as the device.
struct device_capabilities {
  device::memory_unit* memory = nullptr;
  device::change_unit* change = nullptr;
  device::sharing_unit* sharing = nullptr;
  device::texture_unit* texture = nullptr;
  device::value_unit* value = nullptr;
  device::timing_unit* timing = nullptr;
  device::condition_unit* condition = nullptr;
  device::tensor_map_unit* tensor_map = nullptr;
  device::tuning_unit* tuning = nullptr;
  device::file_unit* file = nullptr;
  device::trace_unit* trace = nullptr;
  const device::meter* meter = nullptr;

  /// Returns all capabilities of a device.
  static device_capabilities of(device::device& what);
};

/// Holds ranges of device memory: address and bytes.
using memory_ranges = std::map<device_address, std::uint64_t>;

/// Holds the device that serves window `ordinal` of a session, and the
/// session's objects on it. Not thread-safe.
struct device_slot {
  /// Reserves the window on the device, of which the session may allocate at
  /// most `quota` bytes. Throws std::runtime_error where the addresses of the
  /// window are taken.
  device_slot(std::unique_ptr<device::device> what, std::size_t ordinal,
              std::uint64_t quota);

  /// Records variables that outlive their module.
  void keep_for_good(const std::vector<device::global_info>& variables);
  /// Records that the heap of kernels' malloc has changed.
  void note_heap(const device::global_info& heap);
  /// Returns whether an address lies in this device's window.
  bool in_window(device_address x) const noexcept;
  /// Returns the memory in the window whose contents belong to a state:
  /// allocations, arrays and variables.
  memory_ranges contents() const;
  /// Returns the variables that the GPU's driver placed outside of the window.
  /// The device does not track their changes.
  memory_ranges outside_of_window() const;
  /// Returns the allocations whose order in the device's memory is that of the
  /// window. An array may lie there in an order of its own.
  memory_ranges lendable() const;

  /// Enqueues copies at [address, address + bytes), where a part of physical
  /// memory is mapped that begins at `offset`.
  using look = std::function<status(device_address address,
                                    std::uint64_t offset, std::uint64_t bytes)>;
  /// Maps physical memory part by part where the program uses no addresses,
  /// calls `f` for each part, and waits for its copies. Precondition: the
  /// device has a memory unit.
  status look_through(memory_id memory, std::uint64_t bytes, const look& f);

  /// Returns the mark to pass to a completion which shows that the work of
  /// `stream`, or of all streams, is done. The mark does nothing where the
  /// device has a meter of its own.
  work_meter::done_mark idle_after(std::optional<stream_id> stream);

  std::size_t ordinal;
  vgpu_state state;
  stream_order order;
  event_times times;
  /// Holds the streams that wait for the legacy stream and for which it waits.
  std::unordered_set<stream_id> blocking;
  /// Holds the variables that outlive their module.
  std::vector<device::global_info> kept_for_good;
  /// Holds the memory for bytes that the program sends late.
  vgpu::late_rooms late_rooms;
  std::unique_ptr<device::device> device;
  device_capabilities can;
  /// Holds the worker's own meter; null where the device has one.
  std::unique_ptr<work_meter> host_meter;
  /// Points to the device's meter, or to the worker's own.
  const device::meter* meter;
};

/// Limits the contents on their way between a device and a state at one time.
inline constexpr std::uint64_t state_batch_bytes = std::uint64_t{32} << 20;

} // namespace vgpu
