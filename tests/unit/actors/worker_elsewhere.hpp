// A worker on another host that the test plays, and what it keeps of its
// session's memory.
#pragma once

#include "tests/unit/actors/data_plane_fixture.hpp"
#include "tests/unit/actors/talker.hpp"

#include "actors/state/state_file.hpp"
#include "actors/state/state_transfer.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace vgpu::test {

inline constexpr auto piece_bytes = state_chunk_bytes;

inline std::vector<std::byte> noise_of(unsigned seed) {
  std::mt19937_64 random{seed};
  std::vector<std::byte> out(piece_bytes);
  for (std::size_t i = 0; i < out.size(); i += 8) {
    auto word = random();
    std::memcpy(out.data() + i, &word, 8);
  }
  return out;
}

/// A worker's file with the snapshots that it keeps.
struct kept_file {
  unique_fd file = std::move(*make_state_memory());
  std::vector<state_chunk> pieces;
  std::uint64_t bytes = 0;

  /// `shift` is the place of the worker's first piece in the file.
  explicit kept_file(std::size_t count, std::uint64_t shift = 0) {
    for (std::size_t i = 0; i < count; ++i) {
      pieces.push_back({.address = first_window + i * piece_bytes,
                        .bytes = static_cast<std::uint32_t>(piece_bytes),
                        .offset = (i + 1) * piece_bytes + shift});
      set(i, static_cast<unsigned>(i + 1));
    }
  }

  /// Fills a piece with noise, or with zeros if the seed is 0.
  void set(std::size_t i, unsigned seed) {
    auto bytes_of =
        seed == 0 ? std::vector<std::byte>(piece_bytes) : noise_of(seed);
    BOOST_REQUIRE(store_contents(file.get(), pieces[i], bytes_of).ok());
  }

  void finish(std::uint64_t position = 8) {
    auto end = pieces.back().offset + piece_bytes;
    BOOST_REQUIRE(begin_state(file.get(), end).ok());
    state_index index;
    index.position = position;
    index.memory = pieces;
    bytes = *state_writer{file.get(), false, end}.finish(index);
  }
};

/// Checks all contents of a state, and returns its index.
inline state_index whole_index(int file) {
  auto state = state_reader::open(file);
  BOOST_REQUIRE(state.ok());
  each_chunk(state->index(), [&](auto& x) {
    std::vector<std::byte> into(x.bytes);
    BOOST_TEST(state->read(x, into).ok());
  });
  return state->index();
}

/// Returns the bytes of a head, an index and `count` pieces.
inline std::uint64_t with(const kept_file& x, std::size_t count) {
  auto index = x.bytes - x.pieces.back().offset - piece_bytes;
  return state_head_bytes + index + count * piece_bytes;
}

/// Returns how many bytes travelled in addition to those of with().
inline std::uint64_t more_than(std::uint64_t travelled, const kept_file& x,
                               std::size_t count) {
  return travelled - with(x, count);
}

/// A worker on another host that does what the test says.
class acted_worker_elsewhere {
public:
  explicit acted_worker_elsewhere(zmq::context_t& zmq)
      : talker_{zmq, link_options::form::bind, "tcp://127.0.0.1:*"} {}

  running_worker where() const {
    return {{talker_.endpoint(), "", "elsewhere"}, {}, {}};
  }

  /// Returns the next message of this kind. Meanwhile it answers keepalives,
  /// and sends the first `parts` requested parts of its file.
  template <class Body>
  std::optional<Body> next(std::uint64_t epoch, std::uint64_t parts = ~0ull) {
    for (auto until = std::chrono::steady_clock::now() + 120s;
         std::chrono::steady_clock::now() < until;) {
      auto got = talker_.hear(100ms);
      if (!got || got->head.epoch.value != epoch)
        continue;
      const auto& body = got->head.body;
      if (auto* x = std::get_if<Body>(&body))
        return *x;
      // A killed client may have sent this before its end.
      if (std::holds_alternative<data::keepalive>(body))
        (void)talker_.reaches(
            data::progress{.received = tail, .executed = tail}, {}, epoch);
      if (auto* x = std::get_if<data::state_wanted>(&body)) {
        if (parts-- == 0)
          return std::nullopt;
        send_part(epoch, *x);
      }
    }
    BOOST_ERROR("the client did not send the expected message");
    return std::nullopt;
  }

  void say(std::uint64_t epoch, data::body what,
           std::span<const std::byte> payload = {}) {
    talker_.say(std::move(what), payload, epoch);
  }

  /// Serves a client that shows its lease. Returns the call number of the state
  /// that the client asks it to restore.
  std::uint64_t take_client(std::uint64_t epoch) {
    for (;;) {
      auto hello = next<data::attach>(epoch);
      BOOST_REQUIRE(hello.has_value());
      if (talker_.reaches(data::attached{{.received = tail, .executed = tail}},
                          {}, epoch))
        return hello->restore;
    }
  }

  /// Answers an order for a snapshot and sends its file. Returns the bytes that
  /// were sent.
  std::uint64_t give_snapshot(std::uint64_t epoch,
                              std::uint64_t parts = ~0ull) {
    answer_order(epoch, true);
    BOOST_TEST(next<data::go_on>(epoch, parts).has_value() == (parts == ~0ull));
    return sent_;
  }

  /// Answers the order for the state with which the session leaves, and sends
  /// its file. Returns the bytes that were sent.
  std::uint64_t give_rest(std::uint64_t epoch) {
    answer_order(epoch, false);
    BOOST_TEST(next<data::detach>(epoch).has_value());
    return sent_;
  }

  kept_file file{6};
  std::uint64_t tail = 0; // its position in the log
  bool copies_ahead = false;

private:
  void answer_order(std::uint64_t epoch, bool goes_on) {
    auto order = next<data::checkpoint>(epoch);
    BOOST_REQUIRE(order.has_value());
    BOOST_TEST(order->go_on == goes_on);
    BOOST_TEST(!order->compress);
    if (copies_ahead)
      say(epoch, data::checkpointing{order->order,
                                     data::checkpointing::phase::copying});
    file.finish(tail);
    sent_ = 0;
    say(epoch, data::checkpointed{.position = tail,
                                  .bytes = file.bytes,
                                  .order = order->order});
  }

  void send_part(std::uint64_t epoch, const data::state_wanted& x) {
    auto part = part_of_state(file.file.get(), file.bytes, x);
    BOOST_REQUIRE(part);
    sent_ += part->size();
    say(epoch, data::state_part{x.from}, *part);
  }

  talker talker_;
  std::uint64_t sent_ = 0;
};

struct elsewhere : world {
  acted_worker_elsewhere worker{zmq};

  /// The worker speaks only when the test does, and a busy machine may stop
  /// both for a while. A fence waits for `term`.
  explicit elsewhere(control::protection level = control::protection::snapshot,
                     std::chrono::milliseconds term = 3s,
                     std::chrono::milliseconds part_within = 60s) {
    lease_term = term;
    state_part_within = part_within;
    protect = level;
    connect(transport::forwarded);
    lease(1, worker.where());
    worker.take_client(1);
  }

  /// Appends a call for the next snapshot to cover.
  void call() {
    append(call::device_sync{});
    worker.tail = area.header().tail.load();
  }

  auto covered() {
    return await("the snapshot covers every call",
                 [&] { return area.header().covered.load() == worker.tail; });
  }

  const state_index newest() {
    return whole_index(places.at(area.header().newest.load() - 1));
  }
};

} // namespace vgpu::test
