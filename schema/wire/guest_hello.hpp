// A program's first message to its client (guest.capnp). Both sides read and
// write it by its fields.
#pragma once

#include "schema/wire/message_fields.hpp"
#include "schema/wire/specification.hpp"

#include <cstdint>
#include <string>

namespace vgpu::control {

/// Describes a program for people.
struct program {
  std::string name;
  std::uint32_t pid = 0;
  std::string host;
  std::string user;
  bool operator==(const program&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.name, WIRE_MEMBER(Name));
    f(x.pid, WIRE_MEMBER(Pid));
    f(x.host, WIRE_MEMBER(Host));
    f(x.user, WIRE_MEMBER(User));
  }
};

} // namespace vgpu::control

namespace vgpu::guest {

/// Gives the version of guest.capnp that both sides speak.
inline constexpr std::uint16_t version = 1;

/// Is a program's first message.
struct hello {
  control::program program;
  control::specification specification;
  /// Says that the program has a session already, whose former client died.
  bool resumed = false;
  /// Says that the program accepts what encode_waiting() makes.
  bool hears_waiting = false;
  /// Says that the program wants what encode_watched() makes, and no vGPU.
  bool watches = false;

  static void fields(auto& x, auto&& f) {
    f(x.program, WIRE_MEMBER(Program));
    f(x.specification, WIRE_MEMBER(Specification));
    f(x.resumed, WIRE_MEMBER(Resumed));
    f(x.hears_waiting, WIRE_MEMBER(HearsWaiting));
    f(x.watches, WIRE_MEMBER(Watches));
  }
};

} // namespace vgpu::guest
