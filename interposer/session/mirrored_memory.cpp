#include "interposer/session/mirrored_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/uio.h>
#include <unistd.h>

namespace vgpu::interposer {

namespace {

constexpr std::size_t part_bytes = 65536;

// The kernel copies, because the program may have unmapped its memory. A
// sandbox may forbid that.

bool is_forbidden(ssize_t result) noexcept {
  return result < 0 && (errno == ENOSYS || errno == EPERM);
}

bool read_own(std::uintptr_t from, std::span<std::byte> to) {
  iovec here{to.data(), to.size()};
  iovec there{reinterpret_cast<void*>(from), to.size()}; // NOLINT
  auto got = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
  if (is_forbidden(got)) {
    std::memcpy(to.data(), there.iov_base, to.size());
    return true;
  }
  return got == static_cast<ssize_t>(to.size());
}

void write_own(std::uintptr_t to, std::span<const std::byte> from) {
  // The kernel only reads the bytes.
  iovec here{const_cast<std::byte*>(from.data()), from.size()}; // NOLINT
  iovec there{reinterpret_cast<void*>(to), from.size()};        // NOLINT
  if (is_forbidden(::process_vm_writev(::getpid(), &here, 1, &there, 1, 0)))
    std::memcpy(there.iov_base, from.data(), from.size());
}

/// Calls `changed(begin, end)` for each run of bytes that differ.
template <class F>
void each_change(std::span<const std::byte> now,
                 std::span<const std::byte> before, const F& changed) {
  if (std::memcmp(now.data(), before.data(), now.size()) == 0)
    return;
  for (std::size_t at = 0; at < now.size();) {
    if (now[at] == before[at]) {
      ++at;
      continue;
    }
    auto end = at + 1;
    while (end < now.size() && now[end] != before[end])
      ++end;
    changed(at, end);
    at = end;
  }
}

} // namespace

/// Calls `f(offset, room)` for each part of the bytes.
template <class F>
void mirrored_memory::each_part(const F& f) {
  for (std::size_t at = 0; at < copy_.size(); at += room_.size())
    f(at, std::span{room_}.first(std::min(room_.size(), copy_.size() - at)));
}

mirrored_memory::mirrored_memory(std::uintptr_t own, std::span<std::byte> copy)
    : own_(own), copy_(copy), known_(copy.size()),
      room_(std::min(part_bytes, copy.size())) {
  std::fill(copy_.begin(), copy_.end(), std::byte{});
  put();
}

void mirrored_memory::put() {
  each_part([&](std::size_t at, std::span<std::byte> now) {
    if (!read_own(own_ + at, now))
      return;
    auto known = std::span{known_}.subspan(at, now.size());
    each_change(now, known, [&](std::size_t begin, std::size_t end) {
      std::memcpy(&copy_[at + begin], &now[begin], end - begin);
      std::memcpy(&known[begin], &now[begin], end - begin);
    });
  });
}

void mirrored_memory::take() {
  each_part([&](std::size_t at, std::span<std::byte> now) {
    // Devices may write meanwhile.
    std::memcpy(now.data(), &copy_[at], now.size());
    auto known = std::span{known_}.subspan(at, now.size());
    each_change(now, known, [&](std::size_t begin, std::size_t end) {
      write_own(own_ + at + begin, now.subspan(begin, end - begin));
      std::memcpy(&known[begin], &now[begin], end - begin);
    });
  });
}

} // namespace vgpu::interposer
