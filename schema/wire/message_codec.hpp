// Converts structs with fields (message_fields.hpp) to and from Cap'n Proto
// messages, and checks the bounds of received values.
#pragma once

#include "schema/base/cuda_fault.hpp"
#include "schema/base/enum_names.hpp"
#include "schema/base/ids.hpp"
#include "schema/wire/message_fields.hpp"

#include <capnp/message.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// Thread-safe. Reading functions throw bad_value, or kj::Exception if the
/// message is malformed.
namespace vgpu::wire_codec {

/// Reports a value that no peer of this version sends.
struct bad_value : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Holds the limits of a reader.
struct bounds {
  std::size_t longest_text = std::numeric_limits<std::size_t>::max(); // bytes
  std::size_t longest_list = std::numeric_limits<std::size_t>::max();
};

/// Returns a view that is valid as long as `x`.
inline kj::StringPtr to_kj(const std::string& x) {
  return {x.c_str(), x.size()};
}

inline std::string to_text(capnp::Text::Reader x, const bounds& most) {
  if (x.size() > most.longest_text)
    throw bad_value{"a text of " + std::to_string(x.size()) + " bytes"};
  return {x.begin(), x.size()};
}

inline void check_length(std::size_t entries, const bounds& most) {
  if (entries > most.longest_list)
    throw bad_value{"a list of " + std::to_string(entries) + " entries"};
}

/// Returns the size of a list for so many values.
inline unsigned list_size(std::size_t values) {
  return static_cast<unsigned>(
      std::min<std::size_t>(values, std::numeric_limits<std::int32_t>::max()));
}

namespace detail {

template <class T>
inline constexpr bool is_id = false;
template <class Tag>
inline constexpr bool is_id<id<Tag>> = true;

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <class T>
inline constexpr bool is_bytes = std::is_same_v<T, std::vector<std::uint8_t>>;
template <std::size_t size>
inline constexpr bool is_bytes<std::array<std::byte, size>> = true;

template <class T>
inline constexpr bool is_map = false;
template <class Key, class Value>
inline constexpr bool is_map<std::map<Key, Value>> = true;

template <class T>
concept is_text_enum = requires {
  wire_enum<T>::names;
};

template <class X>
concept is_struct_reader = requires(const X& x) {
  x.totalSize();
};

template <class T>
inline constexpr bool is_plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

} // namespace detail

// -- writing ------------------------------------------------------------------

template <class Builder, has_wire_fields T>
void write_fields(Builder to, const T& x);

template <class Builder, class T>
void write_list(Builder to, const std::vector<T>& x) {
  for (auto i = 0u; i < to.size(); ++i)
    if constexpr (has_wire_fields<T>)
      write_fields(to[i], x[i]);
    else
      to.set(i, x[i]);
}

/// Writes one value into a member of `to`.
template <class Builder, class Member, class T>
void write_value(Builder& to, const Member& member, const T& x) {
  if constexpr (detail::is_text_enum<T>)
    member.set(to, text_in(wire_enum<T>::names, x));
  else if constexpr (detail::is_plain<T>)
    member.set(to, static_cast<decltype(member.get(to))>(x));
  else if constexpr (detail::is_id<T>)
    member.set(to, x.value);
  else if constexpr (std::is_same_v<T, std::string>)
    member.set(to, to_kj(x));
  else if constexpr (detail::is_bytes<T>)
    member.set(to, capnp::Data::Reader{
                       reinterpret_cast<const kj::byte*>(x.data()), x.size()});
  else if constexpr (detail::is_map<T>) {
    auto list = member.init(to, list_size(x.size()));
    auto i = 0u;
    for (const auto& [key, value] : x) {
      list[i].setKey(key);
      list[i++].setValue(value);
    }
  } else if constexpr (detail::is_vector<T>)
    write_list(member.init(to, list_size(x.size())), x);
  else
    write_fields(member.init(to), x);
}

template <class Builder, has_wire_fields T>
void write_fields(Builder to, const T& x) {
  T::fields(x, [&](const auto& field, const auto& member) {
    write_value(to, member, field);
  });
}

// -- reading ------------------------------------------------------------------

template <class Reader, has_wire_fields T>
void read_fields(Reader from, T& x, const bounds& most);

template <class T, class Wire>
T read_plain(Wire x) {
  if constexpr (std::is_same_v<T, CUresult>) {
    return to_result(x);
  } else if constexpr (requires { wire_enum<T>::last; }) {
    if (static_cast<std::uint64_t>(x) >
        static_cast<std::uint64_t>(wire_enum<T>::last))
      throw bad_value{std::string{"an unknown "} + wire_enum<T>::what};
    return static_cast<T>(x);
  } else {
    return static_cast<T>(x);
  }
}

template <detail::is_text_enum T>
T read_name(const std::string& text) {
  auto out = value_in(wire_enum<T>::names, text);
  if (!out)
    throw bad_value{std::string{"an unknown "} + wire_enum<T>::what};
  return *out;
}

template <class T>
void read_bytes(capnp::Data::Reader from, T& x) {
  if constexpr (detail::is_vector<T>) {
    x.assign(from.begin(), from.end());
  } else {
    if (from.size() != x.size() && from.size() != 0)
      throw bad_value{"a value of " + std::to_string(from.size()) +
                      " bytes in place of " + std::to_string(x.size())};
    std::copy_n(reinterpret_cast<const std::byte*>(from.begin()), from.size(),
                x.begin());
  }
}

template <class List, class T>
void read_list(List from, std::vector<T>& x, const bounds& most) {
  check_length(from.size(), most);
  x.clear();
  for (auto value : from) {
    auto& to = x.emplace_back();
    if constexpr (has_wire_fields<T>)
      read_fields(value, to, most);
    else
      to = value;
  }
}

/// Reads one value from a member of `from`.
template <class Reader, class Member, class T>
void read_value(Reader& from, const Member& member, T& x, const bounds& most) {
  if constexpr (detail::is_text_enum<T>)
    x = read_name<T>(to_text(member.get(from), most));
  else if constexpr (detail::is_plain<T>)
    x = read_plain<T>(member.get(from));
  else if constexpr (detail::is_id<T>)
    x = {member.get(from)};
  else if constexpr (std::is_same_v<T, std::string>)
    x = to_text(member.get(from), most);
  else if constexpr (detail::is_bytes<T>)
    read_bytes(member.get(from), x);
  else if constexpr (detail::is_map<T>) {
    auto list = member.get(from);
    check_length(list.size(), most);
    for (auto entry : list)
      x[entry.getKey()] = entry.getValue();
  } else if constexpr (detail::is_vector<T>)
    read_list(member.get(from), x, most);
  else
    read_fields(member.get(from), x, most);
}

template <class Reader, has_wire_fields T>
void read_fields(Reader from, T& x, const bounds& most) {
  T::fields(x, [&](auto& field, const auto& member) {
    read_value(from, member, field, most);
  });
}

// -- members of unions --------------------------------------------------------

// A struct is a member of a schema's union in one of three ways: as a struct;
// as Void, if it has no fields; or as its one field.

/// Writes a struct as this member of the union of `to`.
template <class Builder, class Member, has_wire_fields T>
void write_choice(Builder to, const Member& member, const T& x) {
  if constexpr (std::is_empty_v<T>)
    member.set(to);
  else if constexpr (std::is_invocable_v<decltype(member.init), Builder&>)
    write_fields(member.init(to), x);
  else
    T::fields(x, [&](const auto& field, const auto&) {
      write_value(to, member, field);
    });
}

/// Reads a struct, if the union has this member. A text that is a whole message
/// has at most `longest_lone_text` bytes.
template <has_wire_fields T, class Reader, class Member>
T read_choice(
    Reader from, const Member& member, const bounds& most,
    std::size_t longest_lone_text = std::numeric_limits<std::size_t>::max()) {
  T x{};
  if constexpr (std::is_empty_v<T>) {
    // A Void member has nothing to read.
  } else if constexpr (detail::is_struct_reader<decltype(member.get(from))>) {
    read_fields(member.get(from), x, most);
  } else {
    auto alone = most;
    alone.longest_text = longest_lone_text;
    T::fields(x, [&](auto& field, const auto&) {
      read_value(from, member, field, alone);
    });
  }
  return x;
}

/// Calls `f(choice, index)` for each of a tuple of choices.
template <class Choices, class F>
void each_choice(const Choices& choices, F f) {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (f(std::get<i>(choices), std::integral_constant<std::size_t, i>{}), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Choices>>{});
}

/// Writes a variant into the union of `to`. Its types are those of `choices`.
template <class Builder, class Choices, class Variant>
void write_one_of(Builder to, const Choices& choices, const Variant& what) {
  each_choice(choices, [&](const auto& choice, auto index) {
    if (const auto* x = std::get_if<index>(&what))
      write_choice(to, choice.member, *x);
  });
}

/// Reads a variant, or returns nothing if the union has a member that is
/// unknown here. read_choice() explains the rest.
template <class Variant, class Reader, class Choices>
std::optional<Variant> read_one_of(
    Reader from, const Choices& choices, const bounds& most,
    std::size_t longest_lone_text = std::numeric_limits<std::size_t>::max()) {
  std::optional<Variant> out;
  each_choice(choices, [&](const auto& choice, auto index) {
    using type = typename std::decay_t<decltype(choice)>::type;
    if (!out && choice.is(from))
      out.emplace(
          std::in_place_index<index>,
          read_choice<type>(from, choice.member, most, longest_lone_text));
  });
  return out;
}

} // namespace vgpu::wire_codec
