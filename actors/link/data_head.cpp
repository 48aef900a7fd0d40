#include "actors/link/data_head.hpp"

#include "schema/wire/data.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>

namespace vgpu::data {

namespace {

using builder = wire::DataHead::Builder;
using reader = wire::DataHead::Reader;

// -- to the wire
// ------------------------------------------------------------------

void put(builder to, const attach& x) {
  auto a = to.initAttach();
  a.setToken(x.token);
  a.setAnswersSeen(x.answers_seen);
  a.setReplayUntil(x.replay_until);
  a.setRestore(x.restore);
  a.setCharged(x.charged);
  a.setAdopt(x.adopt);
  a.setAside(x.aside);
  auto list = a.initWaiting(static_cast<unsigned>(x.waiting.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setCall(x.waiting[i].call.value);
    list[i].setSlot(x.waiting[i].slot);
  }
}

void put(builder to, const calls& x) {
  auto range = to.initCalls();
  range.setFrom(x.from);
  range.setTo(x.to);
}

void put(builder to, const keepalive& x) {
  auto k = to.initKeepalive();
  k.setSent(x.sent);
  k.setAnswersSeen(x.answers_seen);
}

void put(builder to, const detach&) {
  to.setDetach();
}

void fill(wire::Progress::Builder to, const progress& x) {
  to.setReceived(x.received);
  to.setExecuted(x.executed);
  to.setStickyError(static_cast<std::uint32_t>(x.sticky));
  to.setCalls(x.calls);
  to.setAnswers(x.answers);
  to.setAcknowledged(x.acknowledged);
  to.setCharged(x.charged);
  to.setBusy({x.busy.data(), x.busy.size()});
}

void put(builder to, const progress& x) {
  fill(to.initProgress(), x);
}
void put(builder to, const attached& x) {
  auto a = to.initAttached();
  fill(a, x.at);
  a.setSecondPort(x.second_port);
}
void put(builder to, const join& x) {
  to.setJoin(x.token);
}

void put(builder to, const answer& x) {
  auto a = to.initAnswer();
  a.setNumber(x.number);
  a.setCall(x.call.value);
  a.setSlot(x.slot);
  a.setResult(static_cast<std::uint32_t>(x.result));
  a.setValue(x.value);
  a.setDigest(x.digest);
  switch (x.where) {
  case answer::place::none:
    a.setNone();
    break;
  case answer::place::arena:
    a.setArena(x.at);
    break;
  case answer::place::host:
    a.setHost(x.at);
    break;
  case answer::place::output:
    a.setOutput(x.at);
    break;
  case answer::place::error:
    a.setError(x.at);
    break;
  case answer::place::host_call:
    a.setHostCall();
    break;
  case answer::place::zero_copy:
    a.setZeroCopy();
    break;
  }
}

void put(builder to, const refused& x) {
  to.setRefused(x.why);
}

void put(builder to, const checkpoint& x) {
  auto c = to.initCheckpoint();
  c.setCompress(x.compress);
  c.setGoOn(x.go_on);
  c.setOrder(x.order);
  c.setInMemory(x.in_memory);
  c.setOrAside(x.or_aside);
  auto pgpus = c.initLendTo(static_cast<unsigned>(x.lend_to.size()));
  for (unsigned i = 0; i < pgpus.size(); ++i)
    pgpus.set(i, x.lend_to[i]);
}
void put(builder to, const go_on&) {
  to.setGoOn();
}
void put(builder to, const checkpointing& x) {
  auto c = to.initCheckpointing();
  c.setOrder(x.order);
  c.setPhase(static_cast<wire::Checkpointing::Phase>(x.now));
}
void put(builder to, const checkpointed& x) {
  auto c = to.initCheckpointed();
  c.setPosition(x.position);
  c.setBytes(x.bytes);
  c.setAnswers(x.answers);
  c.setPauseNs(x.pause_ns);
  c.setOrder(x.order);
  c.setOnDisk(x.on_disk);
  c.setAside(x.aside);
}
void put(builder to, const not_checkpointed& x) {
  to.setNotCheckpointed(x.why);
}
void put(builder to, const back&) {
  to.setBack();
}
void put(builder to, const state_wanted& x) {
  auto range = to.initStateWanted();
  range.setFrom(x.from);
  range.setTo(x.to);
}
void put(builder to, const state_part& x) {
  to.setStatePart(x.from);
}
void put(builder to, const differs& x) {
  auto d = to.initDiffers();
  d.setTotal(x.total);
  auto list = d.initCalls(static_cast<unsigned>(x.calls.size()));
  for (unsigned i = 0; i < list.size(); ++i)
    list.set(i, x.calls[i]);
}

// -- from the wire
// ----------------------------------------------------------------

attach get(wire::Attach::Reader x) {
  attach out{.token = x.getToken(),
             .answers_seen = x.getAnswersSeen(),
             .replay_until = x.getReplayUntil(),
             .waiting = {},
             .restore = x.getRestore(),
             .charged = x.getCharged(),
             .adopt = x.getAdopt(),
             .aside = x.getAside()};
  for (auto w : x.getWaiting())
    out.waiting.push_back(
        {{w.getCall()}, static_cast<slot_index>(w.getSlot())});
  return out;
}

progress get(wire::Progress::Reader x) {
  return {.received = x.getReceived(),
          .executed = x.getExecuted(),
          .sticky = to_result(x.getStickyError()),
          .calls = x.getCalls(),
          .answers = x.getAnswers(),
          .acknowledged = x.getAcknowledged(),
          .charged = x.getCharged(),
          .busy = {x.getBusy().begin(), x.getBusy().end()}};
}

answer get(wire::Answer::Reader x) {
  answer out{.number = x.getNumber(),
             .call = {x.getCall()},
             .slot = static_cast<slot_index>(x.getSlot() % slot_count),
             .result = to_result(x.getResult()),
             .value = x.getValue(),
             .where = answer::place::none,
             .at = 0,
             .digest = x.getDigest()};
  if (x.isArena()) {
    out.where = answer::place::arena;
    out.at = x.getArena();
  } else if (x.isHost()) {
    out.where = answer::place::host;
    out.at = x.getHost();
  } else if (x.isOutput()) {
    out.where = answer::place::output;
    out.at = x.getOutput();
  } else if (x.isError()) {
    out.where = answer::place::error;
    out.at = x.getError();
  } else if (x.isHostCall()) {
    out.where = answer::place::host_call;
  } else if (x.isZeroCopy()) {
    out.where = answer::place::zero_copy;
  }
  return out;
}

checkpoint get(wire::Checkpoint::Reader x) {
  checkpoint out{.compress = x.getCompress(),
                 .go_on = x.getGoOn(),
                 .order = x.getOrder(),
                 .in_memory = x.getInMemory(),
                 .lend_to = {},
                 .or_aside = x.getOrAside()};
  for (auto pgpu : x.getLendTo())
    out.lend_to.push_back(pgpu);
  return out;
}

checkpointed get(wire::Checkpointed::Reader x) {
  return {.position = x.getPosition(),
          .bytes = x.getBytes(),
          .answers = x.getAnswers(),
          .pause_ns = x.getPauseNs(),
          .order = x.getOrder(),
          .on_disk = x.getOnDisk(),
          .aside = x.getAside()};
}

differs get(wire::Differs::Reader x) {
  differs out{{}, x.getTotal()};
  for (auto call : x.getCalls())
    out.calls.push_back(call);
  return out;
}

result<body> get(reader x) {
  switch (x.which()) {
  case wire::DataHead::ATTACH:
    return body{get(x.getAttach())};
  case wire::DataHead::CALLS:
    return body{calls{x.getCalls().getFrom(), x.getCalls().getTo()}};
  case wire::DataHead::KEEPALIVE:
    return body{keepalive{x.getKeepalive().getSent(),
                          x.getKeepalive().getAnswersSeen()}};
  case wire::DataHead::DETACH:
    return body{detach{}};
  case wire::DataHead::ATTACHED:
    return body{
        attached{get(x.getAttached()), x.getAttached().getSecondPort()}};
  case wire::DataHead::ANSWER:
    return body{get(x.getAnswer())};
  case wire::DataHead::PROGRESS:
    return body{get(x.getProgress())};
  case wire::DataHead::REFUSED:
    return body{refused{x.getRefused().cStr()}};
  case wire::DataHead::CHECKPOINT:
    return body{get(x.getCheckpoint())};
  case wire::DataHead::GO_ON:
    return body{go_on{}};
  case wire::DataHead::CHECKPOINTED:
    return body{get(x.getCheckpointed())};
  case wire::DataHead::BACK:
    return body{back{}};
  case wire::DataHead::NOT_CHECKPOINTED:
    return body{not_checkpointed{x.getNotCheckpointed().cStr()}};
  case wire::DataHead::STATE_WANTED:
    return body{
        state_wanted{x.getStateWanted().getFrom(), x.getStateWanted().getTo()}};
  case wire::DataHead::STATE_PART:
    return body{state_part{x.getStatePart()}};
  case wire::DataHead::DIFFERS:
    return body{get(x.getDiffers())};
  case wire::DataHead::JOIN:
    return body{join{x.getJoin()}};
  case wire::DataHead::CHECKPOINTING:
    return body{checkpointing{
        x.getCheckpointing().getOrder(),
        static_cast<checkpointing::phase>(x.getCheckpointing().getPhase())}};
  }
  return fault{CUDA_ERROR_NOT_SUPPORTED,
               "a data-plane message of a kind unknown here"};
}

} // namespace

std::vector<std::uint64_t> encode(const head& x) {
  // Enough for any head but a long list of waiting calls.
  capnp::word scratch[64] = {};
  capnp::MallocMessageBuilder message{{scratch, 64}};
  auto root = message.initRoot<wire::DataHead>();
  root.setSession(x.session.value);
  root.setEpoch(x.epoch.value);
  std::visit([&](const auto& what) { put(root, what); }, x.body);
  auto words = capnp::messageToFlatArray(message);
  std::vector<std::uint64_t> flat(words.size());
  std::memcpy(flat.data(), words.begin(), words.size() * sizeof(capnp::word));
  return flat;
}

result<head> decode(std::span<const std::uint64_t> words) {
  try {
    capnp::ReaderOptions limits;
    limits.traversalLimitInWords = 4 * words.size() + 64;
    limits.nestingLimit = 8;
    capnp::FlatArrayMessageReader message{
        {reinterpret_cast<const capnp::word*>(words.data()), words.size()},
        limits};
    auto root = message.getRoot<wire::DataHead>();
    auto what = get(root);
    if (!what)
      return what.why();
    return head{{root.getSession()}, {root.getEpoch()}, std::move(*what)};
  } catch (const kj::Exception& x) {
    return fault{CUDA_ERROR_INVALID_VALUE,
                 std::string{"a malformed data-plane message: "} +
                     x.getDescription().cStr()};
  }
}

} // namespace vgpu::data
