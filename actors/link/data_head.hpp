// The data plane's heads (schema/wire/data.capnp, DataHead) as values.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/log/session_area.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace vgpu::data {

struct waiting {
  call_number call{};
  slot_index slot = 0;
};

struct attach {
  std::uint64_t token = 0;
  std::uint64_t answers_seen = 0;
  std::uint64_t replay_until = 0;
  std::vector<data::waiting> waiting;
  std::uint64_t restore = 0; // bytes of a state to begin with
  std::uint64_t charged = 0; // calls before it are in the account already
  bool adopt = false;        // the state's file is the worker's
  bool aside = false;        // who is aside stays so
};
/// The payload is the log's bytes [from, to).
struct calls {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};
struct keepalive {
  std::uint64_t sent = 0;
  std::uint64_t answers_seen = 0;
};
struct detach {};

struct progress {
  std::uint64_t received = 0;
  std::uint64_t executed = 0;
  CUresult sticky = CUDA_SUCCESS;
  std::uint64_t calls = 0;
  std::uint64_t answers = 0;
  std::uint64_t acknowledged = 0;   // answers that will not be sent again
  std::uint64_t charged = 0;        // calls before it are in the account
  std::vector<std::uint8_t> busy{}; // percent, of each device
};
struct attached {
  progress at;
  std::uint16_t second_port = 0; // 0: it takes no second connection
};
/// A second connection becomes the session's: by it, and back.
struct join {
  std::uint64_t token = 0; // the lease's; of a worker nothing
};
struct answer {
  /// What the payload is, and where it belongs.
  enum class place {
    none,
    arena,
    host,
    output,
    error,
    host_call,
    zero_copy // changed_line of host memory that kernels use in place
  };
  std::uint64_t number = 0;
  call_number call{};
  slot_index slot = 0;
  CUresult result = CUDA_SUCCESS;
  std::uint64_t value = 0;
  place where = place::none;
  std::uint64_t at = 0;     // arena offset, host address or console position
  std::uint32_t digest = 0; // of all that the call brings
};
struct refused {
  std::string why;
};

// -- a session that moves

struct checkpoint {
  bool compress = false;
  bool go_on = false; // a snapshot: the worker only pauses
  std::uint64_t order = 0;
  std::uint64_t in_memory = 0; // with more device memory: on the disk
  /// Not empty: memory may be handed over to a worker on these pGPUs.
  std::vector<std::uint32_t> lend_to{};
  /// Where it cannot be described, its process may be put aside.
  bool or_aside = false;
};
struct go_on {};
/// How far a worker is with a checkpoint.
struct checkpointing {
  enum class phase : std::uint16_t { copying, stopping, resting };
  std::uint64_t order = 0; // the checkpoint's
  phase now = phase::copying;
};
struct checkpointed {
  std::uint64_t position = 0;
  std::uint64_t bytes = 0;   // of the state's file
  std::uint64_t answers = 0; // that must have arrived
  std::uint64_t pause_ns = 0;
  std::uint64_t order = 0; // the checkpoint's
  bool on_disk = false;
  bool aside = false; // no file: its process waits as it is
};
/// A process that was aside is on its GPUs again.
struct back {};
struct not_checkpointed {
  std::string why;
};
/// Send the file's bytes [from, to).
struct state_wanted {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};
/// The payload is the file's bytes from here on.
struct state_part {
  std::uint64_t from = 0;
};
/// What a replay brought differently.
struct differs {
  std::vector<std::uint64_t> calls; // the first few
  std::uint64_t total = 0;
};

using body =
    std::variant<attach, calls, keepalive, detach, progress, attached, answer,
                 refused, checkpoint, go_on, checkpointed, not_checkpointed,
                 state_wanted, state_part, differs, checkpointing, back, join>;

struct head {
  session_id session;
  vgpu::epoch epoch;
  data::body body;
};

/// A message of 8-byte words.
std::vector<std::uint64_t> encode(const head& x);

/// A fault where the words are no head of a known kind. Never throws for what
/// a peer sent.
result<head> decode(std::span<const std::uint64_t> words);

} // namespace vgpu::data
