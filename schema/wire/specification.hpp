// The specification of a vGPU, and the table of its fields, which are options
// of `vgpu run`, keys of profiles and variables of programs.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/wire/message_fields.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace vgpu::control {

enum class protection : std::uint16_t { none, journal, snapshot };

/// Returns the name that users know.
const char* name_of(protection x) noexcept;

/// Says what happens when a replay gives other results than the program has
/// read: the program goes on with the state of the replay, or gets an error. Or
/// that does not happen, because a snapshot covers each result before the
/// program gets it.
enum class divergence : std::uint16_t { go_on, error, snapshot };

/// Returns the name that users know.
const char* name_of(divergence x) noexcept;

/// Says whether placement prefers or requires the program's own host.
enum class locality : std::uint16_t { local_first, local_only, any };

inline constexpr std::uint32_t wait_for_ever =
    std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint32_t keep_when_idle =
    std::numeric_limits<std::uint32_t>::max();

/// Gives the shortest time between snapshots.
inline constexpr std::uint32_t shortest_snapshot_ms = 50;

/// Returns 80 for "8.0". Returns nothing for anything but 1.0 to 99.9.
std::optional<std::uint16_t> read_capability(const std::string& text);
/// Returns "8.0" for 80.
std::string show_capability(std::uint16_t x);

/// Holds the properties that a program requests of its vGPU.
struct specification {
  double share = 1.0;       // part of one pGPU's compute, in (0, 1]
  std::uint64_t memory = 0; // bytes per device; 0: the pGPU's times the share
  std::uint32_t gpus = 1;
  control::protection protection = control::protection::journal;
  double limit = 1.0;        // most of one pGPU's compute, in (0, 1]
  std::int32_t priority = 0; // The larger one goes first.
  std::string node{};        // required node; empty: any
  std::int32_t pgpu = -1;    // required ordinal; -1: any
  std::string backend{};     // "cpu" or "nvidia"; empty: any
  /// Holds the lowest compute capability of a device: 80 is 8.0, and 0 is any.
  std::uint16_t capability = 0;
  locality where = locality::local_first;
  vgpu_id beside{}; // vGPU whose pGPUs are required; zero: none
  vgpu_id apart{};  // vGPU whose pGPUs are excluded; zero: none
  /// Says how long to wait for a place. With 0, the request fails at once.
  std::uint32_t wait_ms = wait_for_ever;
  /// Says after how long without a call the vGPU is suspended until its next
  /// call.
  std::uint32_t idle_after_ms = keep_when_idle;
  /// Holds the time between snapshots while the program makes calls, under
  /// protection::snapshot.
  std::uint32_t snapshot_ms = 10'000;
  /// Holds the time in which the session recovers from the loss of its worker.
  std::uint32_t recover_within_ms = 2'000;
  /// Limits the time that snapshots take for that, in percent of all time. With
  /// 0, none is taken for it.
  double protect_cost = 2;
  divergence on_divergence = divergence::go_on;
  /// Names the group. Processes of one group are placed together where they
  /// fit, so that they can share memory. 0: the process is in no group.
  std::uint64_t group = 0;
  bool operator==(const specification&) const = default;

  /// Declares the fields for messages. specification_fields() declares them for
  /// users.
  static void fields(auto& x, auto&& f) {
    f(x.share, WIRE_MEMBER(Share));
    f(x.memory, WIRE_MEMBER(Memory));
    f(x.gpus, WIRE_MEMBER(Gpus));
    f(x.protection, WIRE_MEMBER(Protection));
    f(x.limit, WIRE_MEMBER(Limit));
    f(x.priority, WIRE_MEMBER(Priority));
    f(x.node, WIRE_MEMBER(Node));
    f(x.pgpu, WIRE_MEMBER(Pgpu));
    f(x.backend, WIRE_MEMBER(Backend));
    f(x.where, WIRE_MEMBER(Locality));
    f(x.beside, WIRE_MEMBER(Beside));
    f(x.apart, WIRE_MEMBER(Apart));
    f(x.wait_ms, WIRE_MEMBER(WaitMs));
    f(x.idle_after_ms, WIRE_MEMBER(IdleAfterMs));
    f(x.snapshot_ms, WIRE_MEMBER(SnapshotMs));
    f(x.group, WIRE_MEMBER(Group));
    f(x.capability, WIRE_MEMBER(Capability));
    f(x.recover_within_ms, WIRE_MEMBER(RecoverWithinMs));
    f(x.protect_cost, WIRE_MEMBER(ProtectCost));
    f(x.on_divergence, WIRE_MEMBER(OnDivergence));
  }
};

/// Holds the part of a specification that says how a session recovers. It may
/// change while the session runs.
struct recovery_terms {
  std::uint32_t within_ms = 0; // 0: the sender is older, and tells none of them
  double cost = 0;             // percent
  divergence on_divergence = divergence::go_on;
  bool operator==(const recovery_terms&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.within_ms, WIRE_MEMBER(RecoverWithinMs));
    f(x.cost, WIRE_MEMBER(ProtectCost));
    f(x.on_divergence, WIRE_MEMBER(OnDivergence));
  }
};

recovery_terms recovery_of(const specification& x) noexcept;
/// Sets them, within their ranges, if `x` tells them.
void set_recovery(specification& to, const recovery_terms& x) noexcept;

/// Returns a fault that names the field which is out of its range.
status check(const recovery_terms& x);

/// Describes one field, by the name that users know.
struct specification_field {
  const char* name;     // option and key, such as `share`
  const char* variable; // environment variable, such as VGPU_SHARE
  const char* range;    // allowed values, for people
  const char* meaning;
  /// Sets the field. Returns false, without a change, if the text is out of
  /// range.
  bool (*set)(specification& to, const std::string& text);
  /// Returns the field as a text that set() accepts.
  std::string (*get)(const specification& from);
};

/// Returns all fields. Every reader of specifications uses this table.
std::span<const specification_field> specification_fields();

/// Sets the field of that name. A fault names the field and its range.
status set_field(specification& to, const std::string& name,
                 const std::string& text);

/// Sets the fields whose environment variables (VGPU_SHARE and so on) are set
/// and not empty. A fault names the first wrong one.
status set_from_environment(specification& to);

} // namespace vgpu::control

template <>
struct vgpu::wire_enum<vgpu::control::protection> {
  static constexpr auto last = control::protection::snapshot;
  static constexpr auto what = "protection level";
};
template <>
struct vgpu::wire_enum<vgpu::control::divergence> {
  static constexpr auto last = control::divergence::snapshot;
  static constexpr auto what = "answer to a divergence";
};
template <>
struct vgpu::wire_enum<vgpu::control::locality> {
  static constexpr auto last = control::locality::any;
  static constexpr auto what = "locality";
};
