#include "actors/link/printable.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace vgpu {

namespace {

struct character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

/// Returns the length of a character by its first byte; 0: none begins so.
std::size_t length_of(unsigned char first) noexcept {
  if (first < 0x80)
    return 1;
  if (first >= 0xc2 && first < 0xe0)
    return 2;
  if (first >= 0xe0 && first < 0xf0)
    return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

bool continues(char x) noexcept {
  return (static_cast<unsigned char>(x) & 0xc0) == 0x80;
}

/// Returns the first character of a text, or nothing where it is not UTF-8.
std::optional<character> first_of(std::string_view text) noexcept {
  auto first = static_cast<unsigned char>(text.front());
  auto bytes = length_of(first);
  if (bytes == 0 || bytes > text.size())
    return std::nullopt;
  if (bytes == 1)
    return character{first, 1};
  auto code = std::uint32_t{first} & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!continues(text[i]))
      return std::nullopt;
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  auto surrogate = code >= 0xd800 && code < 0xe000;
  if (code < smallest[bytes] || code > 0x10ffff || surrogate)
    return std::nullopt;
  return character{code, bytes};
}

bool acts_on_terminal(std::uint32_t code) noexcept {
  return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

/// Says whether a character makes neighbours appear in another order or line.
bool deceives(std::uint32_t code) noexcept {
  return code == 0x61c || (code >= 0x200e && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

} // namespace

std::string printable(std::string_view name) {
  constexpr std::size_t longest = 80;
  std::string out;
  for (auto c : name.substr(0, longest))
    out += (c >= ' ' && c <= '~') ? c : '?';
  if (name.size() > longest)
    out += "...";
  return out;
}

std::string shown(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    auto next = first_of(text);
    auto bytes = next ? next->bytes : 1;
    auto keeps =
        next && ((!acts_on_terminal(next->code) && !deceives(next->code)) ||
                 kept.find(text.front()) != kept.npos);
    if (keeps)
      out += text.substr(0, bytes);
    else
      out += '?';
    text.remove_prefix(bytes);
  }
  return out;
}

std::size_t unfinished(std::string_view text) noexcept {
  for (std::size_t n = 1; n <= std::min<std::size_t>(text.size(), 3); ++n) {
    auto at = text[text.size() - n];
    if (continues(at))
      continue;
    return length_of(static_cast<unsigned char>(at)) > n ? n : 0;
  }
  return 0;
}

} // namespace vgpu
