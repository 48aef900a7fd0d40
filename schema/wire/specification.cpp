#include "schema/wire/specification.hpp"

#include "schema/base/own_environment.hpp"
#include "schema/base/sizes.hpp"
#include "schema/log/session_area.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace vgpu::control {

namespace {

constexpr std::uint32_t most_gpus = most_devices;
constexpr std::int32_t largest_priority = 1000;
constexpr std::int32_t last_pgpu = 1023;
constexpr std::size_t longest_name = 32;
constexpr auto last_group = std::uint64_t{1} << 63;
/// Gives the longest wait, in seconds.
constexpr double longest_wait = 1'000'000;
/// Gives the shortest time between snapshots, in milliseconds.
constexpr double shortest_period = shortest_snapshot_ms;
constexpr double longest_period = 86'400'000;

template <class T>
bool read(const std::string& text, T& to) {
  T value{};
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    return false;
  to = value;
  return true;
}

template <class T>
bool read(const std::string& text, T& to, T least, T most) {
  T value{};
  // In this form the condition refuses NaN as well.
  if (!read(text, value) || !(value >= least && value <= most))
    return false;
  to = value;
  return true;
}

std::string show(double x) {
  char out[32];
  auto [end, error] = std::to_chars(out, out + sizeof out, x);
  return {out, end};
}

bool read_fraction(const std::string& text, double& to) {
  double value = 0;
  if (!read(text, value, 0.0, 1.0) || value == 0)
    return false;
  to = value;
  return true;
}

bool read_vgpu(const std::string& text, vgpu_id& to) {
  return read(text, to.value, std::uint64_t{1},
              std::numeric_limits<std::uint64_t>::max());
}

bool read_memory(const std::string& text, std::uint64_t& to) {
  if (text == "by-share") {
    to = 0;
    return true;
  }
  auto size = parse_size(text);
  if (size)
    to = *size;
  return size.ok();
}

bool read_name(const std::string& text, std::string& to) {
  auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (text.empty() || text.size() > longest_name)
    return false;
  for (auto c : text)
    if (!plain(c))
      return false;
  to = text;
  return true;
}

/// Reads a number of seconds into `to`, in milliseconds.
bool read_seconds(const std::string& text, double least, std::uint32_t& to) {
  double seconds = 0;
  if (!read(text, seconds, least, longest_wait))
    return false;
  to = static_cast<std::uint32_t>(std::lround(seconds * 1000));
  return true;
}

bool read_wait(const std::string& text, std::uint32_t& to) {
  if (text != "forever" && text != "no")
    return read_seconds(text, 0, to);
  to = text == "no" ? 0 : wait_for_ever;
  return true;
}

bool read_idle_after(const std::string& text, std::uint32_t& to) {
  if (text != "keep")
    return read_seconds(text, 0.1, to);
  to = keep_when_idle;
  return true;
}

/// Reads a number of seconds, or a number with a unit.
bool read_period(const std::string& text, std::uint32_t& to) {
  auto digits = text;
  double scale = 1000;
  if (digits.ends_with("ms")) {
    digits.resize(digits.size() - 2);
    scale = 1;
  } else if (digits.ends_with("s")) {
    digits.pop_back();
  }
  double value = 0;
  if (!read(digits, value, shortest_period / scale, longest_period / scale))
    return false;
  to = static_cast<std::uint32_t>(std::lround(value * scale));
  return true;
}

/// Reads one of the words. The enum's values are their positions.
template <class Enum, std::size_t n>
bool read_word(const std::string& text, const std::string_view (&words)[n],
               Enum& to) {
  for (auto i = 0u; i < n; ++i)
    if (text == words[i]) {
      to = static_cast<Enum>(i);
      return true;
    }
  return false;
}

constexpr std::string_view protections[] = {"none", "journal", "snapshot"};
constexpr std::string_view divergences[] = {"continue", "error", "snapshot"};
constexpr std::string_view localities[] = {"local-first", "local-only", "any"};

using spec = specification;
using text = const std::string&;

constexpr specification_field fields[] = {
    {"share", "VGPU_SHARE", "more than 0 and at most 1",
     "of a GPU's compute; below 1 it is a guarantee",
     [](spec& to, text x) { return read_fraction(x, to.share); },
     [](const spec& x) { return show(x.share); }},
    {"limit", "VGPU_LIMIT", "more than 0 and at most 1",
     "of a GPU's compute that it never exceeds",
     [](spec& to, text x) { return read_fraction(x, to.limit); },
     [](const spec& x) { return show(x.limit); }},
    {"memory", "VGPU_MEMORY", "a size as 512MiB or 4G, or by-share",
     "GPU memory to reserve on each GPU",
     [](spec& to, text x) { return read_memory(x, to.memory); },
     [](const spec& x) {
       return x.memory == 0 ? std::string{"by-share"}
                            : std::to_string(x.memory);
     }},
    {"gpus", "VGPU_GPUS", "1 to 64", "how many GPUs it sees",
     [](spec& to, text x) { return read(x, to.gpus, 1u, most_gpus); },
     [](const spec& x) { return std::to_string(x.gpus); }},
    {"priority", "VGPU_PRIORITY", "-1000 to 1000",
     "larger goes first, in queues and under the policy priority",
     [](spec& to, text x) {
       return read(x, to.priority, -largest_priority, largest_priority);
     },
     [](const spec& x) { return std::to_string(x.priority); }},
    {"protect", "VGPU_PROTECT", "none, journal or snapshot",
     "none: a lost GPU is an error; journal: it is replaced and the work done "
     "again; snapshot: only the work since the last snapshot",
     [](spec& to, text x) { return read_word(x, protections, to.protection); },
     [](const spec& x) {
       return std::string{protections[static_cast<unsigned>(x.protection)]};
     }},
    {"snapshot-every", "VGPU_SNAPSHOT_EVERY",
     "seconds from 0.05 to 86400, as 10, 10s or 500ms",
     "how often a snapshot is taken, under protect snapshot",
     [](spec& to, text x) { return read_period(x, to.snapshot_ms); },
     [](const spec& x) {
       return show(static_cast<double>(x.snapshot_ms) / 1000) + "s";
     }},
    {"recover-within", "VGPU_RECOVER_WITHIN",
     "seconds from 0.05 to 86400, as 2, 2s or 500ms",
     "in which it recovers from a lost GPU; snapshots see to that",
     [](spec& to, text x) { return read_period(x, to.recover_within_ms); },
     [](const spec& x) {
       return show(static_cast<double>(x.recover_within_ms) / 1000) + "s";
     }},
    {"protect-cost", "VGPU_PROTECT_COST", "0 to 100",
     "percent of its time that snapshots for recover-within may take",
     [](spec& to, text x) { return read(x, to.protect_cost, 0.0, 100.0); },
     [](const spec& x) { return show(x.protect_cost); }},
    {"on-divergence", "VGPU_ON_DIVERGENCE", "continue, error or snapshot",
     "when a lost GPU's work, done again, gives other results than the program "
     "has read; snapshot: never, as each result waits for a snapshot",
     [](spec& to, text x) {
       return read_word(x, divergences, to.on_divergence);
     },
     [](const spec& x) { return std::string{name_of(x.on_divergence)}; }},
    {"node", "VGPU_NODE", "a name of 1 to 32 letters, digits, - or _",
     "only on this node",
     [](spec& to, text x) { return read_name(x, to.node); },
     [](const spec& x) { return x.node; }},
    {"pgpu", "VGPU_PGPU", "0 to 1023", "only on the pGPU of this ordinal",
     [](spec& to, text x) { return read(x, to.pgpu, 0, last_pgpu); },
     [](const spec& x) {
       return x.pgpu < 0 ? std::string{} : std::to_string(x.pgpu);
     }},
    {"backend", "VGPU_BACKEND", "cpu or nvidia", "only on such pGPUs",
     [](spec& to, text x) {
       if (x != "cpu" && x != "nvidia")
         return false;
       to.backend = x;
       return true;
     },
     [](const spec& x) { return x.backend; }},
    {"capability", "VGPU_CAPABILITY", "a compute capability from 1.0 to 99.9",
     "only on pGPUs of this one or a higher one",
     [](spec& to, text x) {
       auto read = read_capability(x);
       to.capability = read.value_or(to.capability);
       return read.has_value();
     },
     [](const spec& x) {
       return x.capability == 0 ? std::string{} : show_capability(x.capability);
     }},
    {"where", "VGPU_WHERE", "local-first, local-only or any",
     "whether the program's own host comes first",
     [](spec& to, text x) { return read_word(x, localities, to.where); },
     [](const spec& x) {
       return std::string{localities[static_cast<unsigned>(x.where)]};
     }},
    {"beside", "VGPU_BESIDE", "the number of a vGPU",
     "only on the pGPUs of that vGPU",
     [](spec& to, text x) { return read_vgpu(x, to.beside); },
     [](const spec& x) {
       return x.beside ? std::to_string(x.beside.value) : std::string{};
     }},
    {"apart", "VGPU_APART", "the number of a vGPU",
     "never on the pGPUs of that vGPU",
     [](spec& to, text x) { return read_vgpu(x, to.apart); },
     [](const spec& x) {
       return x.apart ? std::to_string(x.apart.value) : std::string{};
     }},
    {"wait", "VGPU_WAIT", "seconds from 0 to 1000000, no or forever",
     "for a place, when there is none",
     [](spec& to, text x) { return read_wait(x, to.wait_ms); },
     [](const spec& x) {
       return x.wait_ms == wait_for_ever
                  ? std::string{"forever"}
                  : show(static_cast<double>(x.wait_ms) / 1000);
     }},
    {"idle-after", "VGPU_IDLE_AFTER", "seconds from 0.1 to 1000000, or keep",
     "without a call, after which others may have its GPU until its next one",
     [](spec& to, text x) { return read_idle_after(x, to.idle_after_ms); },
     [](const spec& x) {
       return x.idle_after_ms == keep_when_idle
                  ? std::string{"keep"}
                  : show(static_cast<double>(x.idle_after_ms) / 1000);
     }},
    {"group", "VGPU_GROUP", "a number from 1 to 2^63",
     "its processes go to the same GPUs as others of that group, if they fit",
     [](spec& to, text x) {
       return read(x, to.group, std::uint64_t{1}, last_group);
     },
     [](const spec& x) {
       return x.group == 0 ? std::string{} : std::to_string(x.group);
     }},
};

/// Returns a value for an error message, as one short line.
std::string shown(const std::string& value) {
  constexpr std::size_t longest = 60;
  auto out = value.size() <= longest ? value : value.substr(0, longest) + "...";
  for (auto& c : out)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f')
      c = '?';
  return out;
}

fault wrong(const std::string& name, const std::string& value,
            const specification_field& field) {
  return {fault_kind::usage,
          name + " '" + shown(value) + "': give " + field.range};
}

} // namespace

