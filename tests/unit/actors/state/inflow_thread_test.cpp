// Snapshots that are stored on a thread of their own while they travel.
#include "tests/unit/actors/worker_elsewhere.hpp"

#include "actors/state/inflow_thread.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>

#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;

namespace {

/// A thread that stores a snapshot of `worker` into `place`.
struct storing {
  unique_fd place = std::move(*make_state_memory());
  kept_file worker{6};

  std::mutex lock;
  std::condition_variable changed;
  bool rang = false;

  /// Waits until the thread has something new to say.
  void wait() {
    std::unique_lock guard{lock};
    BOOST_REQUIRE(changed.wait_for(guard, patience, [&] { return rang; }));
    rang = false;
  }
  std::unique_ptr<inflow_thread> begin() {
    auto inflow = snapshot_inflow::begin(
        worker.bytes, unique_fd{::dup(place.get())}, unique_fd{});
    BOOST_REQUIRE(inflow.ok());
    return std::make_unique<inflow_thread>(std::move(*inflow), [this] {
      std::lock_guard guard{lock};
      rang = true;
      changed.notify_all();
    });
  }
  std::shared_ptr<std::vector<std::byte>>
  part(const data::state_wanted& x) const {
    auto bytes = part_of_state(worker.file.get(), worker.bytes, x);
    BOOST_REQUIRE(bytes);
    return std::make_shared<std::vector<std::byte>>(*bytes);
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(stored_snapshots, storing)

BOOST_AUTO_TEST_CASE(a_snapshot_is_stored_whole) {
  worker.finish();
  auto to = begin();
  std::uint64_t sent = 0;
  while (!*to->complete()) {
    wait();
    for (auto& x : to->wanted()) {
      auto bytes = part(x);
      sent += bytes->size();
      to->take(x.from, *bytes, bytes);
    }
    BOOST_REQUIRE(to->complete().ok());
  }
  BOOST_TEST(to->bytes().travelled == sent);
  BOOST_TEST(to->wanted().empty());
  auto index = whole_index(place.get());
  BOOST_TEST(index.memory.size() == worker.pieces.size());
}

BOOST_AUTO_TEST_CASE(a_damaged_part_is_told_and_nothing_follows) {
  worker.finish();
  auto to = begin();
  while (to->complete().ok()) {
    wait();
    for (auto& x : to->wanted()) {
      auto bytes = part(x);
      bytes->front() ^= std::byte{1};
      to->take(x.from, *bytes, bytes);
    }
  }
  BOOST_TEST(!state_reader::open(place.get()).ok());
  auto again = std::make_shared<std::vector<std::byte>>(64);
  to->take(0, *again, again);
  BOOST_TEST(!to->complete().ok());
}

BOOST_AUTO_TEST_CASE(a_part_is_kept_until_it_is_stored) {
  worker.finish();
  auto to = begin();
  wait();
  auto wanted = to->wanted();
  BOOST_REQUIRE(wanted.size() == 1u);
  auto bytes = part(wanted[0]);
  std::weak_ptr<std::vector<std::byte>> kept = bytes;
  auto span = std::span<const std::byte>{*bytes};
  to->take(wanted[0].from, span, std::move(bytes));
  wait();
  BOOST_TEST(kept.expired());
  BOOST_TEST(to->bytes().travelled == span.size());
}

BOOST_AUTO_TEST_CASE(it_ends_with_parts_that_nobody_stored) {
  worker.finish();
  auto to = begin();
  wait();
  for (auto& x : to->wanted()) {
    auto bytes = part(x);
    for (int i = 0; i < 20; ++i)
      to->take(x.from, *bytes, bytes);
  }
  to.reset();
}

BOOST_AUTO_TEST_SUITE_END()
