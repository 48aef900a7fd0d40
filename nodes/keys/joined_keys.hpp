// The key of a node or a user that joined a cluster.
#pragma once

#include "actors/link/curve_keys.hpp"
#include "actors/link/managers/renewing_link.hpp"
#include "nodes/keys/key_folder.hpp"
#include "nodes/keys/token.hpp"
#include "schema/base/fault.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace vgpu {

/// Holds what is in the file of who joined.
struct joined_keys {
  key_pair own;
  /// Says what the manager takes the key for.
  principal::kind is = principal::kind::node;
  /// Is the name under which the manager knows the key.
  std::string name;
  /// Holds the manager's endpoint, or several, separated by commas.
  std::string endpoints;
  /// Holds the manager's public key.
  std::string manager;
  /// Numbers the rotation since which the key is in use.
  std::uint64_t rotation = 0;

  /// Describes the keys of a rotation that is under way.
  struct renewed {
    key_pair own;
    std::string manager;
    std::uint64_t rotation = 0;
  };
  std::optional<renewed> next{};
};

/// Holds the keys of links to managers: those in use, and those of a rotation
/// that was not finished. Both may be null.
struct manager_link_keys {
  std::shared_ptr<const link_keys> present;
  std::shared_ptr<const link_keys> next;

  explicit operator bool() const noexcept { return present != nullptr; }
};

/// Name the files in a key_folder.
inline constexpr auto node_key_file = "node.json";
inline constexpr auto login_key_file = "login.json";

/// Reads a text, which may be anything. Fails with `corrupt`.
result<joined_keys> parse_joined_keys(const std::string& text);
std::string text_of(const joined_keys& keys);

/// Reads the file; unset: there is none.
result<std::optional<joined_keys>> read_joined_keys(const key_folder& where,
                                                    const char* file);

/// Returns the keys for links to managers; none: nobody joined at one of these
/// endpoints. Fails where the file cannot be used.
result<manager_link_keys> keys_to_managers(const key_folder& where,
                                           const char* file,
                                           const std::string& endpoints);

/// Returns the endpoints of the manager at which this user is logged in; empty:
/// at none.
result<std::string> manager_of_login(const key_folder& where);

/// Renews the keys of a file. Not thread-safe.
class joined_renewal final : public key_renewal {
public:
  /// Calls `renewed`, where it is not null, with each key that replaces the
  /// former one.
  joined_renewal(key_folder where, const char* file,
                 std::function<void(const key_pair&)> renewed = nullptr)
      : where_(std::move(where)), file_(file), renewed_(std::move(renewed)) {}

  result<std::shared_ptr<const link_keys>>
  begin(const control::rotate_key& order) override;
  status finish(const std::string& open) override;

private:
  struct locked {
    unique_fd lock;
    joined_keys keys;
  };
  result<locked> lock() const;

  key_folder where_;
  const char* file_;
  std::function<void(const key_pair&)> renewed_;
};

/// Makes a key, has the manager of the token permit it under the name, and
/// writes the file. Replaces a former file. Fails where no manager with the
/// token's key answers within `patience`.
status join_with(const token& by, const std::string& name,
                 const key_folder& where, const char* file,
                 std::chrono::milliseconds patience);

} // namespace vgpu
