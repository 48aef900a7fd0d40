#include "actors/lend/one_way.hpp"

#include <algorithm>
#include <bit>

namespace vgpu {

namespace {

constexpr std::size_t block_bytes = 64;
using block = std::array<std::uint8_t, block_bytes>;
using sha_state = std::array<std::uint32_t, 8>;

// The first 32 bits of the fractional parts of the square roots of the first 8
// primes, and of the cube roots of the first 64.
constexpr sha_state beginning{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::array<std::uint32_t, 64> round_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t word_at(const block& in, std::size_t i) {
  return std::uint32_t{in[4 * i]} << 24 | std::uint32_t{in[4 * i + 1]} << 16 |
         std::uint32_t{in[4 * i + 2]} << 8 | in[4 * i + 3];
}

void add_block(sha_state& sum, const block& in) {
  using std::rotr;
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i)
    w[i] = word_at(in, i);
  for (std::size_t i = 16; i < w.size(); ++i) {
    auto early = w[i - 15];
    auto late = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] +
           (rotr(early, 7) ^ rotr(early, 18) ^ early >> 3) +
           (rotr(late, 17) ^ rotr(late, 19) ^ late >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = sum;
  for (std::size_t i = 0; i < w.size(); ++i) {
    auto first = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) +
                 ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
    auto second = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) +
                  ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const sha_state now{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] += now[i];
}

} // namespace

one_way_digest one_way(std::span<const std::byte> bytes) noexcept {
  auto sum = beginning;
  auto bits = std::uint64_t{bytes.size()} * 8;
  block part{};
  auto take = [&part](std::span<const std::byte> from) {
    part = {};
    std::ranges::transform(from, part.begin(),
                           [](std::byte x) { return std::uint8_t(x); });
  };
  for (; bytes.size() >= block_bytes; bytes = bytes.subspan(block_bytes)) {
    take(bytes.first(block_bytes));
    add_block(sum, part);
  }
  take(bytes);
  part[bytes.size()] = 0x80;
  if (bytes.size() + 1 + sizeof(bits) > block_bytes) {
    add_block(sum, part);
    part = {};
  }
  for (std::size_t i = 0; i < sizeof(bits); ++i)
    part[block_bytes - 1 - i] = static_cast<std::uint8_t>(bits >> (8 * i));
  add_block(sum, part);
  one_way_digest out{};
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::uint8_t>(sum[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

} // namespace vgpu
