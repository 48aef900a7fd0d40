// One end of the data plane's connection, played by the test. The other is a
// real client or worker.
#pragma once

#include "actors/link/data_head.hpp"
#include "actors/link/link_socket.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace vgpu::test {

/// Sends and receives for session 1. It sends to the peer it received from
/// last.
class talker {
public:
  talker(zmq::context_t& zmq, link_options::form as, std::string endpoint,
         std::shared_ptr<const link_keys> keys = nullptr)
      : binds_(as == link_options::form::bind),
        socket_(zmq, options(as, std::move(endpoint), std::move(keys))) {}

  /// Connects to a sealed port, and waits for the connection, because a sealed
  /// message is sent once.
  talker(zmq::context_t& zmq, std::string endpoint, const sealed_way& way)
      : binds_(false), socket_(zmq, sealed(std::move(endpoint), way)) {
    BOOST_REQUIRE(comes_up());
  }

  struct heard {
    data::head head;
    parcel_ptr in;
  };

  std::string endpoint() const { return socket_.endpoint(); }
  std::uint16_t port() const {
    auto where = endpoint();
    return static_cast<std::uint16_t>(
        std::stoul(where.substr(where.rfind(':') + 1)));
  }

  void say(data::body what, std::span<const std::byte> payload = {},
           std::uint64_t epoch = 1) {
    BOOST_REQUIRE(reaches(std::move(what), payload, epoch));
  }

  /// Like say(), but returns false if the peer is gone.
  bool reaches(data::body what, std::span<const std::byte> payload = {},
               std::uint64_t epoch = 1) {
    auto words = data::encode({{1}, {epoch}, std::move(what)});
    auto owner = std::make_shared<std::vector<std::byte>>(payload.begin(),
                                                          payload.end());
    dispatch out;
    out.peer = peer_;
    put_frames(out, words, *owner, owner);
    auto sent = link_socket::sent::gone;
    for (auto until = clock::now() + patience; clock::now() < until;) {
      (void)socket_.connection_changes();
      sent = socket_.send(out);
      if (sent == link_socket::sent::yes ||
          (binds_ && sent == link_socket::sent::gone))
        break;
    }
    return sent == link_socket::sent::yes;
  }

  /// Returns the next message, if one arrives in time.
  std::optional<heard> hear(std::chrono::milliseconds at_most = patience) {
    for (auto until = clock::now() + at_most;;) {
      (void)socket_.connection_changes();
      if (auto in = socket_.receive()) {
        auto words = in->words();
        auto head =
            data::decode({reinterpret_cast<const std::uint64_t*>(words.begin()),
                          words.size()});
        BOOST_REQUIRE(head.ok());
        peer_ = in->peer();
        return heard{std::move(*head), in};
      }
      if (clock::now() >= until)
        return std::nullopt;
      std::vector<pollfd> items;
      socket_.add_to(items);
      if (!socket_.overlooked())
        ::poll(items.data(), items.size(), 10);
    }
  }

  /// Returns the next message of this kind.
  template <class Body>
  Body next() {
    while (auto x = hear())
      if (auto* found = std::get_if<Body>(&x->head.body))
        return *found;
    BOOST_FAIL("the other end did not send the expected message");
    return {};
  }

private:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds patience{120'000};

  static link_options options(link_options::form as, std::string endpoint,
                              std::shared_ptr<const link_keys> keys) {
    link_options out;
    out.keys = std::move(keys);
    out.as = as;
    out.endpoint = std::move(endpoint);
    out.name = "talker";
    return out;
  }
  static link_options sealed(std::string endpoint, const sealed_way& way) {
    auto out =
        options(link_options::form::connect, std::move(endpoint), nullptr);
    out.sealed = way;
    return out;
  }

  bool comes_up() {
    for (auto until = clock::now() + patience; clock::now() < until;) {
      for (const auto& x : socket_.connection_changes())
        if (x.what == link_event::kind::up)
          return true;
      (void)socket_.sleep(-1, true);
    }
    return false;
  }

  bool binds_;
  link_socket socket_;
  std::string peer_;
};

} // namespace vgpu::test
