// The client's side of the messages between interposer and client
// (schema/wire/guest.capnp), and the ticket by which another client adopts a
// session.
#pragma once

#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"
#include "schema/wire/guest_hello.hpp"
#include "schema/wire/message_fields.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vgpu::guest {

/// Holds a program's use of a device.
struct watched_use {
  std::size_t device = 0; // index in watched::devices
  std::uint32_t pid = 0;
  std::uint64_t quota = 0;
  std::uint64_t used = 0; // bytes
  unsigned busy = 0;      // percent

  static void fields(auto& x, auto&& f) {
    f(x.device, WIRE_MEMBER(Device));
    f(x.pid, WIRE_MEMBER(Pid));
    f(x.quota, WIRE_MEMBER(Quota));
    f(x.used, WIRE_MEMBER(Used));
    f(x.busy, WIRE_MEMBER(Busy));
  }
};
/// Holds the vGPUs of one group that one client serves.
struct watched {
  std::vector<control::device_facts> devices;
  std::vector<watched_use> uses;

  static void fields(auto& x, auto&& f) {
    f(x.devices, WIRE_MEMBER(Devices));
    f(x.uses, WIRE_MEMBER(Uses));
  }
};

/// Holds what a program receives about its vGPU.
struct granted {
  session_id session;
  vgpu_id vgpu;
  std::uint64_t quota = 0; // bytes a device
  std::vector<control::device_facts> devices;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.vgpu, WIRE_MEMBER(Vgpu));
    f(x.quota, WIRE_MEMBER(Quota));
    f(x.devices, WIRE_MEMBER(Devices));
  }
};

/// Fails where the hello is malformed.
result<hello> decode_hello(std::span<const std::uint64_t> words);

/// Names the program's messages that need no answer.
enum class notice : std::uint8_t {
  journal_fills, // the journal needs a snapshot to be trimmed
  shares,        // the program shares with another process and is unprotected
};

/// Fails where the notice is malformed or of an unknown kind.
result<notice> decode_notice(std::span<const std::uint64_t> words);

/// Returns the part of the lease that a program needs.
std::vector<std::uint64_t> encode_welcome(const control::lease& lease);
/// Returns the answer to a hello that watches.
std::vector<std::uint64_t> encode_watched(const watched& x);
/// Returns the message that the program gets no vGPU, and why.
std::vector<std::uint64_t> encode_refusal(const control::refusal& why);
/// Returns the message why there is no place yet. A welcome or a refusal
/// follows.
std::vector<std::uint64_t> encode_waiting(const std::string& why);

/// Holds what a client leaves in the program's memory for its successor.
struct ticket {
  control::lease lease; // without its devices
  control::adopt adopt;
};
/// Returns at most ticket_bytes.
std::vector<std::byte> encode_ticket(const control::lease& lease);
/// Fails where the bytes are no ticket.
result<ticket> decode_ticket(std::span<const std::byte> bytes);

} // namespace vgpu::guest
