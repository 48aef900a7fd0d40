// States that are copied while memory changes, into files that keep an earlier
// snapshot.
#include "actors/state/snapshot_base.hpp"
#include "actors/state/state_file.hpp"
#include "tests/unit/actors/session_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

using namespace vgpu;

namespace {

constexpr auto chunk = state_chunk_bytes;

snapshot_base::range whole(device_address at) {
  return {at, static_cast<std::uint32_t>(chunk)};
}

/// Returns the piece of a state that lies at an address.
state_chunk chunk_at(int file, device_address address) {
  auto state = state_reader::open(file);
  BOOST_REQUIRE(state.ok());
  for (auto& x : state->index().memory)
    if (x.address == address)
      return x;
  BOOST_FAIL("no contents at that address");
  return {};
}

/// Inverts a byte of a stored piece.
void scribble(int file, const state_chunk& x) {
  unsigned char byte = 0;
  auto at = static_cast<off_t>(x.offset + x.bytes - 1);
  BOOST_REQUIRE(::pread(file, &byte, 1, at) == 1);
  byte ^= 0xff;
  BOOST_REQUIRE(::pwrite(file, &byte, 1, at) == 1);
}

bool reads(int file, const state_chunk& x) {
  auto state = state_reader::open(file);
  BOOST_REQUIRE(state.ok());
  std::vector<std::byte> into(x.bytes);
  return state->read(x, into).ok();
}

/// Writes 1 to each granule of a session, and copies for a snapshot until it is
/// to stand still.
void copy_ones(a_session& it, int file) {
  it.allocate(it.at, it.granules * granule_bytes);
  for (auto i = 0u; i < it.granules; ++i)
    it.word(i) = 1;
  it.begin(file, true);
  it.copy();
}

} // namespace

BOOST_AUTO_TEST_SUITE(kept_files)

BOOST_AUTO_TEST_CASE(pieces_keep_their_places) {
  auto file = std::move(*make_state_memory());
  snapshot_base it{unique_fd{::dup(file.get())}};
  BOOST_REQUIRE(it.begin().ok());
  it.keep({whole(0), whole(chunk), {3 * chunk, 5000}, {4 * chunk, 300}});
  auto places = it.pieces();
  BOOST_TEST(places.size() == 4u);
  // Neighbours in memory are neighbours in the file.
  BOOST_TEST(places[0].chunk.offset % chunk == 0u);
  BOOST_TEST(places[chunk].chunk.offset == places[0].chunk.offset + chunk);
  BOOST_TEST(places[4 * chunk].chunk.offset ==
             places[3 * chunk].chunk.offset + 8192);
  it.note(places[chunk].chunk, 7);
  it.keep({whole(chunk), {3 * chunk, 300}, whole(9 * chunk)});
  auto& now = it.pieces();
  BOOST_TEST(now.size() == 3u);
  BOOST_TEST(now[chunk].mark == 7u);
  BOOST_TEST(now[chunk].chunk.offset == places[chunk].chunk.offset);
  // A piece of another size counts as new, and freed room is used again.
  BOOST_TEST(now[3 * chunk].mark == 0u);
  BOOST_TEST(now[9 * chunk].chunk.offset == places[0].chunk.offset);
  it.note(places[3 * chunk].chunk, 8); // this piece no longer exists
  BOOST_TEST(now[3 * chunk].mark == 0u);
  BOOST_TEST(it.is_of(file.get()));
  BOOST_TEST(!it.is_of(STDIN_FILENO));
  BOOST_REQUIRE(it.begin().ok());
  BOOST_TEST(it.is_whole());
  BOOST_REQUIRE(::ftruncate(file.get(), 0) == 0);
  BOOST_TEST(!it.is_whole());
}

BOOST_AUTO_TEST_CASE(a_piece_of_zeros_takes_no_memory) {
  auto file = std::move(*make_state_memory());
  std::vector<std::byte> bytes(chunk, std::byte{5});
  state_chunk x{.address = 0, .bytes = chunk, .offset = chunk};
  BOOST_REQUIRE(store_contents(file.get(), x, bytes).ok());
  BOOST_TEST((x.form == chunk_form::raw));
  BOOST_TEST(x.stored == chunk);
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  BOOST_REQUIRE(store_contents(file.get(), x, bytes).ok());
  BOOST_TEST((x.form == chunk_form::zero));
  BOOST_TEST(x.stored == 0u);
  struct stat info {};
  BOOST_REQUIRE(::fstat(file.get(), &info) == 0);
  BOOST_TEST(info.st_blocks == 0);
}

