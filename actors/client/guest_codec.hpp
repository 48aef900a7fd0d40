// Between interposer and client (schema/wire/guest.capnp), the client's side;
// and the ticket by which another client takes a session up.
#pragma once

#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"
#include "schema/wire/message_fields.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vgpu::guest {

struct hello {
  control::program program;
  control::specification specification;
  bool resumed = false;
  bool hears_waiting = false; // takes what encode_waiting() makes
  bool watches = false;       // wants what encode_watched() makes, and no vGPU

  static void fields(auto& x, auto&& f) {
    f(x.program, WIRE_MEMBER(Program));
    f(x.specification, WIRE_MEMBER(Specification));
    f(x.resumed, WIRE_MEMBER(Resumed));
    f(x.hears_waiting, WIRE_MEMBER(HearsWaiting));
    f(x.watches, WIRE_MEMBER(Watches));
  }
};

/// What a program has of a device.
struct watched_use {
  std::size_t device = 0; // of watched::devices
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

/// What a program says first. A fault where it is malformed.
result<hello> decode_hello(std::span<const std::uint64_t> words);

/// What a program says without waiting for an answer.
enum class notice : std::uint8_t {
  journal_fills, // its log needs to be trimmed
  shares,        // it shares with another process, and is not protected now
};

/// A fault where the notice is malformed or of an unknown kind.
result<notice> decode_notice(std::span<const std::uint64_t> words);

std::vector<std::uint64_t> encode_welcome(const control::lease& lease);
std::vector<std::uint64_t> encode_watched(const watched& x);
std::vector<std::uint64_t> encode_refusal(const control::refusal& why);
/// Why there is no place yet; a welcome or a refusal follows.
std::vector<std::uint64_t> encode_waiting(const std::string& why);

struct ticket {
  control::lease lease; // without its devices
  control::adopt adopt;
};
std::vector<std::byte> encode_ticket(const control::lease& lease);
result<ticket> decode_ticket(std::span<const std::byte> bytes);

} // namespace vgpu::guest
