// The texts of an enum's values, in a table that is read in both directions.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace vgpu {

/// Pairs one value of an enum with its text in JSON and on the wire.
template <class Enum>
struct enum_name {
  Enum value;
  /// Ends with a NUL, for callers that want a C string.
  const char* text;
};

/// Lists all values of an enum, each with a different text.
template <class Enum, std::size_t N>
using enum_names = std::array<enum_name<Enum>, N>;

/// Returns the text of `x`, or "?" for a number that is no value of the enum.
template <class Enum, std::size_t N>
constexpr const char* text_in(const enum_names<Enum, N>& table,
                              Enum x) noexcept {
  for (const auto& row : table)
    if (row.value == x)
      return row.text;
  return "?";
}

/// Returns the value whose text is `text`, or nothing when no value has it.
template <class Enum, std::size_t N>
constexpr std::optional<Enum> value_in(const enum_names<Enum, N>& table,
                                       std::string_view text) noexcept {
  for (const auto& row : table)
    if (row.text == text)
      return row.value;
  return std::nullopt;
}

/// Returns whether a table has each value once, in the enum's order, and no
/// text twice.
template <class Enum, std::size_t N>
constexpr bool is_complete(const enum_names<Enum, N>& table, Enum last) {
  for (std::size_t i = 0; i < N; ++i) {
    if (static_cast<std::size_t>(table[i].value) != i)
      return false;
    for (std::size_t j = 0; j < i; ++j)
      if (std::string_view{table[i].text} == table[j].text)
        return false;
  }
  return static_cast<std::size_t>(last) + 1 == N;
}

} // namespace vgpu
