// Keys of ZeroMQ's CURVE, and the keys with which a link proves who it is.
#pragma once

#include "actors/link/permitted_keys.hpp"
#include "actors/link/seal/sealed_port.hpp"
#include "schema/base/fault.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vgpu {

/// Gives the length of a key as text (Z85), in characters.
inline constexpr std::size_t key_text_size = 40;
/// Gives its length in bytes.
inline constexpr std::size_t key_bytes = 32;

/// Holds a public key and its secret key as text (Z85). Who knows the secret
/// key is whom the public key names.
struct key_pair {
  std::string open;
  std::string secret;
};

/// Makes a new key pair. Fails where this ZeroMQ has no CURVE.
result<key_pair> make_key_pair();

/// Holds the keys of a process that renews its own: the present one, and the
/// former ones, with which its older connections were made. Thread-safe.
class own_keys {
public:
  explicit own_keys(key_pair first) : all_{std::move(first)} {}

  /// Makes another pair the present one.
  void renew(key_pair next);
  /// Returns the pair with this public key, or the present one where it has
  /// none such.
  key_pair pair_of(const std::string& open) const;

private:
  mutable std::mutex mutex_;
  std::vector<key_pair> all_; // the present one is the last
};

/// Returns whether the text is a key: 40 characters of Z85.
bool is_key(std::string_view text) noexcept;

/// Returns the public key of a secret key. Fails where it is no key.
result<key_pair> pair_of(const std::string& secret);

/// Returns the key in hexadecimal digits, or an empty string where it is none.
std::string hex_of_key(const std::string& key);
/// Reads such digits. Returns nullopt where they are not those of a key.
std::optional<std::string> key_of_hex(std::string_view hex);

/// Holds the keys of a process's links. Immutable, so that links share it.
struct link_keys {
  key_pair own;
  /// Holds the public key of the listener at each endpoint that has keys. A
  /// link that connects to another endpoint, connects without keys.
  std::map<std::string, std::string> listeners;
  /// Says who may connect to links that bind. Null: they have no keys.
  std::shared_ptr<permitted_keys> permitted;
  /// Makes the second port of a link that binds a sealed one, without CURVE.
  /// Null: the second port has the same keys.
  std::shared_ptr<sealed_tickets> tickets{};
};

} // namespace vgpu
