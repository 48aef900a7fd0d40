// A device that has less memory than the quota allows, as one that others use.
#include "tests/unit/actors/session_fixture.hpp"

#include <atomic>

using namespace vgpu;

namespace {

/// Keeps the result of the latest answer.
struct last_answer final : unheard {
  bool wanted(const waiter& who) const override { return who.slot != 0; }
  void answer(const waiter&, CUresult result, std::uint64_t) override {
    came = static_cast<int>(result);
    came.notify_all();
  }
  std::atomic<int> came{-1};
};

struct small_device {
  static constexpr std::uint64_t has = 8 * granule_bytes;
  static constexpr device_address at = first_window;

  small_device() {
    std::vector<std::unique_ptr<device::device>> devices;
    devices.push_back(device::open_cpu_device({0, a_session::quota, 1}, has));
    exec = std::make_unique<executor>(std::move(devices), a_session::quota);
    exec->serve(sink);
  }

  template <class Call>
  void call_it(const Call& x, bool is_replayed = false) {
    std::vector<std::uint64_t> words(call::message_words(x));
    call::encode(x, 0, words);
    number += 8;
    if (is_replayed)
      exec->replays_until(number + 8);
    BOOST_REQUIRE(
        exec->execute({.call = {number},
                       .end = number + 8,
                       .slot = Call::kind == call::answer::sync ? slot_index{1}
                                                                : slot_index{0},
                       .message = words,
                       .payload = {}},
                      nullptr));
  }
  /// Returns what a program gets that waits.
  CUresult wait() {
    sink->came = -1;
    call_it(call::device_sync{});
    sink->came.wait(-1);
    return static_cast<CUresult>(sink->came.load());
  }

  /// Another worker has to try, and the program notices nothing.
  void is_given_up() const {
    BOOST_TEST((exec->lost() == CUDA_ERROR_DEVICE_UNAVAILABLE));
    BOOST_TEST((exec->error() == CUDA_SUCCESS));
    auto why = exec->loss();
    BOOST_TEST(why.find("cannot be like the worker before it: call 8: ") !=
                   std::string::npos,
               why);
  }

  std::shared_ptr<last_answer> sink = std::make_shared<last_answer>();
  std::unique_ptr<executor> exec;
  std::uint64_t number = 0;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(late_refusals, small_device)

BOOST_AUTO_TEST_CASE(a_wait_tells_of_refused_memory_once) {
  call_it(call::mem_alloc{at, has});
  BOOST_TEST((wait() == CUDA_SUCCESS));
  call_it(call::mem_alloc{at + has, granule_bytes});
  BOOST_TEST((exec->error() == CUDA_SUCCESS));
  BOOST_TEST((wait() == CUDA_ERROR_OUT_OF_MEMORY));
  BOOST_TEST((wait() == CUDA_SUCCESS));
  // What is done with it is refused too, and its end is no error.
  call_it(call::fill{.stream = {legacy_stream},
                     .to = {.address = at + has, .pitch = 64, .slice = 64},
                     .value = 7,
                     .size = {64, 1, 1}});
  BOOST_TEST((wait() == CUDA_ERROR_OUT_OF_MEMORY));
  call_it(call::mem_free{at + has, granule_bytes});
  BOOST_TEST((wait() == CUDA_SUCCESS));
  // The session goes on.
  call_it(call::mem_free{at, has});
  call_it(call::mem_alloc{at + has, 2 * granule_bytes});
  BOOST_TEST((wait() == CUDA_SUCCESS));
  BOOST_TEST((exec->error() == CUDA_SUCCESS));
}

BOOST_AUTO_TEST_CASE(others_give_their_memory_back_before_a_refusal) {
  auto asked = 0;
  exec->when_short([&] {
    // A standby ends, and the device has more.
    device::allow_cpu_device(exec->on(0), ++asked * has * 2);
    return true;
  });
  call_it(call::mem_alloc{at, has});
  BOOST_TEST(asked == 0);
  call_it(call::mem_alloc{at + has, has});
  BOOST_TEST((wait() == CUDA_SUCCESS));
  BOOST_TEST(asked == 1);
  exec->when_short([&] {
    ++asked;
    return false; // there is none
  });
  call_it(call::mem_alloc{at + 2 * has, has});
  BOOST_TEST((wait() == CUDA_ERROR_OUT_OF_MEMORY));
  BOOST_TEST(asked == 2);
}

BOOST_AUTO_TEST_CASE(refused_memory_costs_nothing_and_harms_no_neighbour) {
  call_it(call::mem_alloc{at, 512});
  call_it(call::mem_alloc{at + 512, has});
  BOOST_TEST((wait() == CUDA_ERROR_OUT_OF_MEMORY));
  call_it(call::fill{.stream = {legacy_stream},
                     .to = {.address = at, .pitch = 512, .slice = 512},
                     .value = 7,
                     .size = {512, 1, 1}});
  call_it(call::mem_alloc{at + 512, has - 512});
  BOOST_TEST((wait() == CUDA_SUCCESS));
}

BOOST_AUTO_TEST_CASE(physical_memory_and_arrays_are_refused_alike) {
  call_it(call::mem_alloc{at, has});
  call_it(call::memory_create{{memory_id{1}}, granule_bytes});
  BOOST_TEST((wait() == CUDA_ERROR_OUT_OF_MEMORY));
  call_it(call::memory_destroy{{memory_id{1}}});
  array_shape shape{};
  shape.width = 1024;
  shape.height = 1024;
  shape.channels = 1;
  shape.format = CU_AD_FORMAT_UNSIGNED_INT8;
  auto bytes = layout_of(shape)->bytes;
  call_it(call::array_create{{array_id{1}}, at + 2 * has, bytes, shape});
  BOOST_TEST((wait() == CUDA_ERROR_OUT_OF_MEMORY));
  call_it(call::array_destroy{{array_id{1}}});
  BOOST_TEST((wait() == CUDA_SUCCESS));
  BOOST_TEST((exec->error() == CUDA_SUCCESS));
}

BOOST_AUTO_TEST_CASE(other_refused_calls_stay_errors_for_good) {
  call_it(call::mem_free{at, granule_bytes});
  BOOST_TEST((exec->error() == CUDA_ERROR_INVALID_VALUE));
}

// The program has used them, so that the session cannot go on without. Another
// worker may be able to make them.
BOOST_AUTO_TEST_CASE(a_replay_does_without_no_memory) {
  call_it(call::mem_alloc{at, 2 * has}, true);
  is_given_up();
}

BOOST_AUTO_TEST_CASE(a_replay_does_without_no_physical_memory) {
  call_it(call::memory_create{{memory_id{1}}, 2 * has}, true);
  is_given_up();
}

BOOST_AUTO_TEST_CASE(a_replay_does_without_no_array) {
  array_shape shape{};
  shape.width = shape.height = 8192;
  shape.channels = 1;
  shape.format = CU_AD_FORMAT_UNSIGNED_INT8;
  auto bytes = layout_of(shape)->bytes;
  call_it(call::array_create{{array_id{1}}, at, bytes, shape}, true);
  is_given_up();
}

// A call that no device would take is the program's own error.
BOOST_AUTO_TEST_CASE(a_replay_gives_up_no_worker_for_a_wrong_call) {
  call_it(call::mem_alloc{at, granule_bytes});
  call_it(call::mem_alloc{at, granule_bytes}, true); // it is there already
  BOOST_TEST((exec->lost() == CUDA_SUCCESS));
  BOOST_TEST((exec->error() == CUDA_ERROR_INVALID_VALUE));
}

BOOST_AUTO_TEST_SUITE_END()
