// Attributes of a launch that change when and where its kernel runs, but not
// what it computes: a priority, a window of accesses and so on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace vgpu {

/// Holds a CUlaunchAttributeID and the first bytes of its value. No such value
/// is longer.
struct launch_hint {
  std::uint32_t attribute = 0;
  std::uint32_t unused = 0;
  std::array<std::uint64_t, 4> value{};
};
static_assert(sizeof(launch_hint) == 40);

/// A launch has fewer hints.
inline constexpr std::size_t most_launch_hints = 16;

namespace detail {

struct hint_tail {
  std::uint32_t parameter_bytes = 0;
  std::uint32_t hints = 0;
};
static_assert(sizeof(hint_tail) == 8);

} // namespace detail

/// Returns a parameter block with hints behind it, as a launch with
/// call::launch::hinted has it.
inline std::vector<std::byte> with_hints(std::span<const std::byte> parameters,
                                         std::span<const launch_hint> hints) {
  detail::hint_tail tail{static_cast<std::uint32_t>(parameters.size()),
                         static_cast<std::uint32_t>(hints.size())};
  std::vector<std::byte> out(parameters.begin(), parameters.end());
  auto add = [&out](std::span<const std::byte> x) {
    out.insert(out.end(), x.begin(), x.end());
  };
  add(std::as_bytes(hints));
  add(std::as_bytes(std::span{&tail, 1}));
  return out;
}

/// Divides such bytes, which may be hostile. Returns false where they are
/// malformed. `parameters` lies in `bytes`.
inline bool take_hints(std::span<const std::byte> bytes,
                       std::span<const std::byte>& parameters,
                       std::vector<launch_hint>& hints) {
  detail::hint_tail tail;
  if (bytes.size() < sizeof(tail))
    return false;
  std::memcpy(&tail, bytes.data() + bytes.size() - sizeof(tail), sizeof(tail));
  if (tail.hints > most_launch_hints ||
      bytes.size() != std::uint64_t{tail.parameter_bytes} +
                          std::uint64_t{tail.hints} * sizeof(launch_hint) +
                          sizeof(tail))
    return false;
  parameters = bytes.first(tail.parameter_bytes);
  hints.resize(tail.hints);
  if (!hints.empty())
    std::memcpy(hints.data(), bytes.data() + tail.parameter_bytes,
                hints.size() * sizeof(launch_hint));
  return true;
}

} // namespace vgpu
