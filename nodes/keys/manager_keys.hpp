// A manager's keys: its own, and those which may connect to it.
#pragma once

#include "actors/link/curve_keys.hpp"
#include "actors/link/permitted_keys.hpp"
#include "nodes/keys/key_folder.hpp"
#include "nodes/keys/token.hpp"
#include "schema/base/fault.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vgpu {

/// Describes a key that may connect.
struct permitted_key {
  principal who;
  std::string key;
  /// Holds when it ends, in seconds since 1970; 0: never.
  double ends = 0;
  /// Says as what the holder of a token joins, and how often yet.
  principal::kind joins_as = principal::kind::node;
  unsigned uses = 0;
};

/// Returns the key as JSON. It has nothing secret.
nlohmann::json to_json(const permitted_key& x);

/// Holds what is in a manager's file of keys.
struct manager_keys {
  key_pair own;
  /// Holds where nodes and users find the manager.
  std::string endpoint;
  std::vector<permitted_key> permitted;

  /// Returns who may connect at a time, in seconds since 1970.
  permitted_keys::table table(double now) const;
};

/// Names the file in a key_folder.
inline constexpr auto manager_key_file = "manager.json";

/// Gives the number of keys, of tokens as well, that a manager permits.
inline constexpr std::size_t most_keys = 10'000;

/// Reads a text, which may be anything. Fails with `corrupt`.
result<manager_keys> parse_manager_keys(const std::string& text);
std::string text_of(const manager_keys& keys);

/// Reads the file; unset: there is none, so the manager has no keys.
result<std::optional<manager_keys>> read_manager_keys(const key_folder& where);

/// Changes the file, while nobody else does. Fails where there is none, or
/// `change` fails, and leaves it as it was.
status change_manager_keys(const key_folder& where,
                           const std::function<status(manager_keys&)>& change);

/// Makes a file with a new key. Fails where there is one.
status init_manager_keys(const key_folder& where, const std::string& endpoint);

/// Makes a token by which others join as `joins_as`, until `ends`.
result<token> add_token(manager_keys& keys, principal::kind joins_as,
                        const std::string& tenant, unsigned uses, double ends);

/// Permits a key in the name of a token's holder, and counts the use.
status enroll(manager_keys& keys, const principal& newcomer,
              const std::string& key, const std::string& name, double now);

/// Removes the key or the token of this name.
status revoke(manager_keys& keys, const std::string& name);

} // namespace vgpu
