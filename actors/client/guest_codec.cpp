#include "actors/client/guest_codec.hpp"

#include "actors/link/codec.hpp"
#include "schema/wire/guest.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace vgpu::guest {

namespace {

constexpr std::uint16_t version = 1;

std::vector<std::uint64_t> flat(capnp::MessageBuilder& message) {
  auto words = capnp::messageToFlatArray(message);
  std::vector<std::uint64_t> out(words.size());
  std::memcpy(out.data(), words.begin(), words.size() * sizeof(capnp::word));
  return out;
}

/// Reads a message of this root, or says what it should have been.
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
    return fault{CUDA_ERROR_INVALID_VALUE, std::string{"malformed "} + what +
                                               ": " +
                                               x.getDescription().cStr()};
  }
}

void fill(wire::DeviceFacts::Builder to, const control::device_facts& from) {
  to.setName(from.name);
  to.setUuid(
      {reinterpret_cast<const kj::byte*>(from.uuid.data()), from.uuid.size()});
  to.setTotalMemory(from.total_memory);
  auto attributes =
      to.initAttributes(static_cast<unsigned>(from.attributes.size()));
  unsigned n = 0;
  for (auto& [key, value] : from.attributes) {
    attributes[n].setKey(key);
    attributes[n++].setValue(value);
  }
}

} // namespace

result<hello> decode_hello(std::span<const std::uint64_t> words) {
  return read<wire::GuestHello>(
      words, "hello of a program",
      [](wire::GuestHello::Reader in) -> result<hello> {
        if (in.getVersion() != version)
          return fault{CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
                       "a program's libcuda speaks version " +
                           std::to_string(in.getVersion()) +
                           "; restart it with this version's library"};
        hello out;
        auto program = in.getProgram();
        out.program.name = program.getName().cStr();
        out.program.pid = program.getPid();
        out.program.host = program.getHost().cStr();
        out.program.user = program.getUser().cStr();
        auto asked = in.getSpecification();
        out.specification.share = asked.getShare();
        out.specification.memory = asked.getMemory();
        out.specification.gpus = asked.getGpus();
        auto protection = static_cast<unsigned>(asked.getProtection());
        if (protection > static_cast<unsigned>(control::protection::snapshot))
          return fault{CUDA_ERROR_INVALID_VALUE,
                       "a program wants an unknown kind of protection"};
        out.specification.protection =
            static_cast<control::protection>(protection);
        out.specification.limit = asked.getLimit();
        out.specification.priority = asked.getPriority();
        out.specification.node = asked.getNode().cStr();
        out.specification.pgpu = asked.getPgpu();
        out.specification.backend = asked.getBackend().cStr();
        auto where = static_cast<unsigned>(asked.getLocality());
        if (where > static_cast<unsigned>(control::locality::any))
          return fault{CUDA_ERROR_INVALID_VALUE,
                       "a program wants a place of an unknown kind"};
        out.specification.where = static_cast<control::locality>(where);
        out.specification.beside = {asked.getBeside()};
        out.specification.apart = {asked.getApart()};
        out.specification.wait_ms = asked.getWaitMs();
        out.specification.idle_after_ms = asked.getIdleAfterMs();
        out.specification.snapshot_ms =
            std::max(asked.getSnapshotMs(), control::shortest_snapshot_ms);
        out.specification.group = asked.getGroup();
        out.specification.capability = asked.getCapability();
        out.resumed = in.getResumed();
        out.hears_waiting = in.getHearsWaiting();
        out.watches = in.getWatches();
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
        return fault{CUDA_ERROR_NOT_SUPPORTED, "a notice of unknown kind"};
      });
}

std::vector<std::uint64_t> encode_welcome(const control::lease& lease) {
  capnp::MallocMessageBuilder message;
  auto granted = message.initRoot<wire::GuestWelcome>().initGranted();
  granted.setSession(lease.session.value);
  granted.setVgpu(lease.vgpu.value);
  granted.setQuota(lease.quota);
  auto devices =
      granted.initDevices(static_cast<unsigned>(lease.devices.size()));
  for (unsigned i = 0; i < devices.size(); ++i)
    fill(devices[i], lease.devices[i]);
  return flat(message);
}

std::vector<std::uint64_t> encode_watched(const watched& x) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<wire::GuestWelcome>().initWatched();
  auto devices = out.initDevices(static_cast<unsigned>(x.devices.size()));
  for (unsigned i = 0; i < devices.size(); ++i)
    fill(devices[i], x.devices[i]);
  auto uses = out.initUses(static_cast<unsigned>(x.uses.size()));
  for (unsigned i = 0; i < uses.size(); ++i) {
    uses[i].setDevice(static_cast<std::uint32_t>(x.uses[i].device));
    uses[i].setPid(x.uses[i].pid);
    uses[i].setQuota(x.uses[i].quota);
    uses[i].setUsed(x.uses[i].used);
    uses[i].setBusy(static_cast<std::uint8_t>(x.uses[i].busy));
  }
  return flat(message);
}

std::vector<std::uint64_t> encode_refusal(const control::refusal& why) {
  capnp::MallocMessageBuilder message;
  auto refused = message.initRoot<wire::GuestWelcome>().initRefused();
  refused.setCode(static_cast<std::uint32_t>(why.code));
  refused.setReason(why.reason);
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
    return fault{CUDA_ERROR_INVALID_VALUE,
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
