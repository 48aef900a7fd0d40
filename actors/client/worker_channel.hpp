// The connection to the worker that serves a session.
#pragma once

#include "actors/link/data_head.hpp"
#include "actors/link/frames.hpp"
#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Holds what comes with a worker's message, besides its head.
struct worker_payload {
  /// Holds descriptors, from a mapped worker.
  std::vector<unique_fd> files{};
  /// Holds bytes, from a forwarded worker.
  std::span<const std::byte> bytes{};
  /// Keeps the bytes.
  std::shared_ptr<const void> owner{};
};

/// Receives the events of a worker_channel. It may close the channel in any of
/// these calls.
class worker_listener {
public:
  virtual ~worker_listener() = default;

  /// Reports that the worker is dead or silent, or refuses its lease.
  virtual void suspect(const std::string& why) = 0;
  /// Reports that no worker can serve the session any more.
  virtual void lose_session(const std::string& why) = 0;
  /// Reports that the channel is about to attach to the worker, and returns the
  /// message for it. The worker takes it for a new client, so a checkpoint
  /// under way is given up. `answers_seen` counts the answers that have
  /// arrived.
  virtual data::attach begin_attach(std::uint64_t answers_seen) = 0;
  /// Reports that the worker serves the session. `received` is the position
  /// from which it needs the calls, in bytes of the call log; unset: it reads
  /// the log by itself.
  virtual void on_attached(std::optional<std::uint64_t> received) = 0;
  virtual void on_progress(const data::progress& x) = 0;
  /// Reports that the program got an answer that it waited for.
  virtual void on_answer() = 0;
  /// Passes on a message about checkpoints or about the replay.
  virtual void on_message(const data::head& head, worker_payload payload) = 0;
};

/// Is the connection to one worker, from the lease to the next. mapped_channel
/// serves workers that map the call log, forwarded_channel sends them the
/// calls.
///
/// It belongs to the session_client's thread. read(), forward() and tend()
/// report events to a worker_listener.
class worker_channel {
public:
  using clock = std::chrono::steady_clock;

  virtual ~worker_channel() = default;

  virtual bool is_mapped() const noexcept = 0;
  /// Returns whether the worker takes orders.
  virtual bool ready() const noexcept = 0;
  /// Sends a message, which is lost if the connection is.
  virtual void send(data::body what) = 0;
  /// Sends a message with descriptors. Precondition: is_mapped() or there are
  /// no descriptors.
  virtual void send_with(data::body what, std::span<const int> descriptors) = 0;
  /// Stops reading and sending. The object stays valid.
  virtual void close() noexcept = 0;

  // -- waiting ----------------------------------------------------------------

  /// Adds the descriptors that signal when there is something to read().
  /// Returns true if there is something that no descriptor signals.
  virtual bool add_to(std::vector<pollfd>& items) = 0;
  /// Returns whether there are messages, and notes that in `items`, to which
  /// add_to() added.
  virtual bool has_messages(std::vector<pollfd>& items) = 0;
  /// Notes what the wait on `items` found. `overlooked` is what add_to()
  /// returned.
  virtual void note_ready(const std::vector<pollfd>& items,
                          bool overlooked) = 0;
  /// Reads what the last wait found.
  virtual void read() = 0;
  /// Returns whether an unread message says that the worker restored its state.
  /// Drops the messages up to that one. Call it when the worker is dead.
  virtual bool restored_unheard() { return false; }

  // -- calls that this side sends ---------------------------------------------

  /// Returns whether the worker would take calls from forward() now.
  virtual bool takes_calls() const noexcept { return false; }
  /// Sends calls from the log. Fails where the program damaged its log.
  virtual status forward() { return {}; }
  /// Returns up to where calls were sent, in bytes of the log; unset: the
  /// worker reads them by itself.
  virtual std::optional<std::uint64_t> sent() const noexcept { return {}; }
  /// Returns whether so many answers of the session have arrived.
  virtual bool has_answers(std::uint64_t) const noexcept { return true; }
  /// Keeps the connection up. Call it at next_tend() at the latest.
  virtual void tend() {}
  /// Returns clock::time_point::max() where tend() is not needed.
  virtual clock::time_point next_tend() const noexcept {
    return clock::time_point::max();
  }

protected:
  worker_channel() = default;
  worker_channel(const worker_channel&) = delete;
  worker_channel& operator=(const worker_channel&) = delete;
};

} // namespace vgpu
