// How a struct declares its fields for a Cap'n Proto message, once for reading
// and writing (message_codec.hpp). This header knows no schema and needs no
// library.
//
//   struct suspect {
//     session_id session;
//     std::string reason;
//     static void fields(auto& x, auto&& f) {
//       f(x.session, WIRE_MEMBER(Session));
//       f(x.reason, WIRE_MEMBER(Reason));
//     }
//   };
#pragma once

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <variant>

namespace vgpu {

/// Holds the accessors that capnp generates for a member of a schema's struct.
template <class Get, class Set, class Init>
struct wire_member {
  Get get;
  Set set;
  Init init;
};
template <class Get, class Set, class Init>
wire_member(Get, Set, Init) -> wire_member<Get, Set, Init>;

/// Makes the wire_member of this name. The schema need only be known where it
/// is used. The name is the schema's with a capital: WIRE_MEMBER(BeatEveryMs).
#define WIRE_MEMBER(Name)                                                      \
  ::vgpu::wire_member {                                                        \
    [](auto& from) -> decltype(from.get##Name()) { return from.get##Name(); }, \
        [](auto& to, auto&&... value) -> decltype(to.set##Name(value...)) {    \
          return to.set##Name(value...);                                       \
        },                                                                     \
        [](auto& to, auto... count) -> decltype(to.init##Name(count...)) {     \
          return to.init##Name(count...);                                      \
        }                                                                      \
  }

/// Says how an enum travels. For one that travels as a number, the
/// specialization has `last`, its last value, and `what`, its name for people.
/// A reader refuses larger numbers. For one that travels as a text, it has
/// `names`, the table of texts (enum_names), in place of `last`. A reader
/// refuses texts that are not in the table.
template <class Enum>
struct wire_enum;

/// Is satisfied by a struct whose fields are declared.
template <class T>
concept has_wire_fields = requires(T& x) {
  T::fields(x, [](auto&, const auto&) {});
};

/// Returns the number of fields of a struct.
template <has_wire_fields T>
std::size_t count_wire_fields() {
  T x{};
  std::size_t out = 0;
  T::fields(x, [&](auto&, const auto&) { ++out; });
  return out;
}

/// Returns a schema's name as capnp writes it: "nodeBeat" for "NodeBeat".
template <std::size_t size>
constexpr std::array<char, size> wire_name(const char (&name)[size]) {
  std::array<char, size> out{};
  for (std::size_t i = 0; i < size; ++i)
    out[i] = name[i];
  out[0] = static_cast<char>(out[0] - 'A' + 'a');
  return out;
}

/// Describes a struct as one member of a schema's union: its name, its
/// accessors, and the test whether a union has it.
template <class T, class Name, class Member, class Is>
struct wire_choice {
  using type = T;
  Name name; // "nodeBeat"
  Member member;
  Is is;
};
template <class T, class Name, class Member, class Is>
constexpr wire_choice<T, Name, Member, Is>
make_wire_choice(Name name, Member member, Is is) {
  return {name, member, is};
}

#define WIRE_CHOICE(type, Name)                                                \
  ::vgpu::make_wire_choice<type>(::vgpu::wire_name(#Name), WIRE_MEMBER(Name),  \
                                 [](const auto& x) { return x.is##Name(); })

/// Is the variant of all structs of a tuple of choices, in the tuple's order.
template <class Choices>
struct one_of;
template <class... Choice>
struct one_of<const std::tuple<Choice...>> {
  using type = std::variant<typename Choice::type...>;
};
template <class Choices>
using one_of_choices = typename one_of<Choices>::type;

} // namespace vgpu
