// Unix SEQPACKET sockets with abstract names, by which processes of one host
// pass memory to each other. They leave nothing in the file system.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Describes one packet and the descriptors that came with it.
struct packet {
  std::vector<std::uint64_t> words;
  std::vector<unique_fd> descriptors;
  /// Tells whether the peer is gone. Then nothing else is set.
  bool closed = false;
};

/// Listens on an abstract name (without the leading NUL). The socket is
/// non-blocking.
result<unique_fd> listen_abstract(const std::string& name);

/// Accepts the next connection of a peer that runs as our own user or root. The
/// socket is non-blocking, and -1 where no connection waits. Closes other
/// users' connections at once.
unique_fd accept_own(int listener);

/// Connects to an abstract name, and checks that its owner is our own user or
/// root. The call and the socket are non-blocking. The fault is
/// of kind `missing` where nobody listens, and `not_ready` where the listener's
/// queue is full.
result<unique_fd> connect_abstract(const std::string& name);

/// Returns the process at the other end, as the kernel reports it.
pid_t peer_of(int socket);

/// Sends one packet of at most 64 KiB. Fails where the peer is gone.
status send_packet(int socket, std::span<const std::uint64_t> words,
                   std::span<const int> descriptors = {});

/// Receives one packet without waiting, or nothing where there is none.
result<std::optional<packet>> receive_packet(int socket);

} // namespace vgpu