std::optional<std::uint16_t> read_capability(const std::string& text) {
  auto dot = text.find('.');
  unsigned major = 0, minor = 0;
  if (dot == std::string::npos || text.size() != dot + 2 ||
      !read(text.substr(0, dot), major, 1u, 99u) ||
      !read(text.substr(dot + 1), minor, 0u, 9u))
    return std::nullopt;
  return static_cast<std::uint16_t>(10 * major + minor);
}

std::string show_capability(std::uint16_t x) {
  return std::to_string(x / 10) + "." + std::to_string(x % 10);
}

const char* name_of(protection x) noexcept {
  return protections[static_cast<unsigned>(x)].data();
}

const char* name_of(divergence x) noexcept {
  return divergences[static_cast<unsigned>(x)].data();
}

recovery_terms recovery_of(const specification& x) noexcept {
  return {x.recover_within_ms, x.protect_cost, x.on_divergence};
}

void set_recovery(specification& to, const recovery_terms& x) noexcept {
  if (x.within_ms == 0)
    return;
  to.recover_within_ms = std::max(x.within_ms, shortest_snapshot_ms);
  // In this form the condition refuses NaN as well.
  to.protect_cost =
      x.cost >= 0 && x.cost <= 100 ? x.cost : specification{}.protect_cost;
  to.on_divergence = x.on_divergence;
}

status check(const recovery_terms& x) {
  if (!(x.within_ms >= shortest_period && x.within_ms <= longest_period))
    return fault{fault_kind::usage, "recover-within " +
                                        std::to_string(x.within_ms) +
                                        " ms: give 50 ms to 86400 s"};
  if (!(x.cost >= 0 && x.cost <= 100))
    return fault{fault_kind::usage,
                 "protect-cost " + show(x.cost) + ": give 0 to 100 percent"};
  return {};
}

std::span<const specification_field> specification_fields() {
  return fields;
}

status set_field(specification& to, const std::string& name,
                 const std::string& value) {
  for (auto& x : fields)
    if (name == x.name)
      return x.set(to, value) ? status{} : status{wrong(name, value, x)};
  std::string all;
  for (auto& x : fields)
    all += (all.empty() ? "" : ", ") + std::string{x.name};
  return fault{fault_kind::usage,
               "a vGPU has no field '" + shown(name) + "'; there are " + all};
}

status set_from_environment(specification& to) {
  for (auto& x : fields) {
    const auto* value = setting(x.variable);
    if (value != nullptr && *value != '\0' && !x.set(to, value))
      return wrong(x.variable, value, x);
  }
  return {};
}

} // namespace vgpu::control
