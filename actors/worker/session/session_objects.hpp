// Everything that a session has in its worker.
#pragma once

#include "actors/compute/share_gate.hpp"
#include "actors/lend/share_broker.hpp"
#include "actors/state/living_calls.hpp"
#include "actors/worker/session/answers.hpp"
#include "actors/worker/session/console_output.hpp"
#include "actors/worker/session/device_slot.hpp"
#include "actors/worker/session/host_functions.hpp"
#include "actors/worker/session/host_memory.hpp"
#include "actors/worker/session/payload_pins.hpp"
#include "actors/worker/session/replay_checks.hpp"
#include "actors/worker/session/replayed_waits.hpp"
#include "actors/worker/session/session_account.hpp"
#include "actors/worker/session/session_health.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace vgpu {

/// What the calls of a session made and use. The executor owns it, and its
/// thread alone touches it, except for what says that it is thread-safe. What
/// is shared with completions is held by shared_ptr: a device may complete work
/// until it is gone.
struct session_objects {
  /// Opens window d of the session on device d. Throws std::runtime_error where
  /// the addresses of a window are taken.
  session_objects(std::vector<std::unique_ptr<device::device>> backends,
                  std::uint64_t quota);
  /// Ends the devices before anything that their threads complete into.
  ~session_objects();
  session_objects(const session_objects&) = delete;
  session_objects& operator=(const session_objects&) = delete;

  /// Calls `then`, from any thread, when all work enqueued so far is done.
  void when_idle(const std::function<void()>& then);
  /// Waits for what the program knew to be done before a replay.
  status await_known();
  /// Whether a driver placed variables, and no dry run has shown that a worker
  /// that makes the session's objects again gets them in the same places.
  bool needs_dry_run() const noexcept {
    return driver_placed && *driver_placed >= tried_until;
  }
  /// Whether all that was begun ends without a further call, because no host
  /// function has its turn still before it.
  bool may_stop() const noexcept { return functions.open == 0; }

  std::vector<device_slot> devices;
  /// Where the session's work waits for its turn on each device.
  share_gates gates;
  session_account account{devices, gates};

  /// The position in the log before which all calls were executed.
  std::uint64_t position = 0;
  /// How many calls were executed. Thread-safe.
  std::atomic<std::uint64_t> calls{0};
  /// Calls before this were appended while an earlier worker served the
  /// session.
  std::uint64_t replay_until = 0;
  /// The calls that make the session's objects again.
  living_calls living;
  /// The images of the session's modules, of which the last may not be whole.
  std::map<call::digest, std::vector<std::byte>> images;
  /// The last call by which a variable came to lie outside of its window, where
  /// a GPU's driver placed it.
  std::optional<std::uint64_t> driver_placed;
  /// A dry run found that variables of calls before this position would lie
  /// where they do.
  std::uint64_t tried_until = 0;

  host_memory host;
  host_functions functions;
  replayed_waits waits;
  /// Serves other sessions' requests; null until the session shares something.
  std::unique_ptr<share_broker> broker;

  /// Where answers go.
  std::shared_ptr<answer_sink> sink;
  std::shared_ptr<session_health> health = std::make_shared<session_health>();
  std::shared_ptr<console_output> output = std::make_shared<console_output>();
  std::shared_ptr<payload_pins> pins = std::make_shared<payload_pins>();
  std::shared_ptr<replay_checks> checks = std::make_shared<replay_checks>();
};

} // namespace vgpu
