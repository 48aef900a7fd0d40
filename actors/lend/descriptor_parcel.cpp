#include "actors/lend/descriptor_parcel.hpp"

#include "actors/link/unix_socket.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace vgpu {

namespace {

/// Gives the number of descriptors in one packet of the socket.
constexpr std::size_t at_once = 64;
/// Gives the size of the socket's buffer. The kernel lowers it to its own
/// limit.
constexpr int buffer_bytes = 8 << 20;

} // namespace

result<unique_fd> pack_descriptors(std::span<const int> what) {
  if (what.size() > most_in_parcel)
    return fault{fault_kind::exhausted,
                 std::to_string(what.size()) + " descriptors, and " +
                     std::to_string(most_in_parcel) +
                     " are the most that are handed on at once"};
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   ends) != 0)
    return fault{fault_kind::system,
                 std::string{"no socket for descriptors: "} +
                     std::strerror(errno)};
  unique_fd in{ends[0]}, out{ends[1]};
  (void)::setsockopt(in.get(), SOL_SOCKET, SO_SNDBUF, &buffer_bytes,
                     sizeof(buffer_bytes));
  for (std::size_t from = 0; from < what.size(); from += at_once) {
    std::uint64_t place = from;
    auto part = what.subspan(from, std::min(at_once, what.size() - from));
    if (auto ok = send_packet(in.get(), {&place, 1}, part); !ok)
      return ok.why();
  }
  return out;
}

result<std::vector<unique_fd>> unpack_descriptors(int parcel,
                                                  std::size_t count) {
  std::vector<unique_fd> out;
  while (out.size() < count) {
    auto got = receive_packet(parcel);
    if (!got)
      return got.why();
    // The packer has closed its end.
    if (!*got || (*got)->closed || (*got)->descriptors.empty())
      break;
    for (auto& x : (*got)->descriptors)
      out.push_back(std::move(x));
  }
  if (out.size() != count)
    return fault{fault_kind::corrupt, std::to_string(out.size()) +
                                          " descriptors came in place of " +
                                          std::to_string(count)};
  return out;
}

result<unique_fd> copy_parcel(unique_fd& parcel, std::size_t count) {
  auto contents = unpack_descriptors(parcel.get(), count);
  if (!contents)
    return contents.why();
  std::vector<int> numbers;
  for (auto& x : *contents)
    numbers.push_back(x.get());
  auto copy = pack_descriptors(numbers);
  if (!copy)
    return copy.why();
  auto again = pack_descriptors(numbers);
  if (!again)
    return again.why();
  parcel = std::move(*again);
  return copy;
}

} // namespace vgpu