BOOST_AUTO_TEST_CASE(only_changed_pieces_are_written_again) {
  a_session it;
  it.allocate(it.at, it.granules * granule_bytes);
  for (auto i = 0u; i < it.granules - 1; ++i)
    it.word(i) = i + 1; // the last one stays zero
  auto first = std::move(*make_state_memory());
  auto second = std::move(*make_state_memory());
  it.take(first.get());
  it.word(3) = 333;
  it.take(second.get());
  auto same = chunk_at(first.get(), it.at + 4 * granule_bytes);
  scribble(first.get(), same);
  it.word(7) = 777;
  it.take(first.get());
  // An unchanged piece is not written, so it is still the inverted one. A piece
  // that changed since this file's own snapshot is written.
  BOOST_TEST(!reads(first.get(), same));
  scribble(first.get(), same);
  BOOST_TEST(reads(first.get(), same));
  auto wanted = it.memory();
  it.follow(first.get(), false);
  BOOST_TEST((it.memory() == wanted));
  BOOST_TEST(it.word(3) == 333u);
  BOOST_TEST(it.word(7) == 777u);
}

BOOST_AUTO_TEST_CASE(variables_behind_the_pieces_are_not_taken_over) {
  snapshot_base base{std::move(*make_state_memory())};
  state_index former;
  auto add = [&](device_address address, std::uint64_t offset) {
    former.memory.push_back({.address = address,
                             .bytes = static_cast<std::uint32_t>(chunk),
                             .form = chunk_form::raw,
                             .stored = static_cast<std::uint32_t>(chunk),
                             .offset = offset});
  };
  add(first_window, chunk);
  add(0x7000, 2 * chunk); // a variable, which lies there by chance
  base.take_over(former, [](auto& x) -> std::optional<std::uint64_t> {
    if (x.address < first_window)
      return std::nullopt;
    return 5;
  });
  BOOST_TEST(base.end() == 2 * chunk);
  BOOST_REQUIRE(base.pieces().size() == 1u);
  BOOST_TEST(base.pieces().at(first_window).mark == 5u);
  BOOST_TEST(base.place(chunk) == 2 * chunk);
}

/// A session whose worker took two snapshots, of which another one restored the
/// newest.
struct followed : a_session {
  unique_fd first = std::move(*make_state_memory());
  unique_fd second = std::move(*make_state_memory());

  followed() {
    allocate(at, granules * granule_bytes);
    for (auto i = 0u; i < granules - 1; ++i)
      word(i) = i + 1; // the last one stays zero
    take(first.get());
    word(3) = 333;
    word(4, 1) = 9;
    take(second.get());
    exec->forget_copies();
    follow(second.get(), {.snapshots = true});
  }
  /// Takes a snapshot into `file`, and says whether this piece was written.
  bool writes(const unique_fd& file, std::uint64_t granule) {
    auto before = chunk_at(file.get(), at + granule * granule_bytes);
    scribble(file.get(), before);
    take(file.get());
    auto now = chunk_at(file.get(), at + granule * granule_bytes);
    BOOST_TEST(now.offset == before.offset);
    auto written = reads(file.get(), now);
    if (!written)
      scribble(file.get(), now);
    return written;
  }
};

BOOST_FIXTURE_TEST_CASE(a_new_worker_writes_what_differs_from_a_former_ones,
                        followed) {
  word(7) = 777;
  BOOST_TEST(!writes(first, 5));
  // It differed from the state that was restored, or has changed since.
  for (auto granule : {3, 4, 7})
    BOOST_TEST(reads(first.get(),
                     chunk_at(first.get(), at + granule * granule_bytes)));
  auto wanted = memory();
  BOOST_TEST(!writes(second, 5));
  follow(first.get(), false);
  BOOST_TEST((memory() == wanted));
  follow(second.get(), false);
  BOOST_TEST((memory() == wanted));
}

BOOST_FIXTURE_TEST_CASE(what_changed_before_the_first_snapshot_is_written,
                        followed) {
  word(5) = 555;
  BOOST_TEST(writes(first, 5));
  word(5) = 556;
  BOOST_TEST(writes(second, 5));
  follow(second.get(), false);
  BOOST_TEST(word(5) == 556u);
}

