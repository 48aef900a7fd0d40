// What a manager's owner gives to who shall join.
#pragma once

#include "actors/link/permitted_keys.hpp"
#include "schema/base/fault.hpp"

#include <string>
#include <string_view>

namespace vgpu {

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
