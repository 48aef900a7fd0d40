#include "actors/client/guest_codec.hpp"

#include "actors/link/codec.hpp"
#include "schema/wire/guest.capnp.h"
#include "schema/wire/message_codec.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace vgpu::guest {

namespace {

std::vector<std::uint64_t> flat(capnp::MessageBuilder& message) {
  auto words = capnp::messageToFlatArray(message);
  std::vector<std::uint64_t> out(words.size());
  std::memcpy(out.data(), words.begin(), words.size() * sizeof(capnp::word));
  return out;
}

/// Reads a message with this root. The fault names the expected message.
template <class Root, class F>
auto read(std::span<const std::uint64_t> words, const char* what, F f)
    -> decltype(f(std::declval<typename Root::Reader>())) {
  try {
    capnp::ReaderOptions limits;
    limits.traversalLimitInWords = 4 * words.size() + 64;
    limits.nestingLimit = 8;
    capnp::FlatArrayMessageReader message{
        {reinterpret_cast<const capnp::word*>(words.data()), words.size()},
        limits};
    return f(message.getRoot<Root>());
  } catch (const kj::Exception& x) {
    return fault{fault_kind::corrupt, std::string{"malformed "} + what + ": " +
                                          x.getDescription().cStr()};
  } catch (const wire_codec::bad_value& x) {
    return fault{fault_kind::corrupt,
                 std::string{"malformed "} + what + ": " + x.what()};
  }
}

} // namespace

result<hello> decode_hello(std::span<const std::uint64_t> words) {
  return read<wire::GuestHello>(
      words, "hello of a program",
      [](wire::GuestHello::Reader in) -> result<hello> {
        if (in.getVersion() != version)
          return fault{fault_kind::other_version,
                       "a program's libcuda speaks version " +
                           std::to_string(in.getVersion()) +
                           "; restart it with this version's library"};
        hello out;
        wire_codec::read_fields(in, out, {});
        auto& asked = out.specification;
        asked.snapshot_ms =
            std::max(asked.snapshot_ms, control::shortest_snapshot_ms);
        auto recovery = control::recovery_of(asked);
        recovery.within_ms =
            std::max(recovery.within_ms, control::shortest_snapshot_ms);
        control::set_recovery(asked, recovery);
        return out;
      });
}

result<notice> decode_notice(std::span<const std::uint64_t> words) {
  return read<wire::GuestNotice>(
      words, "notice of a program",
      [](wire::GuestNotice::Reader in) -> result<notice> {
        if (in.isJournalFills())
          return notice::journal_fills;
        if (in.isShares())
          return notice::shares;
        return fault{fault_kind::unsupported, "a notice of unknown kind"};
      });
}

std::vector<std::uint64_t> encode_welcome(const control::lease& lease) {
  capnp::MallocMessageBuilder message;
  wire_codec::write_fields(
      message.initRoot<wire::GuestWelcome>().initGranted(),
      granted{lease.session, lease.vgpu, lease.quota, lease.devices});
  return flat(message);
}

std::vector<std::uint64_t> encode_watched(const watched& x) {
  capnp::MallocMessageBuilder message;
  wire_codec::write_fields(message.initRoot<wire::GuestWelcome>().initWatched(),
                           x);
  return flat(message);
}

std::vector<std::uint64_t> encode_refusal(const control::refusal& why) {
  capnp::MallocMessageBuilder message;
  // The program knows its session.
  wire_codec::write_fields(message.initRoot<wire::GuestWelcome>().initRefused(),
                           control::refusal{why.code, why.reason, {}});
  return flat(message);
}

std::vector<std::uint64_t> encode_waiting(const std::string& why) {
  capnp::MallocMessageBuilder message;
  message.initRoot<wire::GuestWelcome>().setWaiting(why);
  return flat(message);
}

std::vector<std::byte> encode_ticket(const control::lease& lease) {
  auto small = lease;
  small.devices.clear();
  // The next client connects to the worker of a lease of its own.
  small.worker.key.clear();
  small.reason.clear();
  auto frame = control::encode({{}, 0, std::move(small)});
  auto* begin = static_cast<const std::byte*>(frame.data());
  return {begin, begin + frame.size()};
}

result<ticket> decode_ticket(std::span<const std::byte> bytes) {
  parcel in{{}, zmq::message_t{bytes.data(), bytes.size()}, {}};
  auto read = control::decode(in);
  auto* envelope = std::get_if<control::envelope>(&read);
  auto* lease = envelope == nullptr
                    ? nullptr
                    : std::get_if<control::lease>(&envelope->body);
  if (lease == nullptr)
    return fault{fault_kind::corrupt,
                 "the ticket of a running session cannot be read"};
  ticket out;
  out.adopt.session = lease->session;
  out.adopt.vgpu = lease->vgpu;
  out.adopt.epoch = lease->epoch;
  out.adopt.token = lease->token;
  out.adopt.node = lease->node;
  out.lease = std::move(*lease);
  return out;
}

} // namespace vgpu::guest
