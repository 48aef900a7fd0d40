// How a node starts a worker's process, and what it tells it first.
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

/// The boards of a node's pGPUs, by ordinal; null where nobody takes turns.
using share_boards = std::map<std::uint32_t, std::shared_ptr<share_board>>;

/// A worker's process, which opens its devices and then reads its orders: what
/// is said here is known before its epoch is.
child_spec command_of(const supervisor_options& opts,
                      const share_boards& boards,
                      const control::prepare_worker& x, std::uint64_t tag);

/// What it reads then: its epoch, its secret, which in its arguments every user
/// of the host could read, and its seats at the boards, in the order of its
/// pGPUs.
std::string orders_of(const control::start_worker& x,
                      std::span<const std::int32_t> seats);

/// What of its order does not depend on the epoch.
control::prepare_worker preparation_of(const control::start_worker& x);

/// A worker that is killed cannot remove its socket itself.
void remove_socket(const supervisor_options& opts, session_id session,
                   std::uint64_t tag);

} // namespace vgpu
