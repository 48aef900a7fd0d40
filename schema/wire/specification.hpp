// What is asked of a vGPU, and the table of its fields: what `vgpu run` takes
// as options, profiles as keys and programs as variables.
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

/// As users know it.
const char* name_of(protection x) noexcept;

/// Where the program's own host comes in when a place is chosen.
enum class locality : std::uint16_t { local_first, local_only, any };

inline constexpr std::uint32_t wait_for_ever =
    std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint32_t keep_when_idle =
    std::numeric_limits<std::uint32_t>::max();

/// No snapshots are taken more often.
inline constexpr std::uint32_t shortest_snapshot_ms = 50;

/// 80 from "8.0". Nothing where it is none from 1.0 to 99.9.
std::optional<std::uint16_t> read_capability(const std::string& text);
/// "8.0" from 80.
std::string show_capability(std::uint16_t x);

/// What is asked of a vGPU.
struct specification {
  double share = 1.0;       // of one pGPU's compute, in (0, 1]
  std::uint64_t memory = 0; // bytes a device; 0: the pGPU's by share
  std::uint32_t gpus = 1;
  control::protection protection = control::protection::journal;
  double limit = 1.0;        // of one pGPU's compute, in (0, 1]
  std::int32_t priority = 0; // larger goes first
  std::string node{};        // only there; empty: anywhere
  std::int32_t pgpu = -1;    // only that ordinal; -1: any
  std::string backend{};     // "cpu" or "nvidia"; empty: any
  /// Only devices of this compute capability or a higher one: 80 is 8.0; 0:
  /// any.
  std::uint16_t capability = 0;
  locality where = locality::local_first;
  vgpu_id beside{}; // on its pGPUs; none: wherever
  vgpu_id apart{};  // not on its pGPUs
  /// How long to wait for a place; 0: fail at once.
  std::uint32_t wait_ms = wait_for_ever;
  /// Without a call for so long it is suspended, until its next one.
  std::uint32_t idle_after_ms = keep_when_idle;
  /// Under protection::snapshot: how often a state is taken while calls are
  /// made.
  std::uint32_t snapshot_ms = 10'000;
  /// Processes of one group are placed together where they fit, so that they
  /// can share memory; 0: of none.
  std::uint64_t group = 0;
  bool operator==(const specification&) const = default;

  /// As they travel; what users may write is specification_fields().
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
  }
};

/// One field, under the name that users know.
struct specification_field {
  const char* name;     // option and key: `share`
  const char* variable; // VGPU_SHARE
  const char* range;    // what may be given, for a person
  const char* meaning;
  /// False when the text is out of range; then nothing has changed.
  bool (*set)(specification& to, const std::string& text);
  /// As a text that set() takes.
  std::string (*get)(const specification& from);
};

/// All of them. Every reader of specifications goes through this table.
std::span<const specification_field> specification_fields();

/// Sets the field of that name. The fault names the field and its range.
status set_field(specification& to, const std::string& name,
                 const std::string& text);

/// Takes the variables of the environment, VGPU_SHARE and so on, that are set
/// and not empty. The fault names the first that is wrong.
status set_from_environment(specification& to);

} // namespace vgpu::control

template <>
struct vgpu::wire_enum<vgpu::control::protection> {
  static constexpr auto last = control::protection::snapshot;
  static constexpr auto what = "protection level";
};
template <>
struct vgpu::wire_enum<vgpu::control::locality> {
  static constexpr auto last = control::locality::any;
  static constexpr auto what = "locality";
};
