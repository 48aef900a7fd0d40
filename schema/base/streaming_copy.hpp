// Copies that are large compared with a processor's caches. Both sides of a log
// use it for the end of bulk reads.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vgpu {

/// Copies of at least this many bytes bypass the caches.
inline constexpr std::size_t streamed_from = std::size_t{512} << 10;

/// Does what memcpy() does, for bytes that the copying processor does not read
/// again soon.
///
/// A processor reads a cache line before it writes it, unless the write
/// bypasses the caches (Intel 64 Optimization Reference Manual, "Non-Temporal
/// Store Instructions"). The C library bypasses them only for copies of about
/// the last cache's size, which is too late where a virtual machine sees its
/// host's cache.
inline void streaming_copy(std::byte* to, const std::byte* from,
                           std::size_t bytes) noexcept {
  constexpr std::size_t line = 64;
  if (bytes < streamed_from) {
    std::copy_n(from, bytes, to);
    return;
  }
  auto head = -reinterpret_cast<std::uintptr_t>(to) % line;
  std::copy_n(from, head, to);
  auto* out = reinterpret_cast<__m128i*>(to + head);
  auto* in = reinterpret_cast<const __m128i*>(from + head);
  auto lines = (bytes - head) / line;
  for (auto left = lines; left != 0; --left, out += 4, in += 4) {
    auto a = _mm_loadu_si128(in);
    auto b = _mm_loadu_si128(in + 1);
    auto c = _mm_loadu_si128(in + 2);
    auto d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  // Without the fence, other processors may see such stores in any order.
  _mm_sfence();
  auto done = head + lines * line;
  std::copy_n(from + done, bytes - done, to + done);
}

} // namespace vgpu
