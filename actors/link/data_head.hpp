// The data plane's heads (schema/wire/data.capnp, DataHead) as values.
#pragma once

#include "actors/link/seal/frame_seal.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/log/session_area.hpp"
#include "schema/wire/message_fields.hpp"
#include "schema/wire/next_worker.hpp"
#include "schema/wire/specification.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace vgpu::data {

struct waiting {
  call_number call{};
  slot_index slot = 0;

  static void fields(auto& x, auto&& f) {
    f(x.call, WIRE_MEMBER(Call));
    f(x.slot, WIRE_MEMBER(Slot));
  }
};

struct attach {
  std::uint64_t token = 0;
  std::uint64_t answers_seen = 0;
  std::uint64_t replay_until = 0;
  std::vector<data::waiting> waiting;
  std::uint64_t restore = 0; // bytes of the state to restore; 0: none
  std::uint64_t charged = 0; // earlier calls are in the account already
  bool adopt = false;        // the worker may keep the state's file
  /// Leaves a checkpointed process checkpointed until go_on.
  bool process_checkpointed = false;
  /// Tells whether the client opens the program's files for the worker.
  bool opens_files = false;
  control::divergence on_divergence = control::divergence::go_on;
  std::uint64_t covered = 0; // as data::covered says

  static void fields(auto& x, auto&& f) {
    f(x.token, WIRE_MEMBER(Token));
    f(x.answers_seen, WIRE_MEMBER(AnswersSeen));
    f(x.replay_until, WIRE_MEMBER(ReplayUntil));
    f(x.restore, WIRE_MEMBER(Restore));
    f(x.charged, WIRE_MEMBER(Charged));
    f(x.adopt, WIRE_MEMBER(Adopt));
    f(x.process_checkpointed, WIRE_MEMBER(ProcessCheckpointed));
    f(x.opens_files, WIRE_MEMBER(OpensFiles));
    f(x.on_divergence, WIRE_MEMBER(OnDivergence));
    f(x.covered, WIRE_MEMBER(Covered));
    f(x.waiting, WIRE_MEMBER(Waiting));
  }
};
/// Announces a payload: the log's bytes [from, to).
struct calls {
  std::uint64_t from = 0;
  std::uint64_t to = 0;

  static void fields(auto& x, auto&& f) {
    f(x.from, WIRE_MEMBER(From));
    f(x.to, WIRE_MEMBER(To));
  }
};
struct keepalive {
  std::uint64_t sent = 0;
  std::uint64_t answers_seen = 0;

  static void fields(auto& x, auto&& f) {
    f(x.sent, WIRE_MEMBER(Sent));
    f(x.answers_seen, WIRE_MEMBER(AnswersSeen));
  }
};
struct detach {
  static void fields(auto&, auto&&) {}
};

struct progress {
  std::uint64_t received = 0;
  std::uint64_t executed = 0;
  CUresult sticky = CUDA_SUCCESS;
  std::uint64_t calls = 0;
  std::uint64_t answers = 0;
  std::uint64_t acknowledged = 0;   // answers that will not be sent again
  std::uint64_t charged = 0;        // earlier calls are in the account
  std::vector<std::uint8_t> busy{}; // utilisation of each device, in percent
  std::uint64_t served_calls = 0;   // that this worker itself has executed
  std::uint64_t served_ns = 0;      // for which it was busy with them
  std::uint64_t device_ns = 0;      // for which its devices worked
  /// Tells whether the worker still compares the results of a replay, and so
  /// answers nothing.
  bool compares = false;

  static void fields(auto& x, auto&& f) {
    f(x.received, WIRE_MEMBER(Received));
    f(x.executed, WIRE_MEMBER(Executed));
    f(x.sticky, WIRE_MEMBER(StickyError));
    f(x.calls, WIRE_MEMBER(Calls));
    f(x.answers, WIRE_MEMBER(Answers));
    f(x.acknowledged, WIRE_MEMBER(Acknowledged));
    f(x.charged, WIRE_MEMBER(Charged));
    f(x.busy, WIRE_MEMBER(Busy));
    f(x.served_calls, WIRE_MEMBER(ServedCalls));
    f(x.served_ns, WIRE_MEMBER(ServedNs));
    f(x.device_ns, WIRE_MEMBER(DeviceNs));
    f(x.compares, WIRE_MEMBER(Compares));
  }
};
struct attached {
  progress at;
  std::uint16_t second_port = 0; // 0: no second connection
  seal_offer seal{};             // for a second connection that is sealed

  static void fields(auto& x, auto&& f) {
    progress::fields(x.at, f);
    f(x.second_port, WIRE_MEMBER(SecondPort));
    f(x.seal, WIRE_MEMBER(Seal));
  }
};
/// Adds a second connection to the session, and acknowledges it.
struct join {
  std::uint64_t token = 0; // the lease's; 0 in the worker's message

