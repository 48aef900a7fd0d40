// Makes messages of the control plane from an input's bytes, with values that
// have a meaning in the conversation so far.
#pragma once

#include "actors/link/protocol.hpp"
#include "made_choices.hpp"
#include "schema/wire/message_codec.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace vgpu::test {

/// Holds what a peer was told, and repeats it.
struct heard_values {
  std::vector<std::uint64_t> ids;     // of sessions, vGPUs and epochs
  std::vector<std::uint64_t> secrets; // large numbers, such as tokens

  void note(std::vector<std::uint64_t>& in, std::uint64_t x) {
    constexpr std::size_t most = 64;
    if (in.size() < most)
      in.push_back(x);
  }
};

/// Notes all numbers of a message that a peer was sent.
template <class T>
void hear(heard_values& to, const T& x) {
  if constexpr (has_wire_fields<T>) {
    T::fields(x, [&](const auto& field, const auto&) { hear(to, field); });
  } else if constexpr (wire_codec::detail::is_id<T>) {
    to.note(to.ids, x.value);
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (x != 0)
      to.note(to.secrets, x);
  } else if constexpr (wire_codec::detail::is_vector<T> &&
                       !wire_codec::detail::is_bytes<T>) {
    for (const auto& each : x)
      hear(to, each);
  }
}

/// Sets a value from the input's bytes.
template <class T>
void make(choices& in, const heard_values& known, T& x) {
  using namespace wire_codec::detail;
  constexpr std::array<std::uint64_t, 12> numbers = {
      0,          1,
      2,          3,
      50,         1000,
      0xffff,     0x7fffffff,
      0xffffffff, std::uint64_t{1} << 30,
      1ull << 62, std::numeric_limits<std::uint64_t>::max()};
  constexpr std::array<double, 8> reals = {
      0,
      1,
      0.5,
      -1,
      1e-300,
      1e300,
      std::numeric_limits<double>::infinity(),
      std::numeric_limits<double>::quiet_NaN()};
  static const std::array<std::string, 8> texts = {
      "a", "b", "", "h", "prog", "cpu", "user", std::string(300, 'x')};
  if constexpr (has_wire_fields<T>) {
    T::fields(x, [&](auto& field, const auto&) { make(in, known, field); });
  } else if constexpr (is_text_enum<T>) {
    x = in.one_of(wire_enum<T>::names).value;
  } else if constexpr (std::is_same_v<T, CUresult>) {
    x = in.below(2) == 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
  } else if constexpr (std::is_enum_v<T>) {
    x = static_cast<T>(
        in.below(static_cast<std::size_t>(wire_enum<T>::last) + 1));
  } else if constexpr (std::is_same_v<T, bool>) {
    x = in.below(2) != 0;
  } else if constexpr (std::is_floating_point_v<T>) {
    x = in.one_of(reals);
  } else if constexpr (is_id<T>) {
    auto i = in.byte();
    x.value = i < 200 && !known.ids.empty() ? known.ids[i % known.ids.size()]
                                            : numbers[i % numbers.size()];
  } else if constexpr (std::is_integral_v<T>) {
    auto i = in.byte();
    x = static_cast<T>(sizeof(T) == 8 && i < 128 && !known.secrets.empty()
                           ? known.secrets[i % known.secrets.size()]
                           : numbers[i % numbers.size()]);
  } else if constexpr (std::is_same_v<T, std::string>) {
    x = in.one_of(texts);
  } else if constexpr (is_map<T>) {
    if (in.below(2) != 0)
      x[static_cast<typename T::key_type>(in.below(100))] = 8;
  } else if constexpr (is_vector<T>) {
    x.resize(in.below(3));
    for (auto& each : x) {
      typename T::value_type made{};
      make(in, known, made);
      each = made;
    }
  }
}

/// Makes one of the messages.
inline control::body make_body(choices& in, const heard_values& known) {
  control::body out;
  auto wanted = in.below(std::variant_size_v<control::body>);
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((i == wanted ? make(in, known, out.emplace<i>()) : void()), ...);
  }
  (std::make_index_sequence<std::variant_size_v<control::body>>{});
  return out;
}

} // namespace vgpu::test
