// Streams run concurrently, each in order, and events order their work.
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include <atomic>
#include <future>
#include <thread>

namespace vgpu::test {

namespace {

constexpr auto first = stream_id{10};
constexpr auto second = stream_id{11};
constexpr auto apart = stream_id{12};

struct streams : device_fixture {
  streams() {
    load(read_file(DEVICE_CODE "/kernels.ptx"));
    BOOST_REQUIRE(dev->create_stream(first, false, 0).ok());
    BOOST_REQUIRE(dev->create_stream(second, false, 0).ok());
    BOOST_REQUIRE(dev->create_stream(apart, true, 0).ok());
    flag = memory(4);
    out = memory(4);
  }

  /// Keeps a stream busy until open().
  void close(stream_id stream) {
    BOOST_REQUIRE(
        launch("wait_for", {1}, {1}, arguments{flag, out}, 0, stream).ok());
  }
  void open(stream_id from) {
    BOOST_REQUIRE(
        launch("set_flag", {1}, {1}, arguments{flag, 1}, 0, from).ok());
  }

  void set(stream_id stream, device_address at, int x) {
    BOOST_REQUIRE(
        launch("set_flag", {1}, {1}, arguments{at, x}, 0, stream).ok());
  }

  device_address flag = 0;
  device_address out = 0;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(streams_and_events, streams)

/// A stream keeps its last work, but not the completions that waited for it,
/// which may own the memory that its bytes went to.
BOOST_AUTO_TEST_CASE(a_completions_captures_are_freed_after_its_call) {
  auto into = std::vector<std::byte>(64 << 10);
  for (auto reads : {true, false}) {
    auto gone = std::make_shared<std::promise<void>>();
    auto held = std::shared_ptr<int>{new int, [gone](int* x) {
                                       delete x;
                                       gone->set_value();
                                     }};
    auto done = [held = std::move(held)](CUresult) {};
    if (reads)
      BOOST_REQUIRE(dev->enqueue_read(first, into, out, std::move(done)).ok());
    else
      dev->when_done(first, std::move(done));
    auto state = gone->get_future().wait_for(std::chrono::seconds{120});
    BOOST_REQUIRE((state == std::future_status::ready));
  }
}

BOOST_AUTO_TEST_CASE(streams_overlap) {
  close(first);
  BOOST_TEST(!dev->idle(first));
  open(second);
  BOOST_TEST(synchronize() == CUDA_SUCCESS);
  BOOST_TEST(dev->idle(first));
}

BOOST_AUTO_TEST_CASE(the_legacy_stream_waits_for_others_and_they_for_it) {
  auto word = memory(4);
  close(first);
  set(legacy_stream, word, 1);
  set(second, word, 2);
  auto done = outcome{};
  dev->when_done(second, done.tell());
  set(apart, word, 7);
  auto other = outcome{};
  dev->when_done(apart, other.tell());
  BOOST_TEST(other.wait() == CUDA_SUCCESS);
  BOOST_TEST(!done.told());
  BOOST_TEST(*reinterpret_cast<int*>(word) == 7);
  open(apart);
  BOOST_TEST(done.wait() == CUDA_SUCCESS);
  BOOST_TEST(*reinterpret_cast<int*>(word) == 2);
}

BOOST_AUTO_TEST_CASE(a_wait_for_the_legacy_stream_includes_blocking_streams) {
  close(first);
  auto done = outcome{};
  auto other = outcome{};
  dev->when_done(legacy_stream, done.tell());
  dev->when_done(second, other.tell());
  BOOST_TEST(other.wait() == CUDA_SUCCESS);
  BOOST_TEST(!done.told());
  open(apart);
  BOOST_TEST(done.wait() == CUDA_SUCCESS);
  BOOST_TEST(dev->idle(first));
}

BOOST_AUTO_TEST_CASE(events_order_streams_and_measure_time) {
  auto a = event_id{1};
  auto b = event_id{2};
  BOOST_REQUIRE(dev->create_event(a, true).ok());
  BOOST_REQUIRE(dev->create_event(b, true).ok());
  BOOST_TEST(*dev->query_event(a));
  BOOST_TEST(cuda_code(dev->elapsed(a, b).why()) == CUDA_ERROR_INVALID_HANDLE);
  BOOST_TEST(dev->record_event(a, apart).ok());
  close(first);
  BOOST_TEST(dev->record_event(b, first).ok());
  BOOST_TEST(!*dev->query_event(b));
  BOOST_TEST(cuda_code(dev->elapsed(a, b).why()) == CUDA_ERROR_NOT_READY);
  auto word = memory(4);
  BOOST_TEST(dev->wait_event(second, b).ok());
  set(second, word, 5);
  BOOST_TEST(!dev->idle(second));
  auto recorded = outcome{};
  dev->when_recorded(b, recorded.tell());
  open(apart);
  BOOST_TEST(recorded.wait() == CUDA_SUCCESS);
  BOOST_TEST(*dev->elapsed(a, b) >= 0.0f);
  BOOST_TEST(synchronize() == CUDA_SUCCESS);
  BOOST_TEST(*reinterpret_cast<int*>(word) == 5);
}

BOOST_AUTO_TEST_CASE(an_event_without_timing_has_no_time) {
  auto a = event_id{1};
  BOOST_REQUIRE(dev->create_event(a, false).ok());
  BOOST_TEST(dev->record_event(a, first).ok());
  BOOST_TEST(cuda_code(dev->elapsed(a, a).why()) == CUDA_ERROR_INVALID_HANDLE);
  BOOST_TEST(dev->destroy_event(a).ok());
  BOOST_TEST(cuda_code(dev->destroy_event(a)) == CUDA_ERROR_INVALID_HANDLE);
  BOOST_TEST(cuda_code(dev->record_event(a, first)) ==
             CUDA_ERROR_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(a_destroyed_stream_finishes_its_work) {
  close(first);
  auto word = memory(4);
  set(first, word, 3);
  BOOST_TEST(dev->destroy_stream(first).ok());
  BOOST_TEST(cuda_code(launch("set_flag", {1}, {1}, arguments{word, 4}, 0,
                              first)) == CUDA_ERROR_INVALID_HANDLE);
  open(apart);
  BOOST_TEST(synchronize() == CUDA_SUCCESS);
  BOOST_TEST(*reinterpret_cast<int*>(word) == 3);
}

BOOST_AUTO_TEST_CASE(a_stream_waits_for_the_host) {
  auto go = std::promise<std::function<void()>>{};
  auto word = memory(4);
  BOOST_TEST(dev->enqueue_host(first,
                               [&](std::function<void()> go_on) {
                                 go.set_value(std::move(go_on));
                               })
                 .ok());
  set(first, word, 9);
  auto go_on = go.get_future().get();
  BOOST_TEST(!dev->idle(first));
  BOOST_TEST(*reinterpret_cast<int*>(word) == 0);
  go_on();
  BOOST_TEST(synchronize() == CUDA_SUCCESS);
  BOOST_TEST(*reinterpret_cast<int*>(word) == 9);
}

// The work before has ended, but the removal of the memory has not run yet when
// the memory is mapped again.
BOOST_AUTO_TEST_CASE(memory_mapped_again_waits_for_its_removal) {
  auto held = std::promise<std::function<void()>>{};
  auto reached = std::promise<void>{};
  auto mapped = std::promise<void>{};
  auto word = memory(4);
  BOOST_TEST(dev->enqueue_host(first,
                               [&](std::function<void()> go_on) {
                                 held.set_value(std::move(go_on));
                               })
                 .ok());
  // This runs between the end of that work and the removal.
  dev->when_done(first, [&](CUresult) {
    reached.set_value();
    mapped.get_future().wait();
  });
  BOOST_TEST(dev->unmap(word, granule_bytes).ok());
  auto host = std::thread{held.get_future().get()};
  reached.get_future().wait();
  BOOST_TEST(dev->map(word, granule_bytes).ok());
  mapped.set_value();
  host.join();
  set(first, word, 6);
  BOOST_TEST(synchronize() == CUDA_SUCCESS);
  BOOST_TEST(download<int>(word, 1)[0] == 6);
}

BOOST_AUTO_TEST_CASE(copies_and_fills_with_pitch) {
  auto a = memory(4096);
  auto b = memory(4096);
  // The rows are 10 of 16 bytes, in two slices of three rows.
  auto box = device::extent{10, 3, 2};
  BOOST_TEST(dev->enqueue_fill(first, {a, 16, 64}, 0x1234, 2, {5, 3, 2}).ok());
  BOOST_TEST(dev->enqueue_copy(first, {b, 20, 100}, {a, 16, 64}, box).ok());
  BOOST_TEST(synchronize() == CUDA_SUCCESS);
  auto got = download<unsigned char>(b, 256);
  for (auto z = 0u; z < 2; ++z)
    for (auto y = 0u; y < 3; ++y)
      for (auto x = 0u; x < 20; ++x)
        BOOST_TEST(got[z * 100 + y * 20 + x] == (x >= 10      ? 0
                                                 : x % 2 == 0 ? 0x34
                                                              : 0x12));
}

BOOST_AUTO_TEST_CASE(attached_host_memory_can_be_used_until_detached) {
  auto host = std::vector<int>(1024);
  auto at = reinterpret_cast<device_address>(host.data());
  BOOST_TEST(dev->attach_host(at, 4096).ok());
  BOOST_TEST(run("write_to", {1}, {64}, arguments{at, 11}) == CUDA_SUCCESS);
  BOOST_TEST(host[63] == 11);
  BOOST_TEST(dev->detach_host(at, 4096).ok());
  BOOST_TEST(run("write_to", {1}, {64}, arguments{at, 12}) ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
  BOOST_TEST(host[63] == 11);
}

/// Makes a stream wait for the host. Returns what lets it go on.
std::function<void()> held(device::device& on, stream_id in) {
  auto arrived = std::promise<std::function<void()>>{};
  BOOST_REQUIRE(on.enqueue_host(in, [&](std::function<void()> go_on) {
                    arrived.set_value(std::move(go_on));
                  }).ok());
  return arrived.get_future().get();
}

/// The device acts as a GPU with one channel: a stream that waits for the host
/// holds up all others, and pinning memory waits for all.
BOOST_AUTO_TEST_CASE(streams_share_channels_where_that_is_wanted) {
  constexpr auto bytes = std::uint64_t{64} << 20;
  auto narrow = device::open_cpu_device(
      {.memory = bytes, .threads = 1, .channels = 1}, bytes);
  for (auto x : {first, apart})
    BOOST_REQUIRE(narrow->create_stream(x, true, 0).ok());
  auto go_on = held(*narrow, first);
  auto reached = std::atomic<bool>{false};
  BOOST_REQUIRE(narrow
                    ->enqueue_host(apart,
                                   [&](const std::function<void()>& on) {
                                     reached = true;
                                     on();
                                   })
                    .ok());
  auto pinned = std::vector<std::byte>(4096);
  auto pinning = std::async(std::launch::async, [&] {
    auto at = reinterpret_cast<device_address>(pinned.data());
    auto ok = narrow->attach_host(at, pinned.size()).ok();
    return ok && reached;
  });
  BOOST_TEST(!reached);
  go_on();
  BOOST_TEST(pinning.get());
}

/// A call that adds work to a full channel waits, as in a driver, until a
/// stream that waits for the host continues.
BOOST_AUTO_TEST_CASE(a_full_channel_takes_work_when_it_has_room) {
  constexpr auto bytes = std::uint64_t{64} << 20;
  constexpr auto room = 64;
  auto narrow = device::open_cpu_device(
      {.memory = bytes, .threads = 1, .channels = 1, .pieces_in_channel = room},
      bytes);
  BOOST_REQUIRE(narrow->create_stream(first, true, 0).ok());
  auto go_on = held(*narrow, first);
  auto added = std::atomic<int>{1};
  auto adding = std::async(std::launch::async, [&] {
    for (; added != 500; ++added)
      if (!narrow
               ->enqueue_host(first,
                              [](const std::function<void()>& on) { on(); })
               .ok())
        return false;
    return true;
  });
  while (added < room)
    std::this_thread::yield();
  for (auto i = 0; i != 1000; ++i)
    std::this_thread::yield();
  BOOST_TEST(added == room);
  go_on();
  BOOST_TEST(adding.get());
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
