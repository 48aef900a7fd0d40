// Copies that are long beside a processor's own caches. Both sides of a log end
// bulk reads with one.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vgpu {

/// From here on what is copied is written past the caches.
inline constexpr std::size_t streamed_from = std::size_t{512} << 10;

/// As memcpy(), for bytes that the copying processor does not read again soon.
///
/// A line that is written is read before, unless it is written past the caches
/// (Intel 64 Optimization Reference Manual, "Non-Temporal Store Instructions").
/// The C library does so for copies that are as long as most of the last cache:
/// where a virtual machine is told of its host's, from 99 MiB on (seen).
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
  // Such stores are seen in no order otherwise.
  _mm_sfence();
  auto done = head + lines * line;
  std::copy_n(from + done, bytes - done, to + done);
}

} // namespace vgpu
