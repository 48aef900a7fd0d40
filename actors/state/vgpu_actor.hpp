// The messages, the answers and the typed handle of a vGPU state actor. The
// behaviour is in actors/worker/serve/vgpu_state_actor.hpp.
#pragma once

#include "actors/link/control_values.hpp"
#include "devices/interface/device.hpp"
#include "schema/base/ids.hpp"
#include "schema/log/session_area.hpp"
#include "schema/wire/next_worker.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace vgpu {

/// Names how far a vGPU is at the place that is asked.
///
///              1             2             3
///   arriving ────► serving ────► pausing ────► paused
///      ▲             ▲  ▲           │ 4         │ │
///      │             │  └───────────┘     5     │ │
///      │             └──────────────────────────┘ │ 6
///      └──────────────────────────────────────────┘
///
///   1 A client attaches, or resume_vgpu arrives. If there is a state, it is
///     restored before.
///   2 pause_vgpu arrives, or a client orders a snapshot.
///   3 The session has come to rest at a call, and its state is written.
///   4 The session cannot come to rest or be described, the pause is revoked,
///     or a snapshot is written.
///   5 resume_vgpu arrives.
///   6 resume_vgpu arrives, and the session's memory must first be brought
///     back to its devices.
///
/// Each phase may lead to `gone`, and no phase follows that one.
enum class vgpu_phase : std::uint8_t {
  /// The session's state is not here yet, or nothing has resumed it.
  arriving,
  /// Calls are executed.
  serving,
  /// A checkpoint is being taken. Calls are executed until its last part.
  pausing,
  /// The session stands still at a call, and can be described.
  paused,
  /// The session has ended here. Another place may have it in a later epoch.
  gone,
};

/// Says where a vGPU is: which place answers to its name, since which epoch.
struct vgpu_place {
  /// Holds the logical name, `vgpu/17`, which is the same at each place.
  std::string name;
  session_id session;
  /// Numbers the placement. The place with the highest epoch is the right one.
  vgpu::epoch epoch;
  /// Says where the worker listens, and on which host it is.
  control::worker_endpoints endpoints;
  vgpu_phase phase = vgpu_phase::arriving;
  /// Names the call before which all calls were executed here.
  call_number position;
};

/// Holds a file that more than one actor may read.
using shared_file = std::shared_ptr<const unique_fd>;

/// Holds what a vGPU is at a call (schema/wire/state.capnp).
struct vgpu_description {
  vgpu::epoch epoch;
  /// Names the call at which the session stands still.
  call_number position;
  /// Holds the state. It changes as soon as the session pauses again.
  shared_file state;
  /// Gives the size of the state's file in bytes.
  std::uint64_t bytes = 0;
};

// -- the five questions -------------------------------------------------------

// A question that names an epoch is for the place of that epoch. Every other
// place refuses it, so that no sender speaks to a former place by mistake.
//
// Clients ask all but the first over the data plane, where the same handlers
// answer (vgpu_state_actor.hpp). The worker actor asks the first by the
// mailbox. Only tests ask the others by the mailbox.

/// Asks where the vGPU is. It names no epoch, because the sender does not know
/// it. The worker actor asks it, and reports the answer to its node.
struct where_is_vgpu {};

/// Asks the vGPU to come to rest at a call and to write its state there. The
/// answer comes when that is done. The client asks it for a migration.
struct pause_vgpu {
  vgpu::epoch epoch;
  /// Makes the state smaller at the cost of time, for one that will travel.
  bool compress = false;
};

/// Asks a paused vGPU for its state. The client asks it, for the next place.
struct describe_vgpu {
  vgpu::epoch epoch;
};

/// Asks a place that serves no session yet to adopt a described one. The client
/// asks it. The session stands still there until it is resumed.
struct adopt_vgpu {
  vgpu::epoch epoch;
  shared_file state;
  /// Tells that nobody else needs the file, so that its pages may become
  /// memory.
  bool keeps_file = false;
};

/// Asks a vGPU that is paused, or was just adopted, to execute calls from where
/// it stands. The client asks it.
struct resume_vgpu {
  vgpu::epoch epoch;
};

// -- orders -------------------------------------------------------------------

/// Orders a larger quota. The worker actor passes it on from the manager.
struct resize_vgpu {
  /// Gives the quota on each device in bytes. A quota never gets smaller.
  std::uint64_t quota = 0;
};

/// Says which standby the session has. The worker actor passes it on from the
/// node.
struct standby_changed {
  /// Says how the worker reaches the standby. Empty: there is none.
  next_worker standby{};
};

/// Orders a device to fail, for tests and demonstrations. The worker actor
/// passes it on from a command.
struct break_device {
  /// Numbers the device among those of the session, from 0.
  std::uint32_t ordinal = 0;
  injected_fault fault = injected_fault::lost;
};

// -- the actor ----------------------------------------------------------------

/// Names why a question was refused.
enum class vgpu_refusal : std::uint8_t {
  /// The question is for another epoch. Ask the manager where the vGPU is.
  other_epoch = 1,
  /// The session has ended here. Ask the manager where the vGPU is.
  gone,
  /// The vGPU is in a phase that does not allow it, or something failed. The
  /// text says what, and the session is where it was.
  refused,
};

/// Makes an answer that refuses a question. The text names the vGPU, and says
/// what was wrong and what to do.
inline caf::error make_error(vgpu_refusal why, std::string text) {
  return {static_cast<std::uint8_t>(why), caf::atom("vgpu"),
          caf::make_message(std::move(text))};
}

/// Tells whether an answer has this reason. An actor that has ended, for which
/// CAF answers, is gone.
inline bool is_refusal(const caf::error& answer, vgpu_refusal why) {
  if (answer == caf::sec::request_receiver_down)
    return why == vgpu_refusal::gone;
  return answer.category() == caf::atom("vgpu") &&
         answer.code() == static_cast<std::uint8_t>(why);
}

/// Is a vGPU at one place: it holds the session's state there. Its name stays
/// when the session moves to another worker process, in which another actor
/// with that name adopts the state that this one describes. Calls are not among
/// its messages: its thread reads them from shared memory or from a socket.
///
/// Each answer but a description is the place after the request. Errors are
/// vgpu_refusal.
using vgpu_actor =
    caf::typed_actor<caf::replies_to<where_is_vgpu>::with<vgpu_place>,
                     caf::replies_to<pause_vgpu>::with<vgpu_place>,
                     caf::replies_to<describe_vgpu>::with<vgpu_description>,
                     caf::replies_to<adopt_vgpu>::with<vgpu_place>,
                     caf::replies_to<resume_vgpu>::with<vgpu_place>,
                     caf::reacts_to<resize_vgpu>, caf::reacts_to<break_device>,
                     caf::reacts_to<standby_changed>>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::vgpu_place)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::vgpu_description)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::where_is_vgpu)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pause_vgpu)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::describe_vgpu)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::adopt_vgpu)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::resume_vgpu)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::resize_vgpu)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::break_device)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::standby_changed)
