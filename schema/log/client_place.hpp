// Where a program finds the client of its user, to which it hands its call log.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Returns the paths at which this user's client may listen for programs with
/// this chosen_manager() and chosen_transport(), the best first. Each is in a
/// folder of this user alone, so that nobody else can take it. Processes of
/// different network namespaces have different ones.
std::vector<std::string> client_socket_paths(const std::string& manager,
                                             const std::string& transport);

/// Returns whether the folder of a path exists and belongs to this user alone.
bool is_in_private_folder(const std::string& path);

/// A client's place: the Unix sockets at which it listens. It is a lock too, so
/// that there is one client for a user, manager and transport.
class client_place {
public:
  /// Takes the first possible path, and the abstract name
  /// (client_socket_name()) unless somebody else has it. Fails where another
  /// client of this user has the place, and where nothing is possible.
  static result<client_place> take(const std::string& manager,
                                   const std::string& transport);

  client_place(client_place&&) = default;
  client_place& operator=(client_place&&) = delete;
  /// Removes the socket's file.
  ~client_place();

  /// Gives away the listening sockets, which are not blocking. Keep the place
  /// as long as they listen.
  std::vector<unique_fd> take_sockets() { return std::move(sockets_); }
  /// Returns the path, or an empty string where no folder was possible.
  const std::string& path() const noexcept { return path_; }

private:
  client_place() = default;

  std::vector<unique_fd> sockets_;
  unique_fd lock_;
  std::string path_;
};

/// Connects to the client of this user. The socket blocks. Returns an invalid
/// descriptor where no client of this user listens.
unique_fd connect_to_client(const std::string& manager,
                            const std::string& transport);

} // namespace vgpu
