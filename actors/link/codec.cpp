#include "actors/link/codec.hpp"

#include "schema/wire/message_codec.hpp"
#include "schema/wire/wire.capnp.h"

#include <kj/exception.h>

#include <array>
#include <exception>
#include <tuple>
#include <utility>

namespace vgpu::control {

namespace {

/// Bounds the contents of a peer's message.
constexpr wire_codec::bounds most{.longest_text = 16'384,
                                  .longest_list = 65'536};
constexpr wire_codec::bounds most_of_name{.longest_text = 256};

constexpr auto message_count = std::tuple_size_v<decltype(messages)>;
static_assert(message_count == std::variant_size_v<body>);

body read_body(wire::Envelope::Reader from) {
  auto out = wire_codec::read_one_of<body>(from, messages, most, largest_frame);
  if (!out)
    throw wire_codec::bad_value{
        "a kind of message (" +
        std::to_string(static_cast<unsigned>(from.which())) +
        ") that this version does not know"};
  return std::move(*out);
}

} // namespace

const char* name_of(const body& what) noexcept {
  static constexpr auto names = std::apply(
      [](const auto&... row) { return std::tuple{row.name...}; }, messages);
  static constexpr auto pointers = std::apply(
      [](const auto&... name) {
        return std::array<const char*, message_count>{name.data()...};
      },
      names);
  return pointers[what.index()];
}

const senders& senders_of(const body& what) noexcept {
  static constexpr auto rows = std::apply(
      [](const auto&... row) {
        return std::array<senders, message_count>{row.may_say...};
      },
      messages);
  return rows[what.index()];
}

bool is_order(const body& what) noexcept {
  static constexpr auto rows = std::apply(
      [](const auto&... row) {
        return std::array<bool, message_count>{row.is_order...};
      },
      messages);
  return rows[what.index()];
}

bool may_say(role as, const body& what) noexcept {
  return senders_of(what).has(as);
}

zmq::message_t encode(const envelope& what) {
  capnp::word scratch[128] = {};
  capnp::MallocMessageBuilder message{scratch};
  auto to = message.initRoot<wire::Envelope>();
  to.setFrom(wire_codec::to_kj(what.from));
  to.setRequest(what.request);
  to.setVersion(what.version);
  wire_codec::write_one_of(to, messages, what.body);
  return to_frame(message);
}

std::variant<envelope, unreadable> decode(const parcel& in) {
  std::uint64_t request = 0;
  try {
    if (in.words().size() == 0)
      return unreadable{"a frame that holds no message"};
    if (in.bulk().size() != 0)
      return unreadable{"a payload where none belongs"};
    capnp::FlatArrayMessageReader reader{in.words(), read_limits(in)};
    auto from = reader.getRoot<wire::Envelope>();
    request = from.getRequest();
    return envelope{wire_codec::to_text(from.getFrom(), most_of_name), request,
                    read_body(from), from.getVersion()};
  } catch (const kj::Exception& e) {
    return unreadable{e.getDescription().cStr(), request};
  } catch (const std::exception& e) {
    return unreadable{e.what(), request};
  }
}

} // namespace vgpu::control
