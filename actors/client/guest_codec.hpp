// Between interposer and client (schema/wire/guest.capnp), the client's side;
// and the ticket by which another client takes a session up.
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

/// What a program uses of a device.
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
/// The vGPUs of one group, as far as one client serves them.
struct watched {
  std::vector<control::device_facts> devices;
  std::vector<watched_use> uses;

  static void fields(auto& x, auto&& f) {
    f(x.devices, WIRE_MEMBER(Devices));
    f(x.uses, WIRE_MEMBER(Uses));
  }
};

/// What a program learns of its vGPU.
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

/// A fault where the hello is malformed.
result<hello> decode_hello(std::span<const std::uint64_t> words);

/// A program's message that wants no answer.
enum class notice : std::uint8_t {
  journal_fills, // the journal needs a snapshot, so that it can be trimmed
  shares,        // the program shares with another process, and is unprotected
};

/// A fault where the notice is malformed or of an unknown kind.
result<notice> decode_notice(std::span<const std::uint64_t> words);

/// The lease, as far as a program needs it.
std::vector<std::uint64_t> encode_welcome(const control::lease& lease);
/// The answer to a hello that watches.
std::vector<std::uint64_t> encode_watched(const watched& x);
/// The program gets no vGPU, and why.
std::vector<std::uint64_t> encode_refusal(const control::refusal& why);
/// Why there is no place yet. A welcome or a refusal follows.
std::vector<std::uint64_t> encode_waiting(const std::string& why);

/// What a client leaves in the program's memory for its successor.
struct ticket {
  control::lease lease; // without its devices
  control::adopt adopt;
};
/// At most ticket_bytes.
std::vector<std::byte> encode_ticket(const control::lease& lease);
/// A fault where the bytes are no ticket.
result<ticket> decode_ticket(std::span<const std::byte> bytes);

} // namespace vgpu::guest