BOOST_FIXTURE_TEST_CASE(memory_that_is_new_gets_places_of_its_own, followed) {
  call_it(call::mem_free{.address = at, .bytes = granules * granule_bytes});
  allocate(at, 2 * granules * granule_bytes);
  for (auto i = 0u; i < 2 * granules; ++i)
    word(i) = 1000 + i;
  take(first.get());
  auto wanted = memory(2 * granules * granule_bytes);
  follow(first.get(), false);
  BOOST_TEST((memory(2 * granules * granule_bytes) == wanted));
}

BOOST_FIXTURE_TEST_CASE(a_damaged_file_gets_everything, followed) {
  BOOST_REQUIRE(begin_state(first.get()).ok()); // without a head
  take(first.get());
  auto wanted = memory();
  follow(first.get(), false);
  BOOST_TEST((memory() == wanted));
}

BOOST_FIXTURE_TEST_CASE(a_worker_without_snapshots_writes_everything,
                        followed) {
  follow(second.get(), false);
  BOOST_TEST(writes(first, 5));
}

BOOST_AUTO_TEST_CASE(an_unfinished_file_is_not_a_state) {
  a_session it;
  it.allocate(it.at, 4 * granule_bytes);
  it.word(1) = 5;
  auto file = std::move(*make_state_memory());
  it.take(file.get());
  BOOST_TEST(state_reader::open(file.get()).ok());
  it.begin(file.get(), true);
  BOOST_TEST(!state_reader::open(file.get()).ok());
  it.copy();
  it.word(2) = 6;
  // The copy is abandoned half way, and the snapshot is taken again.
  it.exec->abandon_copy();
  BOOST_TEST(!state_reader::open(file.get()).ok());
  it.take(file.get());
  // A file that was cut is written completely.
  BOOST_REQUIRE(::ftruncate(file.get(), 0) == 0);
  it.word(3) = 7;
  it.take(file.get());
  auto wanted = it.memory(4 * granule_bytes);
  it.follow(file.get(), false);
  BOOST_TEST((it.memory(4 * granule_bytes) == wanted));
}

BOOST_AUTO_TEST_CASE(memory_may_be_freed_and_allocated_during_a_copy) {
  a_session it;
  it.allocate(it.at, 3 * granule_bytes);
  it.allocate(it.at + 8 * granule_bytes, 300);
  it.allocate(it.at + 8 * granule_bytes + 512, 400);
  it.word(0) = 1;
  it.word(8, 10) = 2;
  it.word(8, 130) = 3;
  auto file = std::move(*make_state_memory());
  it.begin(file.get(), true);
  it.call_it(call::mem_free{.address = it.at, .bytes = 3 * granule_bytes});
  it.copy();
  it.allocate(it.at + granule_bytes, 2 * granule_bytes + 8);
  it.word(1) = 4;
  it.word(3, 1) = 5;
  it.finish();
  it.follow(file.get(), true);
  BOOST_TEST(it.word(1) == 4u);
  BOOST_TEST(it.word(2) == 0u);
  BOOST_TEST(it.word(3, 1) == 5u);
  BOOST_TEST(it.word(8, 10) == 2u);
  BOOST_TEST(it.word(8, 130) == 3u);
}

BOOST_AUTO_TEST_CASE(changes_during_the_first_round_are_copied_again) {
  a_session it;
  it.allocate(it.at, it.granules * granule_bytes);
  auto file = std::move(*make_state_memory());
  auto has_contents = [&] {
    struct stat info {};
    return ::fstat(file.get(), &info) == 0 && info.st_blocks > 8;
  };
  for (auto i = 0u; i < it.granules; ++i)
    it.word(i) = 1;
  it.begin(file.get(), false);
  auto changed = false;
  it.copy([&] {
    if (changed || !has_contents())
      return;
    changed = true;
    for (auto i = 0u; i < it.granules; ++i)
      it.word(i) = 2;
  });
  BOOST_REQUIRE(changed);
  // All pieces changed, so finish() writes them over the nonsense.
  std::vector<char> nonsense(it.granules * granule_bytes, 'x');
  BOOST_REQUIRE(::pwrite(file.get(), nonsense.data(), nonsense.size(),
                         static_cast<off_t>(chunk)) ==
                static_cast<ssize_t>(nonsense.size()));
  it.finish();
  for (auto i = 0u; i < it.granules; ++i)
    BOOST_TEST(
        !reads(file.get(), chunk_at(file.get(), it.at + i * granule_bytes)));
}

