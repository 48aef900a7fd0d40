// Snapshots taken while a session runs, and what is replayed after a loss.
#include "tests/unit/actors/data_plane_fixture.hpp"

#include "actors/state/state_file.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;
namespace data_of = boost::unit_test::data;

namespace {

struct snapshots : world {
  snapshots() { protect = control::protection::snapshot; }
  explicit snapshots(std::uint64_t log_bytes) : world(log_bytes) {}

  control_header& header() { return area.header(); }

  /// Waits until a snapshot covers every call made so far.
  auto covered() {
    auto wanted = header().tail.load();
    return await("a snapshot covers every call",
                 [&] { return header().covered.load() >= wanted; });
  }

  /// Appends a call of 1 MiB, and waits where the log is full.
  void write(std::uint32_t value) {
    std::vector<std::byte> bytes(1 << 20, static_cast<std::byte>(value));
    std::memcpy(bytes.data(), &value, sizeof(value));
    call::append(
        log,
        call::write{.stream = {legacy_stream},
                    .to = {big, 0, 0},
                    .size = {1 << 20, 1, 1}},
        0, 0, 1 << 20,
        [&](auto to) { std::memcpy(to.data(), bytes.data(), bytes.size()); },
        [this] { wait_on(); });
  }

  /// Counts a tenth of a second of waiting for room. After two minutes the test
  /// fails, and lowers the protection so that it ends.
  void wait_on() {
    if (++waits_ != 1200)
      return;
    BOOST_ERROR("the program waits for room without end");
    (void)area.lower_protection();
  }
  unsigned waits_ = 0;

  /// Makes the disk refuse more bytes.
  void fill_disk() {
    std::vector<unique_fd> files;
    for (auto fd : places.descriptors())
      files.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    BOOST_REQUIRE(files.size() == state_places::count);
    for (std::size_t i : {2u, 3u}) {
      files[i] = unique_fd{static_cast<int>(
          ::memfd_create("full", MFD_CLOEXEC | MFD_ALLOW_SEALING))};
      BOOST_REQUIRE(::fcntl(files[i].get(), F_ADD_SEALS, F_SEAL_GROW) == 0);
    }
    places = state_places::take(files, 0);
    BOOST_REQUIRE(places.on_disk());
    state_memory = 0;
  }
  static constexpr device_address big = first_window + (1 << 21);

  /// Writes three times the log's capacity to one address.
  void overfill() {
    append(call::mem_alloc{.address = big, .bytes = 1 << 20});
    for (std::uint32_t i = 0; i < 192; ++i)
      write(i);
  }

  std::uint64_t place_bytes(std::size_t place) {
    return static_cast<std::uint64_t>(::lseek(places.at(place), 0, SEEK_END));
  }

