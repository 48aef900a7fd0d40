// What a program hands over when it opens its session.
#pragma once

#include "actors/client/guest_codec.hpp"
#include "actors/link/data_head.hpp"
#include "actors/link/protocol.hpp"
#include "actors/link/unix_socket.hpp"
#include "schema/base/fault.hpp"
#include "schema/log/call_log.hpp"
#include "schema/log/session_area.hpp"
#include "schema/log/snapshot_files.hpp"

#include <cstdint>
#include <memory>

namespace vgpu {

/// Holds a program's session as its client received it: the program, its
/// request, and the memory that both share.
///
/// The parts of a session_client refer to one object of this type, which lives
/// as long as they do. It belongs to the session_client's thread. The program
/// can write all of the shared memory, so each reader checks every value that
/// it reads there. checked where it is used.
struct opened_session {
  control::program program;
  control::specification specification;
  std::shared_ptr<session_area> area;
  /// Is rung by the program when it appends calls while the reader sleeps.
  unique_fd doorbell;
  /// Holds the files in which snapshots lie.
  state_places places;
  /// Is the client's reader of the call log. The client reads the log itself
  /// only while no mapped worker does.
  log_reader reader;
  /// Tells that the program wants to know why it waits for its first lease.
  bool hears_waiting = false;

  /// Takes the session's memory out of the packet that brought `hello`. Fails
  /// where descriptors are missing or the memory is malformed.
  static result<opened_session> take(const guest::hello& hello, packet& in);

  /// Returns the control area's first page.
  control_header& header() const noexcept { return area->header(); }
  /// Returns whether calls are journalled, so that a lost worker can be
  /// replaced.
  bool is_protected() const noexcept;
  /// Returns whether each result must be covered by a snapshot before the
  /// program gets it.
  bool covers_results() const noexcept {
    return specification.on_divergence == control::divergence::snapshot;
  }
  /// Returns what data::covered says: the position of the newest snapshot. A
  /// session without protection is never replayed.
  std::uint64_t covered() const noexcept {
    return is_protected() ? header().covered.load() : data::covered::everything;
  }
  /// Returns whether a replay of the whole journal is a way to recover. The
  /// log must have it, and the program must have read nothing that a snapshot
  /// had to cover.
  bool may_replay_all() const noexcept {
    return is_protected() && header().trimmed.load() == 0 &&
           !(covers_results() && header().covered.load() != 0);
  }
  /// Returns whether the program still waits for a call before `position`,
  /// whose answer has not arrived yet.
  bool waits_before(std::uint64_t position) const noexcept;
  /// Returns the ticket that the session's former client left in the shared
  /// memory. Fails where it cannot be read.
  result<guest::ticket> read_ticket() const;
};

/// Calls f(index, call) for each reply slot. `call` is the call for which the
/// program waits or last waited there.
template <class F>
void each_slot(const session_area& area, const F& f) {
  for (unsigned i = 1; i < slot_count; ++i) {
    auto index = static_cast<slot_index>(i);
    f(index, call_number{area.at(index).call.load()});
  }
}

/// Calls f(index, call) for each reply slot in which the program waits.
template <class F>
void each_waiting(const session_area& area, const F& f) {
  each_slot(area, [&](slot_index index, call_number call) {
    if (area.waits(index, call))
      f(index, call);
  });
}

} // namespace vgpu
