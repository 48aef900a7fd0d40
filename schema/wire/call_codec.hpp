// Converts a call's struct (calls.hpp) to a Cap'n Proto message (data.capnp),
// and back.
#pragma once

#include "schema/catalogue/calls.hpp"
#include "schema/log/call_log.hpp"
#include "schema/wire/data.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace vgpu::call {

namespace detail {

/// Calls `f` with each 64-bit word of a field: with a reference when decoding,
/// and with a value otherwise.
template <class Field, class F>
constexpr void each_word(Field& field, const F& f) {
  using plain = std::remove_const_t<Field>;
  if constexpr (std::is_integral_v<plain>)
    f(field);
  else if constexpr (requires { std::tuple_size<plain>::value; })
    for (auto& word : field)
      f(word);
  else if constexpr (std::is_same_v<plain, box>)
    (f(field.address), f(field.pitch), f(field.slice));
  else if constexpr (std::is_same_v<plain, extent>)
    (f(field.width), f(field.height), f(field.depth));
  else if constexpr (std::is_same_v<plain, arena_range>)
    (f(field.offset), f(field.bytes));
  else if constexpr (std::is_same_v<plain, dim3>)
    (f(field.x), f(field.y), f(field.z));
  else if constexpr (std::is_same_v<plain, digest>)
    (f(field.low), f(field.high));
  else if constexpr (requires { plain::fields(field); })
    std::apply([&](auto&... part) { (each_word(part, f), ...); },
               plain::fields(field));
  else
    f(field.id.value); // fresh, live, ended
}

template <class Call, class F>
void each_argument(Call& call, F&& f) {
  std::apply([&](auto&... field) { (each_word(field, f), ...); },
             std::remove_const_t<Call>::fields(call));
}

template <class Call>
constexpr bool has_bytes = requires(const Call& x) {
  x.bytes.data();
};

template <class... Fields>
constexpr std::uint32_t words_of(std::tuple<Fields&...>*) {
  std::uint32_t n = 0;
  [[maybe_unused]] auto count = [&n](auto field) {
    each_word(field, [&n](const auto&) { ++n; });
  };
  (count(Fields{}), ...);
  return n;
}

// The message's layout (capnproto.org, "Encoding Spec") is written by hand,
// because a program pays for it at each launch. It is read with the library,
// because a worker has to expect anything.

using layout = wire::Call::_capnpPrivate;
static_assert(layout::dataWordSize == 1 && layout::pointerCount == 2,
              "data.capnp's Call has changed: encode() must follow");
static_assert(std::endian::native == std::endian::little);

inline constexpr std::uint32_t segment_table_words = 1;
inline constexpr std::uint32_t head_words = 4; // root, data, two pointers

constexpr std::uint64_t struct_pointer(std::uint64_t data,
                                       std::uint64_t pointers) {
  return data << 32 | pointers << 48;
}
enum class element : std::uint64_t { byte = 2, word = 5 };
/// Returns a list pointer. `offset` counts words from the pointer's end to the
/// list.
constexpr std::uint64_t list_pointer(std::uint64_t offset, element size,
                                     std::uint64_t count) {
  return 1 | offset << 2 | static_cast<std::uint64_t>(size) << 32 | count << 35;
}

} // namespace detail

/// Gives the number of a call's 64-bit arguments, which its type fixes.
template <class Call>
constexpr std::uint32_t argument_count() {
  using fields = decltype(Call::fields(std::declval<Call&>()));
  return detail::words_of(static_cast<fields*>(nullptr));
}

/// Returns the size of the call's message in words: the segment table, the root
/// pointer, the struct's data word and two pointers, its arguments, its bytes.
template <class Call>
std::uint32_t message_words(const Call& x) {
  auto words =
      detail::segment_table_words + detail::head_words + argument_count<Call>();
  if constexpr (detail::has_bytes<Call>)
    words += static_cast<std::uint32_t>((x.bytes.size() + 7) / 8);
  return words;
}