  static void fields(auto& x, auto&& f) { f(x.token, WIRE_MEMBER(Join)); }
};
struct answer {
  /// Says what the payload is, and where it belongs.
  enum class place {
    none,
    arena,
    host,
    output,
    error,
    host_call,
    zero_copy, // changed_line of host memory that kernels use in place
    times      // work_times of traced work
  };
  std::uint64_t number = 0;
  call_number call{};
  slot_index slot = 0;
  CUresult result = CUDA_SUCCESS;
  std::uint64_t value = 0;
  place where = place::none;
  std::uint64_t at = 0;     // arena offset, host address or console position
  std::uint32_t digest = 0; // of all bytes that the call returns

  static void fields(auto& x, auto&& f) {
    f(x.number, WIRE_MEMBER(Number));
    f(x.call, WIRE_MEMBER(Call));
    f(x.slot, WIRE_MEMBER(Slot));
    f(x.result, WIRE_MEMBER(Result));
    f(x.value, WIRE_MEMBER(Value));
    f(x.digest, WIRE_MEMBER(Digest));
  }
};
struct refused {
  std::string why;

  static void fields(auto& x, auto&& f) { f(x.why, WIRE_MEMBER(Refused)); }
};

// -- migration

struct checkpoint {
  bool compress = false;
  bool go_on = false; // a snapshot: the worker continues afterwards
  std::uint64_t order = 0;
  /// A state with more device memory than this is written to the disk.
  std::uint64_t in_memory = 0;
  /// Holds the pGPUs of the same host whose worker may take over the memory
  /// without a copy. Empty: the memory is copied.
  std::vector<std::uint32_t> lend_to{};
  /// Allows the driver to checkpoint the worker's whole process where the
  /// session's state cannot be described.
  bool may_checkpoint_process = false;
  /// Names the prepared worker on this host, if there is one.
  next_worker next{};
  /// With go_on: the session may leave at once where its memory can be handed
  /// to the next worker.
  bool may_leave = false;
  /// With go_on: the worker may have a standby make the session's objects.
  bool stands_by = false;

  static void fields(auto& x, auto&& f) {
    f(x.compress, WIRE_MEMBER(Compress));
    f(x.go_on, WIRE_MEMBER(GoOn));
    f(x.order, WIRE_MEMBER(Order));
    f(x.in_memory, WIRE_MEMBER(InMemory));
    f(x.may_checkpoint_process, WIRE_MEMBER(MayCheckpointProcess));
    f(x.lend_to, WIRE_MEMBER(LendTo));
    f(x.next, WIRE_MEMBER(Next));
    f(x.may_leave, WIRE_MEMBER(MayLeave));
    f(x.stands_by, WIRE_MEMBER(StandsBy));
  }
};
struct go_on {
  static void fields(auto&, auto&&) {}
};
/// Says how far a worker is with a checkpoint.
struct checkpointing {
  enum class phase : std::uint16_t { copying, stopping, resting, completing };
  std::uint64_t order = 0; // the number of the checkpoint order
  phase now = phase::copying;

  static void fields(auto& x, auto&& f) {
    f(x.order, WIRE_MEMBER(Order));
    f(x.now, WIRE_MEMBER(Phase));
  }
};
struct checkpointed {
  std::uint64_t position = 0;
  std::uint64_t bytes = 0;   // of the state's file
  std::uint64_t answers = 0; // answers that the client must have first
  std::uint64_t pause_ns = 0;
  std::uint64_t order = 0; // the number of the checkpoint order
  bool on_disk = false;
  bool process_checkpointed = false; // there is no file: the process waits
  /// Says how long the copies have delayed others on the worker's processors.
  std::uint64_t delayed_ns = 0;
  bool leaves = false; // the session does not go on, as may_leave permits

  static void fields(auto& x, auto&& f) {
    f(x.position, WIRE_MEMBER(Position));
    f(x.bytes, WIRE_MEMBER(Bytes));
    f(x.answers, WIRE_MEMBER(Answers));
    f(x.pause_ns, WIRE_MEMBER(PauseNs));
    f(x.order, WIRE_MEMBER(Order));
    f(x.on_disk, WIRE_MEMBER(OnDisk));
    f(x.process_checkpointed, WIRE_MEMBER(ProcessCheckpointed));
    f(x.delayed_ns, WIRE_MEMBER(DelayedNs));
    f(x.leaves, WIRE_MEMBER(Leaves));
  }
};
/// Says that a checkpointed process is on its GPUs again.
struct back {
  static void fields(auto&, auto&&) {}
};
struct not_checkpointed {
  std::string why;

