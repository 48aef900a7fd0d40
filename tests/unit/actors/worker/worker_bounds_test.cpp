// How much memory of its host a program can make its worker use.
#include "actors/worker/session/image_book.hpp"
#include "actors/worker/session/worker_bounds.hpp"
#include "tests/unit/actors/session_fixture.hpp"

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>

using namespace vgpu;

namespace {

constexpr auto small_image = std::uint64_t{1} << 20;

/// Keeps the result of the latest answer.
struct latest_answer final : unheard {
  bool wanted(const waiter& who) const override { return who.slot != 0; }
  void answer(const waiter&, CUresult result, std::uint64_t) override {
    result_ = result;
  }
  std::atomic<CUresult> result_ = CUDA_SUCCESS;
};

struct bounded_session {
  static constexpr stream_id blocked{5};
  static constexpr stream_id other{6};
  static constexpr event_id event{7};

  bounded_session() {
    exec->serve(sink);
    BOOST_REQUIRE(
        try_it(call::stream_create{.stream = {blocked}, .non_blocking = 1}));
    BOOST_REQUIRE(
        try_it(call::stream_create{.stream = {other}, .non_blocking = 1}));
    BOOST_REQUIRE(try_it(call::event_create{.event = {event}}));
  }
  /// Lets all work go before the devices end.
  ~bounded_session() { unblock(); }

  /// Returns whether the call was executed.
  template <class Call>
  bool try_it(const Call& x, std::span<const std::byte> payload = {}) {
    std::vector<std::uint64_t> words(call::message_words(x));
    call::encode(x, 0, words);
    const slot_index slot = Call::kind == call::answer::sync ? 1 : 0;
    auto done = exec->execute({.call = {number + 8},
                               .end = number + 16,
                               .slot = slot,
                               .message = words,
                               .payload = payload},
                              nullptr);
    number += done ? 8 : 0;
    return done;
  }
  bool enqueue(stream_id stream) {
    return try_it(call::event_record{.event = {event}, .stream = {stream}});
  }
  /// Returns how many calls are executed before one must wait.
  std::uint64_t fill(stream_id stream, std::uint64_t most) {
    std::uint64_t count = 0;
    while (count < most && enqueue(stream))
      ++count;
    return count;
  }
  /// Blocks the stream, without a call that could end that.
  void block() {
    auto reached = std::make_shared<std::promise<std::function<void()>>>();
    go_on = reached->get_future();
    BOOST_REQUIRE(exec->on(0).enqueue_host(
        blocked,
        [reached](std::function<void()> then) { reached->set_value(then); }));
  }
  /// Waits until the stream has come to where it is blocked.
  void unblock() {
    if (go_on.valid())
      go_on.get()();
  }
  void enqueue_in_time(stream_id stream) {
    while (!enqueue(stream))
      exec->await_turn(std::chrono::seconds{1});
  }

  CUresult load(std::uint64_t which, std::uint64_t bytes) {
    const std::byte first{};
    call::digest name{which, which};
    BOOST_REQUIRE(
        try_it(call::image_part{.image = name, .offset = 0, .total = bytes},
               {&first, 1}));
    BOOST_REQUIRE(
        try_it(call::module_load{.module = {module_id{which}}, .image = name}));
    return sink->result_;
  }

