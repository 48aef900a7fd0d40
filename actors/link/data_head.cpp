#include "actors/link/data_head.hpp"

#include "schema/wire/data.capnp.h"
#include "schema/wire/message_codec.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>

namespace vgpu::data {

namespace {

// -- an answer's place, a union of its own ------------------------------------

void write_place(wire::Answer::Builder to, const answer& x) {
  switch (x.where) {
  case answer::place::none:
    to.setNone();
    break;
  case answer::place::arena:
    to.setArena(x.at);
    break;
  case answer::place::host:
    to.setHost(x.at);
    break;
  case answer::place::output:
    to.setOutput(x.at);
    break;
  case answer::place::error:
    to.setError(x.at);
    break;
  case answer::place::host_call:
    to.setHostCall();
    break;
  case answer::place::zero_copy:
    to.setZeroCopy();
    break;
  case answer::place::times:
    to.setTimes();
    break;
  }
}

void read_place(wire::Answer::Reader x, answer& out) {
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
  } else if (x.isTimes()) {
    out.where = answer::place::times;
  }
}

// -- heads --------------------------------------------------------------------

void write_body(wire::DataHead::Builder to, const body& what) {
  wire_codec::write_one_of(to, heads, what);
  if (const auto* x = std::get_if<answer>(&what))
    write_place(to.getAnswer(), *x);
}

std::optional<body> read_body(wire::DataHead::Reader from) {
  auto out = wire_codec::read_one_of<body>(from, heads, {});
  if (!out)
    return out;
  if (auto* x = std::get_if<answer>(&*out)) {
    x->slot = static_cast<slot_index>(x->slot % slot_count);
    read_place(from.getAnswer(), *x);
  }
  return out;
}

} // namespace

std::vector<std::uint64_t> encode(const head& x) {
  // Enough for any head but a long list of waiting calls.
  capnp::word scratch[64] = {};
  capnp::MallocMessageBuilder message{{scratch, 64}};
  auto root = message.initRoot<wire::DataHead>();
  root.setSession(x.session.value);
  root.setEpoch(x.epoch.value);
  write_body(root, x.body);
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
    auto what = read_body(root);
    if (!what)
      return fault{fault_kind::unsupported,
                   "a data-plane message of a kind unknown here"};
    return head{{root.getSession()}, {root.getEpoch()}, std::move(*what)};
  } catch (const kj::Exception& x) {
    return fault{fault_kind::corrupt,
                 std::string{"a malformed data-plane message: "} +
                     x.getDescription().cStr()};
  } catch (const wire_codec::bad_value& x) {
    return fault{fault_kind::corrupt,
                 std::string{"a malformed data-plane message: "} + x.what()};
  }
}

} // namespace vgpu::data
