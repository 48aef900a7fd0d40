#include "actors/link/curve_keys.hpp"

#include <zmq.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace vgpu {

namespace {

/// Holds a key as text, and the terminating NUL.
using key_text = std::array<char, key_text_size + 1>;

} // namespace

result<key_pair> make_key_pair() {
  key_text open{};
  key_text secret{};
  if (zmq_curve_keypair(open.data(), secret.data()) != 0)
    return fault{fault_kind::unsupported,
                 "cannot make a key: this libzmq has no CURVE; install one "
                 "that was built with libsodium"};
  return key_pair{open.data(), secret.data()};
}

void own_keys::renew(key_pair next) {
  std::lock_guard guard{mutex_};
  std::erase_if(all_, [&](const auto& x) { return x.open == next.open; });
  all_.push_back(std::move(next));
}

key_pair own_keys::pair_of(const std::string& open) const {
  std::lock_guard guard{mutex_};
  auto i = std::ranges::find(all_, open, &key_pair::open);
  return i == all_.end() ? all_.back() : *i;
}

bool is_key(std::string_view text) noexcept {
  constexpr std::string_view digits =
      "0123456789abcdefghijklmnopqrstuvwxyz"
      "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
  if (text.size() != key_text_size ||
      text.find_first_not_of(digits) != text.npos)
    return false;
  // Five digits can say more than four bytes hold.
  for (std::size_t i = 0; i < text.size(); i += 5) {
    std::uint64_t value = 0;
    for (auto c : text.substr(i, 5))
      value = value * digits.size() + digits.find(c);
    if (value > UINT32_MAX)
      return false;
  }
  return true;
}

result<key_pair> pair_of(const std::string& secret) {
  key_text open{};
  if (!is_key(secret) || zmq_curve_public(open.data(), secret.c_str()) != 0)
    return fault{fault_kind::corrupt, "it is not a secret key"};
  return key_pair{open.data(), secret};
}

std::string hex_of_key(const std::string& key) {
  std::array<std::uint8_t, key_bytes> bytes{};
  std::string out;
  if (zmq_z85_decode(bytes.data(), key.c_str()) == nullptr)
    return out;
  constexpr std::string_view digits = "0123456789abcdef";
  for (auto x : bytes) {
    out += digits[x >> 4U];
    out += digits[x & 15U];
  }
  return out;
}

std::optional<std::string> key_of_hex(std::string_view hex) {
  std::array<std::uint8_t, key_bytes> bytes{};
  if (hex.size() != 2 * key_bytes)
    return std::nullopt;
  for (std::size_t i = 0; i < key_bytes; ++i) {
    const auto* begin = hex.data() + 2 * i;
    auto [end, error] = std::from_chars(begin, begin + 2, bytes[i], 16);
    if (error != std::errc{} || end != begin + 2)
      return std::nullopt;
  }
  std::array<char, key_text_size + 1> text{};
  zmq_z85_encode(text.data(), bytes.data(), key_bytes);
  return std::string{text.data()};
}

} // namespace vgpu
