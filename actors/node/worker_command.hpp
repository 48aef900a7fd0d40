// How a node starts a worker's process, and the orders that it gives it.
#pragma once

#include "actors/compute/share_board.hpp"
#include "actors/node/spawner.hpp"
#include "actors/node/supervisor.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Holds the boards of a node's pGPUs, by ordinal; null where there are no
/// turns.
using share_boards = std::map<std::uint32_t, std::shared_ptr<share_board>>;

/// Returns the command of a worker's process, which opens its devices and then
/// reads its orders. The command has only what is known before the epoch.
child_spec command_of(const supervisor_options& opts,
                      const share_boards& boards,
                      const control::prepare_worker& x, std::uint64_t tag);

/// Returns the orders that the worker reads from stdin: its epoch, its secret,
/// its seats at the boards in the order of its pGPUs, and its client's public
/// key, or `none`. The secret is not an argument because every user of the host
/// can read those.
std::string orders_of(const control::start_worker& x,
                      std::span<const std::int32_t> seats);

/// Returns the part of an order that does not depend on the epoch.
control::prepare_worker preparation_of(const control::start_worker& x);

/// Removes the socket of a worker, because a killed worker cannot.
void remove_socket(const supervisor_options& opts, session_id session,
                   std::uint64_t tag);

} // namespace vgpu
