// Snapshots that travel: which parts of them are sent, and that only a complete
// one is ever a state.
#include "tests/unit/actors/data_plane_fixture.hpp"
#include "tests/unit/actors/talker.hpp"

#include "actors/state/snapshot_inflow.hpp"
#include "actors/state/state_file.hpp"
#include "actors/state/state_transfer.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

#include <deque>
#include <functional>
#include <random>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace {

constexpr auto piece_bytes = state_chunk_bytes;

std::vector<std::byte> noise_of(unsigned seed) {
  std::mt19937_64 random{seed};
  std::vector<std::byte> out(piece_bytes);
  for (std::size_t i = 0; i < out.size(); i += 8) {
    auto word = random();
    std::memcpy(out.data() + i, &word, 8);
  }
  return out;
}

unique_fd another(const unique_fd& file) {
  return unique_fd{::dup(file.get())};
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
state_index whole_index(int file) {
  auto state = state_reader::open(file);
  BOOST_REQUIRE(state.ok());
  each_chunk(state->index(), [&](auto& x) {
    std::vector<std::byte> into(x.bytes);
    BOOST_TEST(state->read(x, into).ok());
  });
  return state->index();
}

/// The parts that were requested and have not arrived.
using asked = std::deque<data::state_wanted>;

/// Sends the requested parts of `from`, at most `most`.
status bring(snapshot_inflow& to, const kept_file& from,
             std::size_t most = ~std::size_t{0},
             const std::function<void(std::vector<std::byte>&)>& change = {}) {
  for (asked under_way; !to.complete();) {
    while (auto x = to.want())
      under_way.push_back(*x);
    if (!under_way.empty()) {
      if (most-- == 0)
        return {};
      auto x = under_way.front();
      under_way.pop_front();
      auto part = part_of_state(from.file.get(), from.bytes, x);
      BOOST_REQUIRE(part);
      auto bytes = *part;
      if (change)
        change(bytes);
      if (auto ok = to.take(x.from, bytes); !ok)
        return ok;
    } else {
      BOOST_REQUIRE(to.works());
    }
    if (auto ok = to.work(); !ok)
      return ok;
  }
  return {};
}

snapshot_inflow begin_inflow(const kept_file& from, const unique_fd& place,
                             const unique_fd& newest) {
  auto out =
      snapshot_inflow::begin(from.bytes, another(place), another(newest));
  BOOST_REQUIRE(out.ok());
  return std::move(*out);
}

/// Takes the whole snapshot. Returns where its bytes came from.
snapshot_inflow::account take_all(const kept_file& from, const unique_fd& place,
                                  const unique_fd& newest) {
  auto to = begin_inflow(from, place, newest);
  BOOST_TEST(!state_reader::open(place.get()).ok());
  auto ok = bring(to, from);
  BOOST_REQUIRE(ok.ok());
  auto index = whole_index(place.get());
  BOOST_REQUIRE(index.memory.size() == from.pieces.size());
  for (std::size_t i = 0; i < from.pieces.size(); ++i)
    BOOST_TEST(index.memory[i].hash == from.pieces[i].hash);
  return to.bytes();
}

/// Returns the bytes of a head, an index and `count` pieces.
std::uint64_t with(const kept_file& x, std::size_t count) {
  auto index = x.bytes - x.pieces.back().offset - piece_bytes;
  return state_head_bytes + index + count * piece_bytes;
}

/// Returns how many bytes travelled in addition to those of with().
std::uint64_t more_than(std::uint64_t travelled, const kept_file& x,
                        std::size_t count) {
  return travelled - with(x, count);
}

struct two_places {
  unique_fd first = std::move(*make_state_memory());
  unique_fd second = std::move(*make_state_memory());
  kept_file worker{6};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(travelling_snapshots, two_places)

BOOST_AUTO_TEST_CASE(only_changed_pieces_travel) {
  worker.finish();
  auto bytes = take_all(worker, first, unique_fd{});
  BOOST_TEST(bytes.travelled == with(worker, 6));
  // The second place is empty, but the newest snapshot can be copied.
  worker.set(2, 22);
  worker.finish();
  bytes = take_all(worker, second, first);
  BOOST_TEST(bytes.travelled == with(worker, 1));
  BOOST_TEST(bytes.copied == 5 * piece_bytes);
  // Pieces that changed since this place's own snapshot are copied from the
  // newest one or sent. The other pieces stay.
  worker.set(4, 44);
  worker.finish();
  bytes = take_all(worker, first, second);
  BOOST_TEST(bytes.travelled == with(worker, 1));
  BOOST_TEST(bytes.copied == piece_bytes);
  BOOST_TEST(bytes.stayed == 4 * piece_bytes);
  worker.finish();
  bytes = take_all(worker, second, first);
  BOOST_TEST(bytes.travelled == with(worker, 0));
}

BOOST_AUTO_TEST_CASE(after_an_interrupted_snapshot_the_next_is_whole) {
  worker.finish();
  take_all(worker, first, unique_fd{});
  take_all(worker, second, first);
  for (std::size_t i = 0; i < worker.pieces.size(); ++i)
    worker.set(i, static_cast<unsigned>(100 + i));
  worker.finish();
  // The worker is lost after the head, the index or some of the contents.
  for (std::size_t parts : {0u, 1u, 2u, 5u}) {
    auto to = begin_inflow(worker, first, second);
    BOOST_TEST(bring(to, worker, parts).ok());
    BOOST_TEST(!state_reader::open(first.get()).ok());
    whole_index(second.get());
  }
  // The next worker's pieces have other places, and three equal those of the
  // newest snapshot.
  kept_file next{6, 8192};
  for (std::size_t i = 3; i < 6; ++i)
    next.set(i, static_cast<unsigned>(100 + i));
  next.finish();
  auto bytes = take_all(next, first, second);
  BOOST_TEST(bytes.travelled == with(next, 3));
  BOOST_TEST(bytes.copied == 3 * piece_bytes);
}

BOOST_AUTO_TEST_CASE(pieces_that_become_zero_take_no_memory) {
  auto pages = [&] {
    struct stat info {};
    BOOST_REQUIRE(::fstat(first.get(), &info) == 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  };
  worker.finish();
  take_all(worker, first, unique_fd{});
  BOOST_TEST(pages() >= 6 * piece_bytes);
  for (std::size_t i : {1u, 2u, 5u})
    worker.set(i, 0);
  worker.finish();
  auto bytes = take_all(worker, first, unique_fd{});
  BOOST_TEST(bytes.travelled == with(worker, 0));
  BOOST_TEST(pages() < 3 * piece_bytes + 65536);
}

BOOST_AUTO_TEST_CASE(small_pieces_travel_together) {
  state_writer to{worker.file.get(), false};
  state_index index;
  std::vector<std::byte> word(256, std::byte{1});
  for (unsigned i = 0; i < 1000; ++i) {
    word[0] = static_cast<std::byte>(i);
    word[1] = static_cast<std::byte>(i >> 8);
    index.memory.push_back(*to.add(first_window + i * 512, word));
  }
  worker.bytes = *to.finish(index);
  auto inflow = begin_inflow(worker, first, unique_fd{});
  auto parts = 0;
  BOOST_TEST(bring(inflow, worker, 1000, [&](auto&) { ++parts; }).ok());
  BOOST_TEST(parts == 3);
  BOOST_TEST(whole_index(first.get()).memory.size() == 1000u);
}

BOOST_AUTO_TEST_CASE(compressed_pieces_travel_as_they_are) {
  state_writer to{worker.file.get(), true};
  state_index index;
  std::vector<std::byte> same(piece_bytes, std::byte{9});
  index.memory.push_back(*to.add(first_window, same));
  index.memory.push_back(*to.add(first_window + piece_bytes, noise_of(7)));
  BOOST_REQUIRE((index.memory[0].form == chunk_form::zstd));
  worker.bytes = *to.finish(index);
  for (auto* place : {&first, &second}) {
    auto inflow = begin_inflow(worker, *place, first);
    BOOST_TEST(bring(inflow, worker).ok());
    whole_index(place->get());
    BOOST_TEST((inflow.bytes().copied != 0) == (place == &second));
  }
}

BOOST_AUTO_TEST_CASE(a_piece_that_the_program_damaged_is_sent_again) {
  worker.finish();
  take_all(worker, first, unique_fd{});
  auto at = static_cast<off_t>(worker.pieces[3].offset + 77);
  BOOST_REQUIRE(::pwrite(first.get(), "x", 1, at) == 1);
  auto bytes = take_all(worker, second, first);
  BOOST_TEST(bytes.travelled == with(worker, 1));
  BOOST_TEST(bytes.copied == 5 * piece_bytes);
}

BOOST_AUTO_TEST_CASE(every_flipped_bit_ends_the_snapshot) {
  worker.pieces.resize(2);
  worker.finish();
  std::mt19937 random{4};
  for (int round = 0; round < 200; ++round) {
    auto to = begin_inflow(worker, first, unique_fd{});
    auto at = random() % 4;
    auto ok = bring(to, worker, ~std::size_t{0}, [&](auto& bytes) {
      if (at-- == 0)
        bytes[random() % bytes.size()] ^=
            static_cast<std::byte>(1 << random() % 8);
    });
    BOOST_TEST(!ok.ok());
    BOOST_TEST(!state_reader::open(first.get()).ok());
  }
}

BOOST_AUTO_TEST_CASE(parts_that_were_not_requested_are_dropped) {
  for (std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{63},
                              std::uint64_t{1} << 60, ~std::uint64_t{0}})
    BOOST_TEST(!snapshot_inflow::begin(bytes, another(first), {}).ok());
  worker.finish();
  auto to = begin_inflow(worker, first, unique_fd{});
  std::vector<std::byte> junk(piece_bytes, std::byte{0xaa});
  auto throw_junk = [&](auto&) {
    for (std::uint64_t from :
         {std::uint64_t{0}, std::uint64_t{64}, piece_bytes, ~std::uint64_t{0}})
      for (std::size_t size : {std::size_t{0}, std::size_t{8}, piece_bytes - 1})
        BOOST_TEST(to.take(from, std::span{junk}.first(size)).ok());
  };
  BOOST_TEST(bring(to, worker, ~std::size_t{0}, throw_junk).ok());
  whole_index(first.get());
  // Parts that arrive after the end are dropped as well.
  BOOST_TEST(to.take(0, junk).ok());
  whole_index(first.get());
}

/// The index has the right checksums, but impossible places.
BOOST_AUTO_TEST_CASE(an_index_that_names_impossible_places_is_refused) {
  struct {
    std::uint64_t offset;
    std::uint32_t stored;
  } places[] = {{0, 4096},     {63, 4096},           {1 << 20, 4096},
                {~0ull, 4096}, {~0ull - 4095, 4096}, {4096, 0},
                {4096, 4095}};
  for (auto [offset, stored] : places) {
    state_index index;
    index.memory.push_back({.address = first_window,
                            .bytes = 4096,
                            .form = chunk_form::raw,
                            .stored = stored,
                            .offset = offset});
    BOOST_REQUIRE(begin_state(worker.file.get(), 0).ok());
    worker.bytes = *state_writer{worker.file.get(), false, 8192}.finish(index);
    auto to = begin_inflow(worker, first, unique_fd{});
    BOOST_TEST(!bring(to, worker).ok());
    BOOST_TEST(!state_reader::open(first.get()).ok());
  }
}

BOOST_AUTO_TEST_SUITE_END()

// -- the client

namespace {

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

  explicit elsewhere(
      control::protection level = control::protection::snapshot,
      std::optional<std::chrono::milliseconds> term = std::nullopt) {
    lease_term = term.value_or(lease_term);
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

} // namespace

BOOST_FIXTURE_TEST_SUITE(clients_of_workers_elsewhere, elsewhere)

BOOST_AUTO_TEST_CASE(a_second_snapshot_sends_changed_pieces_alone) {
  call();
  BOOST_TEST(more_than(worker.give_snapshot(1), worker.file, 6) == 0u);
  BOOST_TEST(covered());
  for (unsigned round = 0; round < 4; ++round) {
    call();
    worker.file.set(round, 50 + round);
    BOOST_TEST(more_than(worker.give_snapshot(1), worker.file, 1) == 0u);
    BOOST_TEST(covered());
    BOOST_TEST(newest().memory[round].hash == worker.file.pieces[round].hash);
  }
}

/// A device whose memory is copied ahead needs the former file for the next
/// snapshot.
BOOST_AUTO_TEST_CASE(the_former_snapshot_is_kept_where_the_next_uses_it) {
  auto former_is_kept = [&](bool ahead) {
    call();
    worker.copies_ahead = ahead;
    worker.give_snapshot(1);
    auto counts = covered();
    BOOST_TEST(counts);
    auto former = places.at(2 - area.header().newest.load());
    // The client publishes `covered` before it gives the former back.
    return await("the former snapshot is kept or freed, as expected",
                 [&] { return (::lseek(former, 0, SEEK_END) != 0) == ahead; });
  };
  BOOST_TEST(former_is_kept(false));
  BOOST_TEST(former_is_kept(true));
  BOOST_TEST(former_is_kept(true));
  BOOST_TEST(former_is_kept(false));
}

BOOST_AUTO_TEST_CASE(a_worker_lost_half_way_leaves_the_former_snapshot) {
  call();
  worker.give_snapshot(1);
  BOOST_TEST(covered());
  auto position = worker.tail;
  auto bytes = worker.file.bytes;
  auto hash = worker.file.pieces[5].hash;
  call();
  for (unsigned i = 0; i < 6; ++i)
    worker.file.set(i, 60 + i);
  // The head, the index and two pieces have arrived.
  worker.give_snapshot(1, 4);
  acted_worker_elsewhere next{zmq};
  next.tail = worker.tail;
  lease(2, next.where());
  BOOST_TEST(next.take_client(2) == bytes);
  BOOST_TEST(area.header().covered.load() == position);
  BOOST_TEST(newest().memory[5].hash == hash);
  // The next snapshot is whole, whatever the interrupted one left in the file.
  call();
  next.tail = worker.tail;
  next.file = kept_file{6, 8192};
  next.file.set(0, 60);
  worker.tail = next.tail;
  BOOST_TEST(more_than(next.give_snapshot(2), next.file, 1) == 0u);
  BOOST_TEST(covered());
  BOOST_TEST(newest().memory[0].hash == next.file.pieces[0].hash);
}

BOOST_AUTO_TEST_CASE(the_next_client_fetches_changed_pieces_alone) {
  call();
  worker.give_snapshot(1);
  BOOST_TEST(covered());
  kill_client();
  connect(transport::forwarded, true);
  lease(1, worker.where());
  worker.take_client(1);
  call();
  worker.file.set(3, 70);
  BOOST_TEST(more_than(worker.give_snapshot(1), worker.file, 1) == 0u);
  BOOST_TEST(covered());
}

BOOST_AUTO_TEST_SUITE_END()

// -- a session that leaves

namespace {

struct leaves_elsewhere : elsewhere {
  // This worker is silent while it writes its file.
  leaves_elsewhere() : elsewhere(control::protection::none, 60s) {
    call();
    // From here on the client takes orders.
    BOOST_TEST(worker.next<data::calls>(1).has_value());
  }

  /// Changes so many pieces, each time to something else.
  void change(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      worker.file.set(i, ++seed_);
  }

  /// Restores the state in the next worker. Returns the bytes that it got.
  std::uint64_t restore_elsewhere() {
    talker next{zmq, link_options::form::bind, "tcp://127.0.0.1:*"};
    lease(2, {{next.endpoint(), "", "elsewhere"}, {}, {}});
    data::attach hello;
    do
      hello = next.next<data::attach>();
    while (hello.restore == 0);
    auto to = snapshot_inflow::begin(hello.restore,
                                     std::move(*make_state_memory()), {});
    BOOST_REQUIRE(to.ok());
    while (!to->complete()) {
      while (auto x = to->want())
        next.say(*x, {}, 2);
      if (!to->works()) {
        auto got = next.hear();
        BOOST_REQUIRE(got.has_value());
        if (auto* x = std::get_if<data::state_part>(&got->head.body))
          BOOST_REQUIRE(to->take(x->from, got->in->bulk()).ok());
      }
      BOOST_REQUIRE(to->work().ok());
    }
    auto index = whole_index(to->file());
    BOOST_TEST(index.position == worker.tail);
    for (std::size_t i = 0; i < worker.file.pieces.size(); ++i)
      BOOST_TEST(index.memory[i].hash == worker.file.pieces[i].hash);
    next.say(data::attached{{.received = worker.tail, .executed = worker.tail}},
             {}, 2);
    return to->bytes().travelled;
  }

  /// Returns the text of the event about what travelled.
  std::string copied() {
    std::string out;
    BOOST_TEST(in.wait([&] {
      return in.has<control::event>([&](auto& x) {
        out = x.text;
        return x.kind == "session-copied";
      });
    }));
    return out;
  }

private:
  unsigned seed_ = 1000;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(sessions_that_leave_workers_elsewhere,
                         leaves_elsewhere)

BOOST_AUTO_TEST_CASE(a_session_stands_still_for_what_changed_alone) {
  order_pause(1);
  auto ahead = worker.give_snapshot(1);
  BOOST_TEST(more_than(ahead, worker.file, 6) == 0u);
  call();
  change(1);
  auto rest = worker.give_rest(1);
  BOOST_TEST(more_than(rest, worker.file, 1) == 0u);
  BOOST_TEST(paused(1) == "");
  rest += restore_elsewhere();
  auto text = copied();
  BOOST_TEST(text.find(std::to_string(ahead) +
                       " bytes of its state travelled while "
                       "its calls went on, and " +
                       std::to_string(rest) + " bytes") != std::string::npos,
             text);
}

/// A round that is not small is followed by another one, as long as they
/// shrink.
BOOST_AUTO_TEST_CASE(rounds_go_on_while_they_shrink) {
  worker.file = kept_file{40};
  order_pause(1);
  for (auto count : {40u, 25u, 18u, 1u}) {
    if (count != 40)
      change(count);
    BOOST_TEST(more_than(worker.give_snapshot(1), worker.file, count) == 0u);
  }
  BOOST_TEST(more_than(worker.give_rest(1), worker.file, 0) == 0u);
  BOOST_TEST(paused(1) == "");
}

BOOST_AUTO_TEST_CASE(a_session_that_changes_all_its_memory_leaves_as_well) {
  worker.file = kept_file{20};
  order_pause(1);
  worker.give_snapshot(1);
  change(20);
  worker.give_snapshot(1);
  change(20);
  BOOST_TEST(more_than(worker.give_rest(1), worker.file, 20) == 0u);
  BOOST_TEST(paused(1) == "");
}

BOOST_AUTO_TEST_CASE(a_refused_copy_ends_the_move) {
  order_pause(1);
  BOOST_TEST(worker.next<data::checkpoint>(1).has_value());
  worker.say(1, data::not_checkpointed{"it has no room"});
  BOOST_TEST(worker.next<data::go_on>(1).has_value());
  BOOST_TEST(paused(1) == "it has no room");
}

BOOST_AUTO_TEST_CASE(the_state_of_a_session_that_sleeps_is_compressed) {
  order_pause(1, true);
  auto order = worker.next<data::checkpoint>(1);
  BOOST_REQUIRE(order.has_value());
  BOOST_TEST((!order->go_on && order->compress));
}

/// The session goes on where it was: nothing of it has left.
BOOST_AUTO_TEST_CASE(a_copy_that_is_damaged_on_its_way_ends_the_move) {
  order_pause(1);
  auto order = worker.next<data::checkpoint>(1);
  BOOST_REQUIRE(order.has_value());
  worker.file.finish(worker.tail);
  worker.say(1, data::checkpointed{.position = worker.tail,
                                   .bytes = worker.file.bytes,
                                   .order = order->order});
  auto head = worker.next<data::state_wanted>(1);
  BOOST_REQUIRE(head.has_value());
  std::vector<std::byte> noise(head->to - head->from);
  worker.say(1, data::state_part{head->from}, noise);
  BOOST_TEST(worker.next<data::go_on>(1).has_value());
  BOOST_TEST(paused(1) != "");
}

BOOST_AUTO_TEST_SUITE_END()
