// A session's objects in its worker.
#pragma once

#include "actors/compute/share_gate.hpp"
#include "actors/lend/share_broker.hpp"
#include "actors/lend/switchboard.hpp"
#include "actors/link/unix_socket.hpp"
#include "actors/state/living_calls.hpp"
#include "actors/worker/session/answers.hpp"
#include "actors/worker/session/console_output.hpp"
#include "actors/worker/session/device_slot.hpp"
#include "actors/worker/session/host_functions.hpp"
#include "actors/worker/session/host_memory.hpp"
#include "actors/worker/session/image_book.hpp"
#include "actors/worker/session/known_work.hpp"
#include "actors/worker/session/late_writes.hpp"
#include "actors/worker/session/payload_pins.hpp"
#include "actors/worker/session/pending_work.hpp"
#include "actors/worker/session/replay_checks.hpp"
#include "actors/worker/session/replayed_waits.hpp"
#include "actors/worker/session/result_cover.hpp"
#include "actors/worker/session/session_account.hpp"
#include "actors/worker/session/session_health.hpp"
#include "actors/worker/session/work_recorder.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace vgpu {

/// Holds the objects that a session's calls made and use. The executor owns it.
/// Only its thread uses it, except for the members marked as thread-safe. A
/// shared_ptr holds what completions share, because a device may complete work
/// until it is destroyed.
struct session_objects {
  /// Opens window d of the session on device d. Throws std::runtime_error where
  /// the addresses of a window are taken.
  session_objects(std::vector<std::unique_ptr<device::device>> backends,
                  std::uint64_t quota);
  /// Destroys the devices before anything that their completions use.
  ~session_objects();
  session_objects(const session_objects&) = delete;
  session_objects& operator=(const session_objects&) = delete;

  /// Calls `then`, on any thread, when all work enqueued so far is done.
  void when_idle(const std::function<void()>& then);
  /// Waits for the work that the program knew to be done before a replay.
  status await_known();
  /// Ends a wait that a replay holds, and returns whether the call is one.
  bool end_replayed_wait(call_number call);
  /// Ends the waits that a replay holds and that end in the calls that were
  /// examined ahead.
  void end_waits_ahead();
  /// Returns whether a driver placed variables, and no dry run has shown that
  /// another worker gets the same addresses.
  bool needs_dry_run() const noexcept {
    return driver_placed && *driver_placed >= tried_until;
  }
  /// Raises the quota of each device.
  void allow(std::uint64_t quota);
  /// Returns whether all work ends without a further call, because each host
  /// function and late copy has ended, in the log so far or in the calls that
  /// were examined ahead.
  bool may_stop() const {
    return functions.open == 0 ||
           functions.open ==
               functions.calls->ended_ahead() + late_writes->given_ahead();
  }

  std::vector<device_slot> devices;
  /// Holds the gates at which the session's work waits for its turn on each
  /// device.
  share_gates gates;
  session_account account{devices, gates};

  /// Holds the position in the log before which all calls were executed.
  std::uint64_t position = 0;
  /// Counts the executed calls. Thread-safe.
  std::atomic<std::uint64_t> calls{0};
  /// Holds the position before which calls were appended while an earlier
  /// worker served the session.
  std::uint64_t replay_until = 0;
  /// Holds the position at which this worker began, from a state; 0: without
  /// one. Host functions and late copies of earlier calls have ended, although
  /// the log may tell that only later.
  std::uint64_t restored_at = 0;
  /// Compares what was executed with what snapshots cover.
  result_cover cover;
  /// Holds the calls that make the session's objects.
  living_calls living;
  /// Holds the images of the session's modules. The last one may be incomplete.
  std::map<call::digest, std::vector<std::byte>> images;
  /// Counts them.
  image_book image_sizes{0};
  /// Holds the position of the last call for which a GPU's driver placed a
  /// variable outside of its window.
  std::optional<std::uint64_t> driver_placed;
  /// Holds the position up to which a dry run has shown that variables get the
  /// same addresses.
  std::uint64_t tried_until = 0;

  pending_work pending;
  host_memory host;
  host_functions functions;
  /// Is shared with the thread that looks ahead.
  std::shared_ptr<vgpu::late_writes> late_writes =
      std::make_shared<vgpu::late_writes>();
  replayed_waits waits;
  known_work known;
  /// Serves other sessions' requests; null until the session shares something.
  std::unique_ptr<share_broker> broker;
  /// Connects to the brokers of other sessions.
  worker_connector connect = connect_abstract;

  /// Receives the answers.
  std::shared_ptr<answer_sink> sink;
  std::shared_ptr<session_health> health = std::make_shared<session_health>();
  std::shared_ptr<console_output> output = std::make_shared<console_output>();
  /// Tells the program when its work is executed, while it is traced.
  work_recorder work{output};
  std::shared_ptr<payload_pins> pins = std::make_shared<payload_pins>();
  std::shared_ptr<replay_checks> checks = std::make_shared<replay_checks>();
};

} // namespace vgpu