  bool lost() {
    return in.wait([&] { return has_event("session-lost"); }, 0ms);
  }
  bool has_event(const std::string& kind) {
    return in.has<control::event>([&](auto& x) { return x.kind == kind; });
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(journals_with_snapshots)

BOOST_DATA_TEST_CASE_F(snapshots, calls_in_a_snapshot_are_not_made_again,
                       data_of::make(both), where) {
  auto first = begin(transport::automatic, where.same_host);
  for (int i = 0; i < 100; ++i)
    add(3);
  BOOST_TEST(read_counter() == 300u);
  BOOST_TEST(covered());
  BOOST_TEST(told("session-snapshot"));
  // Only calls after the snapshot are replayed.
  kill(first);
  add(4);
  drift = 1000;
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 1304u);
  BOOST_TEST(in.wait([&] {
    return in.has<control::event>(
        [](auto& x) { return x.kind == "session-replayed" && x.calls <= 2; });
  }));
  BOOST_TEST(!lost());
}

BOOST_DATA_TEST_CASE_F(snapshots, a_promised_recovery_brings_snapshots,
                       data_of::make(both), where) {
  protect = control::protection::journal;
  recover_within_ms = control::shortest_snapshot_ms;
  protect_cost = 100;
  auto first = begin(transport::automatic, where.same_host);
  std::uint32_t calls = 0;
  // The journal stays far shorter than the one that brings a snapshot.
  BOOST_TEST(await("a snapshot covers calls", [&] {
    for (int i = 0; i < 500; ++i, ++calls)
      add(1);
    return header().covered.load() != 0;
  }));
  BOOST_TEST(told("session-snapshot"));
  BOOST_TEST(read_counter() == calls);
  kill(first);
  drift = 1'000'000;
  lease(2, start_worker(2, false));
  BOOST_TEST(in.wait([&] {
    return in.has<control::event>([&](auto& x) {
      return x.kind == "session-replayed" && x.calls < calls;
    });
  }));
  BOOST_TEST(!lost());
}

BOOST_DATA_TEST_CASE_F(snapshots, a_promise_changes_while_the_program_runs,
                       data_of::make(both), where) {
  protect = control::protection::journal;
  recover_within_ms = 86'400'000;
  protect_cost = 100;
  auto first = begin(transport::automatic, where.same_host);
  for (int i = 0; i < 5'000; ++i)
    add(1);
  BOOST_TEST((ask(call::device_sync{}) == CUDA_SUCCESS));
  BOOST_TEST(header().covered.load() == 0u);
  lease(1, first, {control::shortest_snapshot_ms, 100, {}});
  BOOST_TEST(await("a snapshot covers calls", [&] {
    for (int i = 0; i < 500; ++i)
      add(1);
    return header().covered.load() != 0;
  }));
}

BOOST_DATA_TEST_CASE_F(snapshots, a_promise_that_costs_too_much_is_told,
                       data_of::make(both), where) {
  protect = control::protection::journal;
  recover_within_ms = control::shortest_snapshot_ms;
  protect_cost = 0;
  begin(transport::automatic, where.same_host);
  // These take long on any device, and little of the log: a full one brings a
  // snapshot at any cost.
  constexpr std::uint64_t bytes = std::uint64_t{16} << 20;
  append(call::mem_alloc{.address = big, .bytes = bytes});
  constexpr int most_calls = 20'000;
  int calls = 0;
  BOOST_TEST(await("the client tells what holds", [&] {
    for (int i = 0; i < 50 && calls < most_calls; ++i, ++calls)
      append(call::fill{.stream = {legacy_stream},
                        .to = {big, 0, 0},
                        .value = 1,
                        .size = {bytes, 1, 1}});
    return in.wait(
        [&] {
          return in.has<control::event>([](auto& x) {
            return x.kind == "recovery-time" && x.milliseconds > 50 &&
                   x.text.find("recovers in about") != x.text.npos;
          });
        },
        0ms);
  }));
  BOOST_TEST(header().covered.load() == 0u);
}

BOOST_DATA_TEST_CASE_F(snapshots, the_former_snapshot_is_given_back,
                       data_of::make(both), where) {
  begin(transport::automatic, where.same_host);
  for (std::uint32_t round = 1; round <= 5; ++round) {
    add(1);
    BOOST_TEST(read_counter() == round);
    BOOST_TEST(covered());
    auto newest = header().newest.load();
    BOOST_REQUIRE((newest == 1 || newest == 2));
    BOOST_TEST(place_bytes(newest - 1) > 0u);
    // The client publishes `covered` before it gives the other back.
    BOOST_TEST(await("the other place is empty",
                     [&] { return place_bytes(2 - newest) == 0; }));
  }
}

BOOST_DATA_TEST_CASE_F(snapshots, a_large_snapshot_lies_on_the_disk,
                       data_of::make(both), where) {
  state_memory = 0;
  auto first = begin(transport::automatic, where.same_host);
  add(8);
  BOOST_TEST(read_counter() == 8u);
  BOOST_TEST(covered());
  auto newest = header().newest.load();
  BOOST_TEST((newest == 3 || newest == 4));
  BOOST_TEST(place_bytes(newest - 1) > 0u);
  drift = 1000;
  replace(first);
  BOOST_TEST(read_counter() == 8u);
}

BOOST_DATA_TEST_CASE_F(snapshots, a_journal_that_fills_is_covered_by_a_snapshot,
                       data_of::make(both), where) {
  protect = control::protection::journal;
  lease_term = 3s; // a busy machine may stop everybody for a while
  auto first = begin(transport::automatic, where.same_host);
  overfill();
  add(5);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(header().covered.load() > std::uint64_t{100} << 20);
  BOOST_TEST(told("session-snapshot"));
  BOOST_TEST(header().protection_level.load() ==
             static_cast<std::uint32_t>(protection::journal));
  replace(first);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST((ask(call::read{.stream = {legacy_stream},
                             .from = {big, 0, 0},
                             .size = {4, 1, 1},
                             .to = {8192, 4}}) == CUDA_SUCCESS));
  std::uint32_t value = 0;
  std::memcpy(&value, area.arena().data() + 8192, 4);
  BOOST_TEST(value == 191u);
  BOOST_TEST(!lost());
}

BOOST_AUTO_TEST_CASE(without_room_for_a_snapshot_protection_is_lowered) {
  snapshots it;
  it.places = state_places{};
  auto first = it.begin(transport::automatic, false);
  it.overfill();
  it.add(5);
  BOOST_TEST(it.read_counter() == 5u);
  BOOST_TEST(it.told("protection-lowered"));
  BOOST_TEST(it.told("snapshot-failed"));
  it.replace(first);
  BOOST_TEST(it.told("session-lost"));
}

BOOST_AUTO_TEST_CASE(a_journal_is_covered_long_before_it_is_half_full) {
  snapshots it{std::uint64_t{2} << 30};
  auto first = it.begin(transport::automatic, true);
  it.append(call::mem_alloc{.address = snapshots::big, .bytes = 1 << 20});
  // 768 MiB are less than half of the log.
  for (std::uint32_t i = 0; i < 768; ++i)
    it.write(i);
  BOOST_TEST(it.told("session-snapshot"));
  // A snapshot is due at 512 MiB, or earlier where the calls take long.
  BOOST_TEST(it.await("most of the journal is covered", [&] {
    auto& header = it.header();
    return header.tail.load() - header.covered.load() < std::uint64_t{520}
                                                            << 20;
  }));
  it.add(5);
  it.replace(first);
  BOOST_TEST(it.read_counter() == 5u);
}

BOOST_DATA_TEST_CASE_F(snapshots, a_full_disk_stops_no_program,
                       data_of::make(both), where) {
  protect = control::protection::journal;
  fill_disk();
  begin(transport::automatic, where.same_host);
  overfill();
  add(5);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(told("snapshot-failed"));
  BOOST_TEST(told("protection-lowered"));
  BOOST_TEST(header().newest.load() == 0u);
}

BOOST_DATA_TEST_CASE_F(snapshots, a_snapshot_survives_its_client,
                       data_of::make(both), where) {
  auto first = begin(transport::automatic, where.same_host);
  add(7);
  BOOST_TEST(read_counter() == 7u);
  BOOST_TEST(covered());
  kill_client();
  kill(first);
  add(2);
  drift = 1000;
  connect(transport::automatic, true);
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 1009u);
  BOOST_TEST(!lost());
}

BOOST_AUTO_TEST_CASE(the_next_client_continues_to_take_snapshots) {
  snapshots it;
  auto first = it.begin(transport::forwarded, false);
  BOOST_TEST(it.covered());
  it.kill_client();
  it.connect(transport::forwarded, true);
  it.lease(1, first);
  it.add(7);
  BOOST_TEST(it.read_counter() == 7u);
  BOOST_TEST(it.covered());
}

/// A wrong value that a program may write to its header.
struct a_lie {
  const char* name;
  void (*tell)(snapshots&);
  bool recovers;
};
std::ostream& operator<<(std::ostream& to, const a_lie& x) {
  return to << x.name;
}

void write_state(snapshots& at, std::size_t place, std::uint64_t position,
                 bool damaged = false) {
  state_writer to{at.places.at(place), false};
  state_index index;
  index.position = position;
  if (auto size = to.finish(index); size && damaged)
    BOOST_TEST(
        ::ftruncate(at.places.at(place), static_cast<off_t>(*size - 8)) == 0);
  at.header().newest = static_cast<std::uint32_t>(place + 1);
}

const a_lie lies[] = {
    {"a place that does not exist",
     [](snapshots& x) { x.header().newest = 4711; }, true},
    {"the last place there could be",
     [](snapshots& x) { x.header().newest = ~0u; }, true},
    {"an empty place", [](snapshots& x) { x.header().newest = 2; }, true},
    {"half of a state", [](snapshots& x) { write_state(x, 0, 0, true); }, true},
    {"a state of a call to come",
     [](snapshots& x) { write_state(x, 1, std::uint64_t{1} << 60); }, true},
    {"a state between two calls", [](snapshots& x) { write_state(x, 1, 12); },
     true},
    {"that all is covered",
     [](snapshots& x) { x.header().covered = ~std::uint64_t{0}; }, true},
    {"that the log begins later",
     [](snapshots& x) { x.header().trimmed = x.header().tail.load() + 8; },
     false},
};

BOOST_DATA_TEST_CASE(a_programs_claims_about_snapshots_are_checked,
                     data_of::make(lies), lie) {
  snapshots it;
  it.protect = control::protection::journal;
  auto first = it.begin(transport::forwarded, false);
  it.add(6);
  BOOST_TEST(it.read_counter() == 6u);
  lie.tell(it);
  it.replace(first);
  if (lie.recovers)
    BOOST_TEST(it.read_counter() == 6u);
  else
    BOOST_TEST(it.told("session-lost"));
}

BOOST_AUTO_TEST_CASE(a_forged_state_makes_nothing_but_objects) {
  snapshots it;
  it.protect = control::protection::journal;
  auto first = it.begin(transport::forwarded, false);
  call::read read{.stream = {legacy_stream},
                  .from = {world::counter, 0, 0},
                  .size = {4, 1, 1},
                  .to = {0, 4}};
  std::vector<std::uint64_t> words(call::message_words(read));
  call::encode(read, 0, words);
  state_writer to{it.places.at(0), false};
  state_index index;
  index.position = 64;
  index.living.emplace_back(8, words);
  BOOST_REQUIRE(to.finish(index).ok());
  it.header().newest = 1;
  it.kill(first);
  it.lease(2, it.start_worker(2, false));
  BOOST_TEST(it.in.wait([&] {
    return it.in.has<control::suspect>([](auto& x) {
      return x.reason.find("leaves nothing behind") != std::string::npos;
    });
  }));
}

BOOST_DATA_TEST_CASE_F(snapshots, a_state_that_no_worker_can_restore_is_dropped,
                       data_of::make({false, true}), suspended) {
  protect = control::protection::journal;
  auto worker = begin(transport::forwarded, false);
  add(9);
  BOOST_TEST(read_counter() == 9u);
  if (suspended) {
    BOOST_TEST(pause(1) == "");
    wait_for(worker);
  } else {
    // The log still holds every call.
    write_state(*this, 0, 0);
    kill(worker);
  }
  device_count = 2; // the state has one device
  for (std::uint64_t epoch : {2, 3}) {
    worker = start_worker(epoch, false);
    lease(epoch, worker);
    BOOST_TEST(in.wait([&] {
      return in.has<control::suspect>(
          [&](auto& x) { return x.epoch == vgpu::epoch{epoch}; });
    }));
    kill(worker);
  }
  lease(4, start_worker(4, false));
  BOOST_TEST(read_counter() == 9u);
  BOOST_TEST(told("state-refused"));
}

BOOST_DATA_TEST_CASE_F(snapshots, a_session_with_a_trimmed_log_moves,
                       data_of::make(both), where) {
  auto first = begin(transport::automatic, where.same_host);
  overfill();
  add(5);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(header().trimmed.load() > 0u);
  drift = 1000;
  BOOST_TEST(pause(1) == "");
  wait_for(first);
  auto second = start_worker(2, false);
  lease(2, second);
  BOOST_TEST(read_counter() == 5u);
  // The session is protected on the new worker as well.
  BOOST_TEST(covered());
  replace(second, 3);
  BOOST_TEST(read_counter() == 5u);
}

BOOST_AUTO_TEST_SUITE_END()
