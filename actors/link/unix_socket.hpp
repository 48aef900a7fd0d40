// Unix SEQPACKET sockets with abstract names: how processes of one host hand
// each other memory. Nothing of them is left in the file system.
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

/// One packet and the descriptors that came with it.
struct packet {
  std::vector<std::uint64_t> words;
  std::vector<unique_fd> descriptors;
  bool closed = false; // the peer is gone; nothing else is set
};

/// Listens on an abstract name (without the leading NUL). Non-blocking.
result<unique_fd> listen_abstract(const std::string& name);

/// The next connection of a peer of our own user (or root), non-blocking; -1
/// where there is none. Others are closed at once.
unique_fd accept_own(int listener);

/// Connects to an abstract name; checks that its owner is our own user or
/// root. Non-blocking, now and afterwards. The fault is CUDA_ERROR_NOT_FOUND
/// where nobody listens, and CUDA_ERROR_NOT_READY where so many wait to be
/// taken that there is no room for another.
result<unique_fd> connect_abstract(const std::string& name);

/// The process at the other end, as the kernel tells it.
pid_t peer_of(int socket);

/// Sends one packet of at most 64 KiB. Fails where the peer is gone.
status send_packet(int socket, std::span<const std::uint64_t> words,
                   std::span<const int> descriptors = {});

/// Takes one packet without waiting; nothing where there is none.
result<std::optional<packet>> receive_packet(int socket);

} // namespace vgpu
