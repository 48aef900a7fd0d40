// The values that control-plane messages are made of, to and from
// schema/wire/wire.capnp, and the bounds of whatever a peer sent. For
// codec.cpp.
#pragma once

#include "actors/link/protocol.hpp"
#include "schema/wire/wire.capnp.h"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// Thread-safe. What reads throws bad_value, or kj::Exception where the message
/// is malformed.
namespace vgpu::control::wire_values {

/// A value that no peer of this version sends.
struct bad_value : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Longest text in bytes, but for the JSON of a status.
inline constexpr std::size_t longest_text = 16'384;

/// Valid as long as `x` is.
kj::StringPtr to_kj(const std::string& x);
std::string text(capnp::Text::Reader x, std::size_t longest = longest_text);

/// Throws where a list has more entries than any peer sends.
void check_length(std::size_t entries);

/// The size of a list that is to hold as many.
unsigned count(std::size_t values);

std::vector<std::uint32_t> read(capnp::List<std::uint32_t>::Reader from);
void write(capnp::List<std::uint32_t>::Builder to,
           const std::vector<std::uint32_t>& from);

protection read(wire::Protection x);
wire::Protection to_wire(protection x);

// -- one pair for each value --------------------------------------------------

void write(wire::DeviceFacts::Builder to, const device_facts& x);
device_facts read(wire::DeviceFacts::Reader x);

void write(wire::PGpu::Builder to, const pgpu& x);
pgpu read(wire::PGpu::Reader x);

void write(wire::WorkerEndpoints::Builder to, const worker_endpoints& x);
worker_endpoints read(wire::WorkerEndpoints::Reader x);

void write(wire::RunningSession::Builder to, const running_session& x);
running_session read(wire::RunningSession::Reader x);

void write(wire::Usage::Builder to, const usage& x);
usage read(wire::Usage::Reader x);

void write(wire::SessionLoad::Builder to, const session_load& x);
session_load read(wire::SessionLoad::Reader x);

void write(wire::Specification::Builder to, const specification& x);
specification read(wire::Specification::Reader x);

void write(wire::Program::Builder to, const program& x);
program read(wire::Program::Reader x);

void write(wire::Event::Builder to, const event& x);
event read(wire::Event::Reader x);

// -- lists of them ------------------------------------------------------------

/// Writes each of `values` with the write() of its type.
template <class Builder, class Values>
void write_list(Builder to, const Values& values) {
  auto i = 0u;
  for (const auto& x : values)
    write(to[i++], x);
}

/// Reads each of `from` with the read() of its type.
template <class List>
auto read_list(const List& from) {
  check_length(from.size());
  std::vector<decltype(read(from[0]))> out;
  for (auto x : from)
    out.push_back(read(x));
  return out;
}

} // namespace vgpu::control::wire_values
