// Snapshots that travel: which parts of them are sent, and that only a complete
// one is ever a state.
#include "tests/unit/actors/worker_elsewhere.hpp"

#include "actors/state/snapshot_inflow.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

#include <deque>
#include <functional>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace {

unique_fd another(const unique_fd& file) {
  return unique_fd{::dup(file.get())};
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
