// Makes sure that at most one worker executes a session's calls.
#pragma once

#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/host.hpp"
#include "schema/base/ids.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace vgpu {

/// Ends the worker that listens on this abstract Unix socket of this host, and
/// returns when its process is dead. The kernel removes an abstract name with
/// its process, so only a refused connection proves its death. Fails where the
/// socket cannot be asked, where its process is no worker, because a lease may
/// name anybody's socket, where the worker belongs to another user, and where
/// it does not die in time.
status end_worker(const std::string& guest_socket,
                  std::chrono::milliseconds patience);

/// Stands between a session's call log and the next worker: it passes only when
/// the worker of the former lease is dead or has stopped for good.
///
/// A worker of this host is ended by end_worker(). A worker elsewhere stops by
/// itself when its lease's term has run out, so the fence waits for that time.
/// A worker that handed over its state and was released executes nothing.
///
/// It belongs to the session_client's thread, which it may block for some
/// seconds.
class worker_fence {
public:
  using clock = std::chrono::steady_clock;

  /// Says how long the fence waits beyond the lease's term. It exceeds the time
  /// that a message may count as new after it was sent (client_silence.hpp):
  /// 150 ms on a host that stands still, and the time on the network.
  static constexpr std::chrono::milliseconds margin{200};

  /// Takes the id of this host, and how long a worker serves without a message
  /// from its client.
  worker_fence(std::string host, std::chrono::milliseconds lease_term)
      : host_(std::move(host)), lease_term_(lease_term) {}

  /// Call it with each message to a worker, because the message may renew its
  /// lease.
  void note_contact() noexcept { last_contact_ = clock::now(); }
  /// Records that the worker of this epoch handed over its state and was
  /// released.
  void note_released(epoch worker) noexcept { released_ = worker; }
  /// Forgets the released worker, because its state was used or given up.
  void forget_released() noexcept { released_.reset(); }

  /// Blocks until `former`'s worker executes nothing any more. Fails where that
  /// cannot be known. `next` is the epoch of the current lease.
  status pass(const std::optional<control::lease>& former, epoch next) const;

private:
  std::string host_;
  std::chrono::milliseconds lease_term_;
  clock::time_point last_contact_{};
  std::optional<epoch> released_;
};

} // namespace vgpu
