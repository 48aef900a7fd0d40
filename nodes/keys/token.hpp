// What a manager's owner gives to who shall join.
#pragma once

#include "actors/link/permitted_keys.hpp"
#include "schema/base/enum_names.hpp"
#include "schema/base/fault.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace vgpu {

/// Counts the kinds of principals.
inline constexpr std::size_t principal_kinds =
    static_cast<std::size_t>(principal::kind::newcomer) + 1;

inline constexpr enum_names<principal::kind, principal_kinds> principal_names{{
    {principal::kind::node, "node"},
    {principal::kind::tenant, "tenant"},
    {principal::kind::admin, "admin"},
    {principal::kind::newcomer, "token"},
}};
static_assert(is_complete(principal_names, principal::kind::newcomer));

/// Holds a token. Who has it can connect to the manager, knows that it is the
/// right one, and can do nothing there but ask for a key of its own.
struct token {
  principal::kind joins_as = principal::kind::node;
  /// Holds the manager's endpoint, or several, separated by commas.
  std::string endpoints;
  /// Holds the manager's public key (Z85).
  std::string manager;
  /// Holds the token's secret key (Z85).
  std::string secret;
  bool operator==(const token&) const = default;
};

/// Returns the token as a word that no shell changes:
/// vgpu1-KIND-MANAGER-SECRET-ENDPOINTS, with keys in hexadecimal digits.
std::string text_of(const token& x);

/// Reads what a user gave as a token, which may be anything.
result<token> parse_token(std::string_view text);

} // namespace vgpu
