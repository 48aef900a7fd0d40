// A manager's keys: its own, and those which may connect to it.
#pragma once

#include "actors/link/curve_keys.hpp"
#include "actors/link/permitted_keys.hpp"
#include "actors/link/protocol.hpp"
#include "nodes/keys/key_folder.hpp"
#include "nodes/keys/token.hpp"
#include "schema/base/fault.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vgpu {

/// Describes a key that may connect.
struct permitted_key {
  principal who;
  std::string key;
  /// Is the key before, which is good until `former_ends`; empty: none.
  std::string former{};
  double former_ends = 0;
  /// Numbers the rotation since which the key is in use.
  std::uint64_t rotation = 0;
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
  /// Is the key before, which is good until `rotation_ends`.
  std::optional<key_pair> former{};
  /// Counts the rotations, and holds when the keys of before the last one end,
  /// in seconds since 1970.
  std::uint64_t rotation = 0;
  double rotation_ends = 0;
  /// Holds where nodes and users find the manager.
  std::string endpoint;
  std::vector<permitted_key> permitted;

  /// Returns who may connect at a time, in seconds since 1970.
  permitted_keys::table table(double now) const;
  /// Returns whether keys of before the last rotation are still good.
  bool rotates(double now) const { return now < rotation_ends; }
  /// Returns whether this key is one of before the last rotation.
  bool is_old(const permitted_key& x) const {
    return x.who.is != principal::kind::newcomer && x.rotation < rotation;
  }
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

/// Begins a rotation: makes another key for the manager. The former one, and
/// the keys that are not renewed, end after `overlap_s` seconds, and so do
/// tokens. Fails while a rotation is not over.
status rotate(manager_keys& keys, double overlap_s, double now);

/// Ends the keys of before the last rotation now. Fails where there are none.
status end_rotation(manager_keys& keys, double now);

/// Returns what a peer must be told of a rotation; unset: nothing.
std::optional<control::rotate_key> rotation_for(const manager_keys& keys,
                                                const principal& who);

/// Permits another key in place of the principal's, whose former one stays good
/// until the rotation ends. Repeating it changes nothing.
status renew(manager_keys& keys, const principal& who,
             const control::renew_key& x, double now);

/// Removes the key or the token of this name.
status revoke(manager_keys& keys, const std::string& name);

} // namespace vgpu