  static void fields(auto& x, auto&& f) {
    f(x.why, WIRE_MEMBER(NotCheckpointed));
  }
};
/// Asks for the file's bytes [from, to).
struct state_wanted {
  std::uint64_t from = 0;
  std::uint64_t to = 0;

  static void fields(auto& x, auto&& f) {
    f(x.from, WIRE_MEMBER(From));
    f(x.to, WIRE_MEMBER(To));
  }
};
/// Announces a payload: the file's bytes from here on.
struct state_part {
  std::uint64_t from = 0;

  static void fields(auto& x, auto&& f) { f(x.from, WIRE_MEMBER(StatePart)); }
};
/// Reports the calls whose results differ in a replay.
struct differs {
  std::vector<std::uint64_t> calls; // the first few
  std::uint64_t total = 0;
  bool fails = false; // the program must get an error for it
  std::string first;  // how the first short result differs; may be empty

  static void fields(auto& x, auto&& f) {
    f(x.total, WIRE_MEMBER(Total));
    f(x.fails, WIRE_MEMBER(Fails));
    f(x.first, WIRE_MEMBER(First));
    f(x.calls, WIRE_MEMBER(Calls));
  }
};

// -- under divergence::snapshot

/// Says that the call at this position reads what no snapshot covers yet, and
/// waits for one.
struct cover_wanted {
  std::uint64_t position = 0; // 0: it does not wait any more

  static void fields(auto& x, auto&& f) {
    f(x.position, WIRE_MEMBER(CoverWanted));
  }
};
/// Says of which position the newest snapshot is.
struct covered {
  /// Says that no call is ever executed again, so that nothing can differ.
  static constexpr auto everything = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t position = 0;

  static void fields(auto& x, auto&& f) { f(x.position, WIRE_MEMBER(Covered)); }
};
/// Changes the setting of on-divergence, in place of attach's.
struct wish {
  control::divergence on_divergence = control::divergence::go_on;

  static void fields(auto& x, auto&& f) {
    f(x.on_divergence, WIRE_MEMBER(OnDivergence));
  }
};

// -- between the workers of a session, before there is an epoch

/// Comes with a file that describes the session's objects without contents.
struct prepare {
  std::uint64_t token = 0; // the prepared worker's

  static void fields(auto& x, auto&& f) { f(x.token, WIRE_MEMBER(Prepare)); }
};
/// Answers `prepare`.
struct prepared {
  std::string why; // empty: all objects exist

  static void fields(auto& x, auto&& f) { f(x.why, WIRE_MEMBER(Prepared)); }
};
/// Answers `prepare` where the session's variables lie elsewhere.
struct unlike {
  std::string why;

  static void fields(auto& x, auto&& f) { f(x.why, WIRE_MEMBER(Unlike)); }
};
/// Comes, after `prepared`, with a parcel of the memory that a state lends.
struct lent {
  std::uint64_t position = 0; // of the state

  static void fields(auto& x, auto&& f) { f(x.position, WIRE_MEMBER(Lent)); }
};

/// Lists all heads, in the order of `body`.
inline constexpr std::tuple heads{
    WIRE_CHOICE(attach, Attach),
    WIRE_CHOICE(calls, Calls),
    WIRE_CHOICE(keepalive, Keepalive),
    WIRE_CHOICE(detach, Detach),
    WIRE_CHOICE(progress, Progress),
    WIRE_CHOICE(attached, Attached),
    WIRE_CHOICE(answer, Answer),
    WIRE_CHOICE(refused, Refused),
    WIRE_CHOICE(checkpoint, Checkpoint),
    WIRE_CHOICE(go_on, GoOn),
    WIRE_CHOICE(checkpointed, Checkpointed),
    WIRE_CHOICE(not_checkpointed, NotCheckpointed),
    WIRE_CHOICE(state_wanted, StateWanted),
    WIRE_CHOICE(state_part, StatePart),
    WIRE_CHOICE(differs, Differs),
    WIRE_CHOICE(checkpointing, Checkpointing),
    WIRE_CHOICE(back, Back),
    WIRE_CHOICE(join, Join),
    WIRE_CHOICE(prepare, Prepare),
    WIRE_CHOICE(prepared, Prepared),
    WIRE_CHOICE(unlike, Unlike),
    WIRE_CHOICE(lent, Lent),
    WIRE_CHOICE(cover_wanted, CoverWanted),
    WIRE_CHOICE(covered, Covered),
    WIRE_CHOICE(wish, OnDivergence),
};

using body = one_of_choices<decltype(heads)>;

struct head {
  session_id session;
  vgpu::epoch epoch;
  data::body body;
};

/// Returns the message, as 8-byte words.
std::vector<std::uint64_t> encode(const head& x);

/// Returns a fault where the words are no head of a known kind. Never throws
/// because of what a peer sent.
result<head> decode(std::span<const std::uint64_t> words);

} // namespace vgpu::data