  std::shared_ptr<latest_answer> sink = std::make_shared<latest_answer>();
  std::future<std::function<void()>> go_on;
  std::unique_ptr<executor> exec = a_session::fresh();
  std::uint64_t number = 0;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(worker_bounds_suite, bounded_session)

BOOST_AUTO_TEST_CASE(a_stream_takes_so_many_pieces_of_work) {
  constexpr auto most = worker_bounds::pending_in_stream;
  block();
  BOOST_TEST(fill(blocked, 2 * most) == most);
  BOOST_TEST(exec->waits_for_room());
  // Other streams go on.
  BOOST_TEST(enqueue(other));
  BOOST_TEST(!enqueue(blocked));
  unblock();
  enqueue_in_time(blocked);
  BOOST_TEST(!exec->waits_for_room());
  BOOST_TEST((exec->error() == CUDA_SUCCESS));
}

BOOST_AUTO_TEST_CASE(work_that_a_later_call_may_release_has_more_room) {
  constexpr auto most = worker_bounds::pending;
  BOOST_REQUIRE(try_it(call::host_call{.stream = {blocked}}));
  auto function = number;
  BOOST_TEST(fill(blocked, 2 * most) == most - 1);
  BOOST_TEST(!enqueue(other));
  BOOST_REQUIRE(try_it(call::host_done{.call = function}));
  enqueue_in_time(blocked);
  enqueue_in_time(other);
}

BOOST_AUTO_TEST_CASE(destroyed_streams_do_not_hide_their_work) {
  block();
  BOOST_TEST(enqueue(blocked));
  std::uint64_t pieces = 0;
  auto goes_on = true;
  for (std::uint64_t i = 0; goes_on && pieces < 2 * worker_bounds::pending;
       ++i) {
    stream_id stream{100 + i};
    BOOST_REQUIRE(
        try_it(call::stream_create{.stream = {stream}, .non_blocking = 1}));
    goes_on = try_it(call::stream_wait{.stream = {stream}, .event = {event}}) &&
              enqueue(stream);
    pieces += 2;
    BOOST_REQUIRE(try_it(call::stream_destroy{.stream = {stream}}));
  }
  BOOST_TEST(!goes_on);
  BOOST_TEST(pieces <= worker_bounds::pending + 2);
  unblock();
  enqueue_in_time(other);
}

BOOST_AUTO_TEST_CASE(idle_streams_take_no_room) {
  // None of them has enough work for a report of its own.
  constexpr auto streams = worker_bounds::pending / 100 + 1;
  for (std::uint64_t i = 0; i < streams; ++i) {
    stream_id stream{100 + i};
    BOOST_REQUIRE(
        try_it(call::stream_create{.stream = {stream}, .non_blocking = 1}));
    for (int k = 0; k < 100; ++k)
      enqueue_in_time(stream);
  }
  BOOST_TEST((exec->error() == CUDA_SUCCESS));
}

BOOST_AUTO_TEST_CASE(images_that_are_not_loaded_are_bounded) {
  BOOST_TEST((load(1, worker_bounds::idle_images) != CUDA_ERROR_OUT_OF_MEMORY));
  BOOST_TEST((load(2, small_image) == CUDA_ERROR_OUT_OF_MEMORY));
  // The session goes on, and an image that it has may come again.
  BOOST_TEST((exec->error() == CUDA_SUCCESS));
  BOOST_TEST((load(1, worker_bounds::idle_images) != CUDA_ERROR_OUT_OF_MEMORY));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(image_books)

BOOST_AUTO_TEST_CASE(loaded_images_count_up_to_the_quota_and_more) {
  constexpr auto quota = std::uint64_t{64} << 20;
  constexpr auto image = worker_bounds::idle_images / 2;
  image_book book{quota};
  std::uint64_t count = 0;
  while (count < 100 && book.admit({count, 0}, image)) {
    book.loaded(0, {count}, {count, 0});
    ++count;
  }
  BOOST_TEST(count == worker_bounds::images(quota) / image);
  BOOST_TEST(book.was_refused({count, 0}));
  book.allow(quota + image);
  BOOST_TEST(book.admit({count, 0}, image));
  BOOST_TEST(!book.was_refused({count, 0}));
}

BOOST_AUTO_TEST_CASE(an_image_is_idle_after_its_last_module) {
  image_book book{0};
  BOOST_TEST(book.admit({1, 1}, 100));
  BOOST_TEST(book.idle_bytes() == 100u);
  book.loaded(0, {1}, {1, 1});
  book.loaded(1, {1}, {1, 1});
  BOOST_TEST(book.idle_bytes() == 0u);
  book.unloaded(0, {1});
  BOOST_TEST(book.idle_bytes() == 0u);
  book.unloaded(1, {1});
  book.unloaded(1, {1});
  BOOST_TEST(book.idle_bytes() == 100u);
  BOOST_TEST(!book.admit({1, 1}, 200));
  book.forget({1, 1});
  BOOST_TEST(book.bytes() == 0u);
  BOOST_TEST(book.idle_bytes() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
