#include "interposer/memory/share_handle.hpp"

#include "schema/base/cuda_fault.hpp"

#include <xxhash.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

namespace vgpu::interposer {

namespace {

std::uint64_t digest_of(const share_descriptor& x) noexcept {
  return XXH3_64bits(&x, offsetof(share_descriptor, check));
}

/// Tells whether the memory shares its granules with no other memory.
bool lies_alone(std::uint64_t layout) noexcept {
  auto at = share_layout::unpack(layout);
  return at.is_sound() && at.lead == 0;
}

} // namespace

std::uint64_t share_handle::digest(std::uint64_t pool) const noexcept {
  return XXH3_64bits_withSeed(this, offsetof(share_handle, check), pool);
}

std::optional<std::uint64_t> share_handle::offset() const noexcept {
  auto at = share_layout::unpack(layout);
  if (!at.is_sound() || bytes == 0)
    return std::nullopt;
  auto all = at.granules * granule_bytes;
  auto begin = at.lead * granule_bytes + what.number % granule_bytes;
  return bytes <= all - begin ? std::optional{begin} : std::nullopt;
}

result<descriptor_pair> make_descriptor(share_descriptor says) {
  says.check = digest_of(says);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return cuda_fault(CUDA_ERROR_OPERATING_SYSTEM,
                      "cannot make a descriptor for shared memory: " +
                          std::generic_category().message(errno));
  descriptor_pair out{unique_fd{ends[0]}, unique_fd{ends[1]}};
  if (::send(out.kept.get(), &says, sizeof(says),
             MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(sizeof(says)))
    return cuda_fault(CUDA_ERROR_OPERATING_SYSTEM,
                      "cannot write to the descriptor for shared memory: " +
                          std::generic_category().message(errno));
  return out;
}

/// Reads the message and leaves it in the socket. MSG_TRUNC returns the full
/// length, so that a longer message is refused.
std::optional<share_descriptor> read_descriptor(int file, std::uint64_t kind) {
  share_descriptor out;
  constexpr auto whole = static_cast<ssize_t>(sizeof(out));
  if (::recv(file, &out, sizeof(out), MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC) !=
          whole ||
      out.kind != kind || out.check != digest_of(out) || out.what.serial == 0 ||
      (kind == share_descriptor::of_memory && !lies_alone(out.layout)))
    return std::nullopt;
  return out;
}

bool is_given(const unique_fd& kept) noexcept {
  pollfd one{kept.get(), 0, 0};
  auto n = 0;
  // Even a poll that does not wait is interrupted by a pending signal.
  while ((n = ::poll(&one, 1, 0)) < 0 && errno == EINTR)
    continue;
  return n == 0;
}

std::uint64_t random_serial() {
  std::uint64_t out = 0;
  while (out == 0)
    if (::getrandom(&out, sizeof(out), 0) != static_cast<ssize_t>(sizeof(out)))
      throw std::system_error{errno, std::generic_category(),
                              "cannot get random numbers"};
  return out;
}

} // namespace vgpu::interposer