/// Writes the message into `into`, zeroed memory of message_words(x) words.
template <class Call>
void encode(const Call& x, std::uint8_t device, std::span<std::uint64_t> into) {
  using namespace detail;
  constexpr auto count = argument_count<Call>();
  auto* word = into.data();
  // The segment table: the number of segments minus one, and the size of the
  // only one.
  *word++ = static_cast<std::uint64_t>(into.size() - 1) << 32;
  *word++ = struct_pointer(layout::dataWordSize, layout::pointerCount);
  *word++ = static_cast<std::uint64_t>(Call::id) | std::uint64_t{device} << 16;
  // The arguments begin behind the two pointers, the bytes behind them.
  *word++ = list_pointer(1, element::word, count);
  if constexpr (has_bytes<Call>)
    *word = list_pointer(count, element::byte, x.bytes.size());
  ++word;
  each_argument(x, [&](auto argument) {
    *word++ = static_cast<std::uint64_t>(argument);
  });
  if constexpr (has_bytes<Call>)
    if (!x.bytes.empty())
      std::memcpy(word, x.bytes.data(), x.bytes.size());
}

/// Appends a call with one reservation, one encoding in place and one copy of
/// the payload. `fill` writes the payload, and may be empty if payload_bytes
/// is 0.
template <class Call, class Fill>
call_number append(log_writer& log, const Call& x, std::uint8_t device,
                   slot_index slot, std::uint32_t payload_bytes, Fill&& fill,
                   const std::function<void()>& stalled) {
  auto place = log.reserve(message_words(x), payload_bytes, stalled);
  encode(x, device, place.message());
  if (payload_bytes != 0)
    fill(place.payload());
  log.commit(place, slot);
  return place.call();
}

/// Appends a call with a payload that is contiguous in memory.
template <class Call>
call_number append(log_writer& log, const Call& x, std::uint8_t device,
                   slot_index slot, std::span<const std::byte> payload,
                   const std::function<void()>& stalled) {
  auto bytes = static_cast<std::uint32_t>(payload.size());
  auto copy = [&](std::span<std::byte> into) {
    std::copy(payload.begin(), payload.end(), into.begin());
  };
  if (payload.size() < written_from)
    return append(log, x, device, slot, bytes, copy, stalled);
  auto place = log.reserve_written(message_words(x), bytes, stalled);
  encode(x, device, place.message());
  log.write(place, payload);
  log.commit(place, slot);
  return place.call();
}

/// Converts a message to its call's struct and passes it to `handler(call,
/// device)`. The struct's bytes lie in `message`. Returns a fault if the
/// message is malformed or names a call that this version does not know.
template <class Handler>
status decode(std::span<const std::uint64_t> message, Handler&& handler) {
  try {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = 4 * (message.size() + 1);
    options.nestingLimit = 4;
    capnp::FlatArrayMessageReader reader{
        {reinterpret_cast<const capnp::word*>(message.data()), message.size()},
        options};
    auto root = reader.getRoot<wire::Call>();
    auto arguments = root.getArguments();
    auto wanted = root.getFunction();
    bool found = false;
    bool complete = true;
    auto attempt = [&]<class Call>(Call x) {
      if (found || static_cast<std::uint16_t>(Call::id) != wanted)
        return;
      found = true;
      if (arguments.size() < argument_count<Call>()) {
        complete = false;
        return;
      }
      std::uint32_t i = 0;
      detail::each_argument(x, [&](auto& word) {
        word = static_cast<std::remove_reference_t<decltype(word)>>(
            arguments[i++]);
      });
      if constexpr (detail::has_bytes<Call>) {
        auto bytes = root.getBytes();
        x.bytes = {reinterpret_cast<const std::byte*>(bytes.begin()),
                   bytes.size()};
      }
      handler(x, root.getDevice());
    };
    std::apply([&](auto... call) { (attempt(call), ...); }, all{});
    if (!found)
      return fault{fault_kind::unsupported,
                   "call " + std::to_string(wanted) +
                       " is unknown to this version; update the worker"};
    if (!complete)
      return fault{fault_kind::corrupt,
                   "call " + std::to_string(wanted) + " lacks arguments"};
    return {};
  } catch (const kj::Exception& x) {
    return fault{fault_kind::corrupt,
                 std::string{"malformed call: "} + x.getDescription().cStr()};
  }
}

} // namespace vgpu::call