BOOST_AUTO_TEST_CASE(a_session_goes_on_before_its_snapshot_is_complete) {
  a_session it;
  auto file = std::move(*make_state_memory());
  copy_ones(it, file.get());
  for (auto i = 0u; i < it.granules; ++i)
    it.word(i) = 2;
  it.finish([&] {
    BOOST_TEST(it.exec->keeps_copies());
    BOOST_TEST(!state_reader::open(file.get()).ok());
    for (auto i = 0u; i < it.granules; ++i)
      it.word(i) = 3;
    it.call_it(
        call::mem_free{.address = it.at, .bytes = it.granules * granule_bytes});
    it.allocate(it.at, granule_bytes);
    it.word(0) = 4;
  });
  BOOST_TEST(!it.exec->keeps_copies());
  // The next snapshot has what came after the first was described.
  auto later = std::move(*make_state_memory());
  it.take(later.get());
  it.follow(later.get(), false);
  BOOST_TEST(it.word(0) == 4u);
  it.follow(file.get(), false);
  for (auto i = 0u; i < it.granules; ++i)
    BOOST_TEST(it.word(i) == 2u);
}

BOOST_AUTO_TEST_CASE(only_a_snapshot_keeps_copies) {
  a_session it;
  it.allocate(it.at, it.granules * granule_bytes);
  it.word(3) = 1;
  auto file = std::move(*make_state_memory());
  it.begin(file.get(), false);
  it.copy();
  it.finish([&] { BOOST_TEST(!it.exec->keeps_copies()); });
}

BOOST_AUTO_TEST_CASE(a_snapshot_in_a_replay_takes_no_memory) {
  a_session it;
  it.exec->replays_until(~std::uint64_t{0});
  auto file = std::move(*make_state_memory());
  copy_ones(it, file.get());
  it.finish([&] { BOOST_TEST(!it.exec->keeps_copies()); });
}

BOOST_AUTO_TEST_CASE(a_snapshot_has_only_memory_that_the_program_leaves) {
  a_session it;
  it.allocate(it.at, a_session::quota);
  for (auto i = 0u; i < it.granules; ++i)
    it.word(i) = 1;
  auto file = std::move(*make_state_memory());
  it.begin(file.get(), true);
  it.copy();
  it.finish([&] { BOOST_TEST(!it.exec->keeps_copies()); });
  it.follow(file.get(), false);
  BOOST_TEST(it.word(it.granules - 1) == 1u);
}

BOOST_AUTO_TEST_CASE(a_program_gets_memory_that_a_snapshot_has) {
  a_session it;
  auto file = std::move(*make_state_memory());
  copy_ones(it, file.get());
  it.finish([&] {
    BOOST_TEST(it.exec->keeps_copies());
    auto used = it.granules * granule_bytes;
    // All of its quota; call_it() tells if it is refused.
    it.allocate(it.at + used, a_session::quota - used);
    BOOST_TEST(!it.exec->keeps_copies());
    it.word(0) = 2;
    it.word(it.granules) = 2;
  });
  it.follow(file.get(), false);
  for (auto i = 0u; i < it.granules; ++i)
    BOOST_TEST(it.word(i) == 1u);
}

BOOST_AUTO_TEST_CASE(a_copy_of_changing_memory_is_consistent) {
  for (auto adopt : {false, true}) {
    a_session it;
    it.allocate(it.at, it.granules * granule_bytes);
    std::atomic<bool> over{false};
    // A file need not hold memory that nobody wrote, and the writer may begin
    // late.
    it.word(0) = 1;
    std::thread writer{[&] {
      for (std::uint32_t i = 1; !over; ++i)
        it.word(i * 5 % (it.granules - 1), i % 500'000) = i;
    }};
    auto file = std::move(*make_state_memory());
    it.begin(file.get(), false);
    it.copy();
    over = true;
    writer.join();
    it.finish();
    auto wanted = it.memory();
    it.follow(file.get(), adopt);
    BOOST_TEST((it.memory() == wanted));
    // The session continues from this state, and another snapshot can be taken.
    it.word(2, 77) = 4711;
    wanted = it.memory();
    auto later = std::move(*make_state_memory());
    it.take(later.get());
    it.follow(later.get(), adopt);
    BOOST_TEST((it.memory() == wanted));
    // An adopted file is the worker's memory itself.
    std::uint32_t before = 0;
    it.word(0) += 1;
    auto x = chunk_at(later.get(), it.at);
    BOOST_REQUIRE(
        ::pread(later.get(), &before, 4, static_cast<off_t>(x.offset)) == 4);
    BOOST_TEST((before == it.word(0)) == adopt);
  }
}

BOOST_AUTO_TEST_SUITE_END()
