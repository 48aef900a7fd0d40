// Memory that one worker lends to another of the same host. The next worker
// copies it from device to device, and no process touches a byte.
#pragma once

#include "actors/state/state_file.hpp"
#include "actors/worker/session/session_objects.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Returns whether a worker on these pGPUs of this host, one for each device,
/// could use the session's memory in place.
bool can_lend_to(const session_objects& session,
                 std::span<const std::uint32_t> pgpus);

/// Lends the memory of one device: adds its description to `pieces`, and its
/// descriptors to `to`.
status lend_memory(const device_slot& slot, std::vector<state_lent>& pieces,
                   std::vector<device::shared_descriptor>& to);

/// Copies a lent piece of memory to its former address.
status take_lent_memory(session_objects& session, const state_lent& what,
                        unique_fd memory);

/// Returns a number as programs write addresses: 0x500000000000.
std::string hex_of(std::uint64_t x);

} // namespace vgpu
