// The way to the worker that serves a session.
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

/// What comes with a worker's message, besides its head.
struct worker_payload {
  /// Descriptors, of a worker on this host.
  std::vector<unique_fd> files{};
  /// Bytes, of a worker elsewhere.
  std::span<const std::byte> bytes{};
};

/// Hears what a worker_channel has for its session. It may close the channel in
/// any of these calls.
class worker_listener {
public:
  virtual ~worker_listener() = default;

  /// The worker is dead, silent or refuses its lease.
  virtual void suspect(const std::string& why) = 0;
  /// No worker can serve the session any more.
  virtual void lose_session(const std::string& why) = 0;
  /// The channel is about to attach to the worker. Returns what the worker is
  /// shown. To the worker this is a client that begins, so a checkpoint that
  /// is under way is given up. `answers_seen`: how many answers have arrived.
  virtual data::attach begin_attach(std::uint64_t answers_seen) = 0;
  /// The worker serves the session. `received`: where it wants calls from, in
  /// bytes of the call log; nothing where it reads the log by itself.
  virtual void on_attached(std::optional<std::uint64_t> received) = 0;
  virtual void on_progress(const data::progress& x) = 0;
  /// The program got an answer that it waited for.
  virtual void on_answer() = 0;
  /// A message about checkpoints or about the replay.
  virtual void on_message(const data::head& head, worker_payload payload) = 0;
};

/// The connection to one worker, from the lease to the next. mapped_channel
/// serves workers that map the call log, forwarded_channel sends them the
/// calls.
///
/// All of it belongs to the session_client's thread. What comes in is reported
/// to a worker_listener by read(), forward() and tend().
class worker_channel {
public:
  using clock = std::chrono::steady_clock;

  virtual ~worker_channel() = default;

  virtual bool is_mapped() const noexcept = 0;
  /// Whether the worker takes orders.
  virtual bool ready() const noexcept = 0;
  /// Sends a message. It is lost where the connection is.
  virtual void send(data::body what) = 0;
  /// Sends a message with descriptors. Precondition: is_mapped() or there are
  /// no descriptors.
  virtual void send_with(data::body what, std::span<const int> descriptors) = 0;
  /// No more is read or sent. The object stays valid.
  virtual void close() noexcept = 0;

  // -- waiting ----------------------------------------------------------------

  /// Adds the descriptors that tell when there is something to read(). True
  /// where there is something of which no descriptor tells.
  virtual bool add_to(std::vector<pollfd>& items) = 0;
  /// Whether there are messages; if so, notes that in `items`, to which
  /// add_to() added.
  virtual bool has_messages(std::vector<pollfd>& items) = 0;
  /// Takes note of what the wait on `items` found. `overlooked`: what add_to()
  /// returned.
  virtual void note_ready(const std::vector<pollfd>& items,
                          bool overlooked) = 0;
  /// Reads what the last wait found.
  virtual void read() = 0;
  /// Whether a message that was not read yet says that the worker restored its
  /// state. Messages up to that one are dropped. To be called when the worker
  /// is dead.
  virtual bool restored_unheard() { return false; }

  // -- calls that this side sends
  // ----------------------------------------------

  /// Whether the worker would take calls from forward() now.
  virtual bool takes_calls() const noexcept { return false; }
  /// Sends calls from the log. A fault where the program damaged its log.
  virtual status forward() { return {}; }
  /// Up to where calls were sent, in bytes of the log; nothing where the worker
  /// reads them by itself.
  virtual std::optional<std::uint64_t> sent() const noexcept { return {}; }
  /// Whether so many answers of the session have arrived.
  virtual bool has_answers(std::uint64_t) const noexcept { return true; }
  /// Keeps the connection up. To be called at next_tend() at the latest.
  virtual void tend() {}
  /// clock::time_point::max() where it need not be called.
  virtual clock::time_point next_tend() const noexcept {
    return clock::time_point::max();
  }

protected:
  worker_channel() = default;
  worker_channel(const worker_channel&) = delete;
  worker_channel& operator=(const worker_channel&) = delete;
};

} // namespace vgpu
