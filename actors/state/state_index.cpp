#include "actors/state/state_index.hpp"

#include "schema/wire/state.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace vgpu {

namespace {

// -- to the document ----------------------------------------------------------

void put(wire::StateChunk::Builder to, const state_chunk& x) {
  to.setAddress(x.address);
  to.setBytes(x.bytes);
  to.setForm(static_cast<wire::StateChunk::Form>(x.form));
  to.setStored(x.stored);
  to.setOffset(x.offset);
  to.setHash(x.hash);
}

template <class List>
void put_chunks(List to, const std::vector<state_chunk>& from) {
  for (unsigned i = 0; i < from.size(); ++i)
    put(to[i], from[i]);
}

unsigned count(const auto& list) {
  return static_cast<unsigned>(list.size());
}

void put(wire::State::Builder to, const state_index& x) {
  to.setPosition(x.position);
  to.setCalls(x.calls);
  auto consoles = to.initConsoles(count(x.consoles));
  for (unsigned i = 0; i < consoles.size(); ++i)
    consoles.set(i, x.consoles[i]);
  to.setDevices(x.devices);
  auto images = to.initImages(count(x.images));
  for (unsigned i = 0; i < images.size(); ++i) {
    images[i].setDigestLow(x.images[i].digest.low);
    images[i].setDigestHigh(x.images[i].digest.high);
    images[i].setBytes(x.images[i].bytes);
    put_chunks(images[i].initChunks(count(x.images[i].chunks)),
               x.images[i].chunks);
  }
  auto living = to.initLiving(count(x.living));
  for (unsigned i = 0; i < living.size(); ++i) {
    auto& [number, words] = x.living[i];
    living[i].setNumber(number);
    auto bytes = std::as_bytes(std::span{words});
    living[i].setMessage(
        {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()});
  }
  auto globals = to.initGlobals(count(x.globals));
  for (unsigned i = 0; i < globals.size(); ++i) {
    globals[i].setDevice(x.globals[i].device);
    globals[i].setModule(x.globals[i].module.value);
    globals[i].setName(x.globals[i].name.c_str());
    globals[i].setAddress(x.globals[i].address);
    globals[i].setBytes(x.globals[i].bytes);
  }
  put_chunks(to.initMemory(count(x.memory)), x.memory);
  auto placed = to.initPlaced(count(x.placed));
  for (unsigned i = 0; i < placed.size(); ++i) {
    placed[i].setDevice(x.placed[i].device);
    placed[i].setMemory(x.placed[i].memory.value);
    put_chunks(placed[i].initChunks(count(x.placed[i].chunks)),
               x.placed[i].chunks);
  }
  auto lent = to.initLent(count(x.lent));
  for (unsigned i = 0; i < lent.size(); ++i) {
    lent[i].setDevice(x.lent[i].device);
    lent[i].setAddress(x.lent[i].address);
    lent[i].setBytes(x.lent[i].bytes);
  }
  auto events = to.initEvents(count(x.events));
  for (unsigned i = 0; i < events.size(); ++i) {
    auto& [device, time] = x.events[i];
    events[i].setDevice(device);
    events[i].setEvent(time.event.value);
    events[i].setMilliseconds(time.milliseconds);
    events[i].setTimed(time.timed);
  }
}

// -- from the document --------------------------------------------------------

struct bad_index {
  std::string what;
};

state_chunk get(wire::StateChunk::Reader x, std::uint64_t chunks_end) {
  state_chunk out{.address = x.getAddress(),
                  .bytes = x.getBytes(),
                  .form = static_cast<chunk_form>(x.getForm()),
                  .stored = x.getStored(),
                  .offset = x.getOffset(),
                  .hash = x.getHash()};
  if (out.form > chunk_form::zstd)
    throw bad_index{"a chunk of an unknown form"};
  auto wanted = out.form == chunk_form::zero  ? 0
                : out.form == chunk_form::raw ? out.bytes
                                              : out.stored;
  if (out.bytes == 0 || out.bytes > state_chunk_bytes || out.stored != wanted ||
      out.stored > ZSTD_compressBound(out.bytes) || out.offset > chunks_end ||
      out.stored > chunks_end - out.offset ||
      (out.stored != 0 && out.offset < state_head_bytes) ||
      out.address + out.bytes < out.address)
    throw bad_index{"a chunk whose place is impossible"};
  return out;
}

std::vector<state_chunk> get_chunks(capnp::List<wire::StateChunk>::Reader from,
                                    std::uint64_t end) {
  std::vector<state_chunk> out;
  out.reserve(from.size());
  for (auto x : from)
    out.push_back(get(x, end));
  return out;
}

std::vector<std::uint64_t> get_words(capnp::Data::Reader from) {
  if (from.size() == 0 || from.size() % sizeof(std::uint64_t) != 0)
    throw bad_index{"a call of " + std::to_string(from.size()) + " bytes"};
  std::vector<std::uint64_t> out(from.size() / sizeof(std::uint64_t));
  std::memcpy(out.data(), from.begin(), from.size());
  return out;
}

state_image get_image(wire::StateImage::Reader x, std::uint64_t end) {
  state_image out{.digest = {x.getDigestLow(), x.getDigestHigh()},
                  .bytes = x.getBytes(),
                  .chunks = get_chunks(x.getChunks(), end)};
  std::uint64_t at = 0;
  for (auto& part : out.chunks) {
    if (part.address != at)
      throw bad_index{"an image with a gap"};
    at += part.bytes;
  }
  if (at != out.bytes)
    throw bad_index{"an image that is not whole"};
  return out;
}

state_placed get_placed(wire::PlacedMemory::Reader x, std::uint64_t end) {
  state_placed out{.device = x.getDevice(),
                   .memory = {x.getMemory()},
                   .chunks = get_chunks(x.getChunks(), end)};
  std::uint64_t at = 0;
  for (auto& part : out.chunks) {
    if (part.address < at)
      throw bad_index{"chunks of placed memory that are not in order"};
    at = part.address + part.bytes;
  }
  return out;
}

state_lent get_lent(wire::LentMemory::Reader x) {
  state_lent out{x.getDevice(), x.getAddress(), x.getBytes()};
  if (out.bytes == 0 || out.bytes > window_bytes ||
      out.bytes % granule_bytes != 0 || out.address % granule_bytes != 0 ||
      device_at(out.address) != out.device)
    throw bad_index{"lent memory that is not whole granules"};
  return out;
}

state_index get(wire::State::Reader x, std::uint64_t end) {
  state_index out;
  out.position = x.getPosition();
  out.calls = x.getCalls();
  auto consoles = x.getConsoles();
  for (unsigned i = 0;
       i < std::min<std::size_t>(consoles.size(), out.consoles.size()); ++i)
    out.consoles[i] = consoles[i];
  out.devices = x.getDevices();
  if (out.position % sizeof(std::uint64_t) != 0)
    throw bad_index{"its position is not the beginning of a call"};
  for (auto image : x.getImages())
    out.images.push_back(get_image(image, end));
  std::uint64_t last = 0;
  for (auto living : x.getLiving()) {
    auto number = living.getNumber();
    if (number >= out.position || (!out.living.empty() && number <= last))
      throw bad_index{"calls that are not in order"};
    last = number;
    out.living.emplace_back(number, get_words(living.getMessage()));
  }
  for (auto y : x.getGlobals())
    out.globals.push_back({y.getDevice(),
                           {y.getModule()},
                           y.getName().cStr(),
                           y.getAddress(),
                           y.getBytes()});
  out.memory = get_chunks(x.getMemory(), end);
  for (auto y : x.getPlaced())
    out.placed.push_back(get_placed(y, end));
  for (auto y : x.getLent())
    out.lent.push_back(get_lent(y));
  for (auto y : x.getEvents())
    out.events.emplace_back(
        y.getDevice(),
        event_time{{y.getEvent()}, y.getMilliseconds(), y.getTimed()});
  return out;
}

} // namespace

fault damaged_state(const std::string& what) {
  return {fault_kind::corrupt,
          "a vGPU's state is damaged: " + what + "; it cannot be used"};
}

std::vector<std::uint64_t> encode_index(const state_index& x) {
  capnp::MallocMessageBuilder message;
  put(message.initRoot<wire::State>(), x);
  auto flat = capnp::messageToFlatArray(message);
  std::vector<std::uint64_t> out(flat.size());
  std::memcpy(out.data(), flat.begin(), out.size() * sizeof(out[0]));
  return out;
}

result<state_index> decode_index(std::span<const std::uint64_t> words,
                                 std::uint64_t chunks_end) {
  try {
    capnp::ReaderOptions limits;
    limits.traversalLimitInWords = 4 * words.size() + 64;
    limits.nestingLimit = 8;
    capnp::FlatArrayMessageReader message{
        {reinterpret_cast<const capnp::word*>(words.data()), words.size()},
        limits};
    return get(message.getRoot<wire::State>(), chunks_end);
  } catch (const bad_index& x) {
    return damaged_state(x.what);
  } catch (const kj::Exception& x) {
    return damaged_state(x.getDescription().cStr());
  }
}

} // namespace vgpu
