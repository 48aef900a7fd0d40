#include "actors/link/silent_connections.hpp"

#include "actors/link/log.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace vgpu {

namespace {

std::string text_of_address(int family, const void* address) {
  char out[INET6_ADDRSTRLEN] = {};
  return ::inet_ntop(family, address, out, sizeof out) != nullptr ? out : "";
}

/// Returns the user at the other end on this host, or the address elsewhere.
std::string peer_name(int fd) {
  sockaddr_storage end{};
  socklen_t size = sizeof end;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&end), &size) != 0)
    return {};
  if (end.ss_family == AF_INET)
    return text_of_address(AF_INET,
                           &reinterpret_cast<sockaddr_in&>(end).sin_addr);
  if (end.ss_family == AF_INET6)
    return text_of_address(AF_INET6,
                           &reinterpret_cast<sockaddr_in6&>(end).sin6_addr);
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return {};
  return "user " + std::to_string(peer.uid);
}

} // namespace

void silent_connections::accepted(int fd, clock::time_point now) {
  auto own = duplicate_of(fd);
  if (!own)
    return; // it is gone, or there are no descriptors left
  auto peer = peer_name(own.get());
  waiting_.insert_or_assign(fd,
                            connection{std::move(own), std::move(peer), now});
  if (waiting_.size() > most)
    end_one_of_many();
}

void silent_connections::forget(int fd) noexcept {
  waiting_.erase(fd);
}

void silent_connections::end_overdue(clock::time_point now) {
  for (auto i = waiting_.begin(); i != waiting_.end();) {
    auto it = i++;
    if (now >= it->second.since + patience)
      end(it);
  }
}

std::optional<silent_connections::clock::time_point>
silent_connections::next_due() const {
  auto oldest = std::ranges::min_element(
      waiting_, {}, [](const auto& x) { return x.second.since; });
  if (oldest == waiting_.end())
    return std::nullopt;
  return oldest->second.since + patience;
}

void silent_connections::end(connections::iterator which) {
  auto& x = which->second;
  spdlog::debug("a connection of {} says nothing: it ends", x.peer);
  (void)::shutdown(x.own.get(), SHUT_RDWR);
  waiting_.erase(which);
}

/// Ends the oldest connection of the peer that has most of them, so that a peer
/// with many does not end those of others.
void silent_connections::end_one_of_many() {
  std::map<std::string, std::size_t> counts;
  for (const auto& [fd, x] : waiting_)
    ++counts[x.peer];
  auto many = std::ranges::max_element(counts, {},
                                       [](const auto& x) { return x.second; });
  auto oldest = waiting_.end();
  for (auto i = waiting_.begin(); i != waiting_.end(); ++i)
    if (i->second.peer == many->first &&
        (oldest == waiting_.end() || i->second.since < oldest->second.since))
      oldest = i;
  end(oldest);
}

} // namespace vgpu
