// One device of a session: the device, what it can do, and what the session
// has on it.
#pragma once

#include "actors/compute/work_meter.hpp"
#include "actors/state/event_times.hpp"
#include "actors/state/vgpu_state.hpp"
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
#include "devices/interface/value_unit.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_set>
#include <vector>

namespace vgpu {

/// What a device can do besides device::device. Each pointer is null where the
/// device lacks the capability, and is good for as long as the device lives.
struct device_capabilities {
  device::memory_unit* memory = nullptr;
  device::change_unit* change = nullptr;
  device::sharing_unit* sharing = nullptr;
  device::texture_unit* texture = nullptr;
  device::value_unit* value = nullptr;
  device::timing_unit* timing = nullptr;
  device::condition_unit* condition = nullptr;
  device::tensor_map_unit* tensor_map = nullptr;
  device::file_unit* file = nullptr;
  const device::meter* meter = nullptr;

  /// Asks a device once for everything that it can do.
  static device_capabilities of(device::device& what);
};

/// Ranges of device memory: address and bytes.
using memory_ranges = std::map<device_address, std::uint64_t>;

/// A device that serves window `ordinal` of a session, and what the session has
/// on it. One thread uses it.
struct device_slot {
  /// Reserves the window on the device, at most `quota` bytes of which the
  /// session may allocate. Throws std::runtime_error where the addresses of the
  /// window are taken.
  device_slot(std::unique_ptr<device::device> what, std::size_t ordinal,
              std::uint64_t quota);

  /// Notes variables that stay when the module goes with which they came.
  void keep_for_good(const std::vector<device::global_info>& variables);
  /// Whether an address lies in this device's window.
  bool in_window(device_address x) const noexcept;
  /// Returns the memory in the window whose contents belong to a state:
  /// allocations, arrays and variables.
  memory_ranges contents() const;
  /// Returns the variables that the GPU's driver placed outside of the window.
  /// Nothing tells what of them changed.
  memory_ranges outside_of_window() const;
  /// Returns the allocations that lie in the device's memory as they lie in the
  /// window. An array may lie there in an order of its own.
  memory_ranges lendable() const;

  /// Enqueues copies at [address, address + bytes), where part of a piece of
  /// physical memory is mapped that begins at `offset` of it.
  using look = std::function<status(device_address address,
                                    std::uint64_t offset, std::uint64_t bytes)>;
  /// Maps physical memory where the program uses no addresses, calls `f` for
  /// one part of it after the other, and waits for the copies of each.
  /// Precondition: the device has a memory unit.
  status look_through(memory_id memory, std::uint64_t bytes, const look& f);

  /// Returns what a completion passes on which tells that the work of `stream`,
  /// or of all streams, is done. It does nothing where the device has a meter
  /// of its own.
  work_meter::done_mark idle_after(std::optional<stream_id> stream);

  std::size_t ordinal;
  vgpu_state state;
  stream_order order;
  event_times times;
  /// The streams that the legacy stream waits for, and that wait for it.
  std::unordered_set<stream_id> blocking;
  /// The variables that stay when their module goes.
  std::vector<device::global_info> kept_for_good;
  std::unique_ptr<device::device> device;
  device_capabilities can;
  /// The worker's own meter; null where the device has one.
  std::unique_ptr<work_meter> host_meter;
  /// The device's meter, or the worker's own.
  const device::meter* meter;
};

/// Contents that are on their way between a device and a state at one time, at
/// most.
inline constexpr std::uint64_t state_batch_bytes = std::uint64_t{32} << 20;

} // namespace vgpu
