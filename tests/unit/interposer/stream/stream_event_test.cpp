#include "tests/unit/interposer/driver_fixture.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;

// The runtime looks these up by symbol.
extern "C" CUresult cuStreamGetId_ptsz(CUstream, unsigned long long*);
extern "C" CUresult cuLaunchHostFunc_ptsz(CUstream, CUhostFn, void*);

namespace {

constexpr int device_sync_number = 23, stream_sync_number = 22;

struct stream_fixture : driver_fixture {
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  stream_fixture() {
    REQUIRE_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    REQUIRE_OK(cuMemAlloc(&memory, 1024));
  }
  ~stream_fixture() {
    fake().resume();
    cuMemFree(memory);
    cuStreamDestroy(stream);
  }
  CUresult work() { return cuMemsetD8Async(memory, 1, 16, stream); }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(streams, stream_fixture)

BOOST_AUTO_TEST_CASE(a_stream_has_flags_and_a_priority) {
  CUstream s = nullptr;
  CHECK_CODE(cuStreamCreate(&s, 77), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuStreamCreateWithPriority(&s, 1, -100));
  unsigned flags = 0;
  int priority = 0, least = 9, greatest = 9;
  REQUIRE_OK(cuStreamGetFlags(s, &flags));
  REQUIRE_OK(cuStreamGetPriority(s, &priority));
  REQUIRE_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  BOOST_TEST(flags == 1U);
  BOOST_TEST(priority == -5);
  BOOST_TEST(least == 0);
  BOOST_TEST(greatest == -5);
  REQUIRE_OK(cuStreamDestroy(s));
  CHECK_CODE(cuStreamDestroy(s), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(cuStreamDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  REQUIRE_OK(cuStreamIsCapturing(stream, &status));
  BOOST_TEST(status == CU_STREAM_CAPTURE_STATUS_NONE);
}

BOOST_AUTO_TEST_CASE(each_thread_has_its_own_default_stream) {
  unsigned long long legacy = 0, mine = 0, named = 0, theirs = 0;
  REQUIRE_OK(cuStreamGetId(nullptr, &legacy));
  REQUIRE_OK(cuStreamGetId_ptsz(nullptr, &mine));
  REQUIRE_OK(cuStreamGetId(CU_STREAM_PER_THREAD, &named));
  std::thread{[&] {
    cuCtxSetCurrent(primary);
    cuStreamGetId_ptsz(nullptr, &theirs);
  }}.join();
  BOOST_TEST(mine == named);
  BOOST_TEST(mine != legacy);
  BOOST_TEST(mine != theirs);
  BOOST_TEST(theirs != 0U);
}

BOOST_AUTO_TEST_CASE(a_query_is_sent_once_and_then_polls) {
  REQUIRE_OK(cuStreamQuery(stream));
  fake().pause();
  REQUIRE_OK(work());
  for (int i = 0; i < 50; ++i)
    CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  auto before = fake().counts()[stream_sync_number];
  fake().resume();
  while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
    std::this_thread::yield();
  REQUIRE_OK(cuStreamQuery(stream));
  BOOST_TEST(fake().counts()[stream_sync_number] == before + 1);
}

BOOST_AUTO_TEST_CASE(waiting_for_finished_work_sends_nothing) {
  REQUIRE_OK(work());
  REQUIRE_OK(cuCtxSynchronize());
  auto before = fake().counts();
  for (int i = 0; i < 10; ++i) {
    REQUIRE_OK(cuCtxSynchronize());
    REQUIRE_OK(cuStreamSynchronize(stream));
    REQUIRE_OK(cuStreamQuery(stream));
  }
  auto after = fake().counts();
  BOOST_TEST(after[device_sync_number] == before[device_sync_number]);
  BOOST_TEST(after[stream_sync_number] == before[stream_sync_number]);
}

BOOST_AUTO_TEST_CASE(events_have_order_and_times) {
  CUevent a = nullptr, b = nullptr, untimed = nullptr;
  CHECK_CODE(cuEventCreate(&a, 77), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuEventCreate(&a, 0));
  REQUIRE_OK(cuEventCreate(&b, 0));
  REQUIRE_OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  float ms = 0;
  REQUIRE_OK(cuEventQuery(a));
  REQUIRE_OK(cuEventSynchronize(a));
  CHECK_CODE(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(cuStreamWaitEvent(stream, a, 0));
  fake().pause();
  REQUIRE_OK(cuEventRecord(a, stream));
  REQUIRE_OK(work());
  REQUIRE_OK(cuEventRecord(b, stream));
  CHECK_CODE(cuEventQuery(b), CUDA_ERROR_NOT_READY);
  CHECK_CODE(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
  fake().resume();
  REQUIRE_OK(cuEventSynchronize(b));
  REQUIRE_OK(cuEventQuery(a));
  REQUIRE_OK(cuEventElapsedTime(&ms, a, b));
  BOOST_TEST(ms == 1.5F);
  REQUIRE_OK(cuEventRecord(untimed, stream));
  REQUIRE_OK(cuEventSynchronize(untimed));
  CHECK_CODE(cuEventElapsedTime(&ms, a, untimed), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(cuEventRecord(nullptr, stream), CUDA_ERROR_INVALID_HANDLE);
  for (auto e : {a, b, untimed})
    REQUIRE_OK(cuEventDestroy(e));
  CHECK_CODE(cuEventDestroy(a), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(cuEventDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(an_event_may_be_recorded_while_it_is_queried) {
  CUevent e = nullptr;
  REQUIRE_OK(cuEventCreate(&e, 0));
  for (int i = 0; i < 5000; ++i) {
    REQUIRE_OK(cuEventRecord(e, stream));
    auto code = cuEventQuery(e);
    BOOST_TEST_REQUIRE((code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_READY));
  }
  REQUIRE_OK(cuEventSynchronize(e));
  REQUIRE_OK(cuEventDestroy(e));
}

BOOST_AUTO_TEST_CASE(host_functions_run_in_stream_order) {
  std::vector<int> order;
  struct step {
    std::vector<int>* order;
    int number;
  };
  step one{&order, 1}, two{&order, 2};
  auto run = [](void* x) {
    auto* s = static_cast<step*>(x);
    s->order->push_back(s->number);
  };
  REQUIRE_OK(cuLaunchHostFunc(stream, run, &one));
  REQUIRE_OK(cuLaunchHostFunc_ptsz(stream, run, &two));
  std::atomic<int> status{-1};
  REQUIRE_OK(cuStreamAddCallback(
      stream,
      [](CUstream, CUresult code, void* x) {
        static_cast<std::atomic<int>*>(x)->store(code);
      },
      &status, 0));
  while (status.load() == -1)
    std::this_thread::yield();
  BOOST_TEST(status.load() == CUDA_SUCCESS);
  BOOST_TEST(order == (std::vector<int>{1, 2}),
             boost::test_tools::per_element());
  CHECK_CODE(cuLaunchHostFunc(stream, nullptr, nullptr),
             CUDA_ERROR_INVALID_VALUE);
}

// A GPU runs many streams through few queues.
BOOST_AUTO_TEST_CASE(calls_behind_a_host_function_are_bounded) {
  std::atomic<bool> ended{false};
  std::atomic<int> appended{0};
  CUstream other = nullptr;
  CUevent e = nullptr;
  REQUIRE_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  REQUIRE_OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  fake().pause();
  REQUIRE_OK(cuLaunchHostFunc(
      stream, [](void* x) { static_cast<std::atomic<bool>*>(x)->store(true); },
      &ended));
  constexpr auto all = 2000, most = 1000;
  std::jthread appends{[&] {
    for (auto i = 0; i < all; ++i, ++appended)
      (void)cuEventRecord(e, other);
  }};
  auto now = [] { return std::chrono::steady_clock::now(); };
  for (auto late = now() + std::chrono::seconds{60};
       appended <= 100 && now() < late;)
    std::this_thread::yield();
  BOOST_TEST(appended > 100);
  // Nothing tells that a thread has stopped for good.
  for (auto until = now() + std::chrono::seconds{1};
       appended < most && now() < until;)
    std::this_thread::yield();
  BOOST_TEST(appended < most);
  BOOST_TEST(!ended);
  fake().resume();
  appends.join();
  BOOST_TEST(ended);
  BOOST_TEST(appended == all);
  REQUIRE_OK(cuStreamDestroy(other));
  REQUIRE_OK(cuEventDestroy(e));
}

// If the call waited for the function, neither would continue.
BOOST_AUTO_TEST_CASE(a_host_function_that_waits_for_its_caller_delays_it_once) {
  struct {
    std::atomic<bool> go{false}, ended{false};
  } flags;
  CUstream other = nullptr;
  CUevent e = nullptr;
  REQUIRE_OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  REQUIRE_OK(cuLaunchHostFunc(
      stream,
      [](void* x) {
        auto& mine = *static_cast<decltype(flags)*>(x);
        while (!mine.go)
          std::this_thread::yield();
        mine.ended = true;
      },
      &flags));
  auto began = std::chrono::steady_clock::now();
  REQUIRE_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  for (auto i = 0; i < 2000; ++i)
    REQUIRE_OK(cuEventRecord(e, other));
  REQUIRE_OK(cuStreamDestroy(other));
  auto took = std::chrono::steady_clock::now() - began;
  BOOST_TEST((took >= std::chrono::seconds{10}));
  // A second delay would take ten seconds more.
  BOOST_TEST((took < std::chrono::seconds{20}));
  flags.go = true;
  REQUIRE_OK(cuStreamSynchronize(stream));
  // This stream does not wait for host functions, which use the flags.
  while (!flags.ended)
    std::this_thread::yield();
  REQUIRE_OK(cuEventDestroy(e));
}

/// Makes streams until it is destroyed, and destroys them then.
struct many_streams {
  std::vector<CUstream> made;
  ~many_streams() {
    for (auto* x : made)
      (void)cuStreamDestroy(x);
  }
  CUresult add() {
    CUstream x = nullptr;
    auto code = cuStreamCreate(&x, CU_STREAM_NON_BLOCKING);
    if (code == CUDA_SUCCESS)
      made.push_back(x);
    return code;
  }
};

// A program may make the stream while the function waits for it.
BOOST_AUTO_TEST_CASE(making_a_few_streams_waits_for_no_host_function) {
  struct flags {
    std::atomic<bool> go{false}, ended{false};
  };
  static flags held; // outlives the function's last use of it
  REQUIRE_OK(cuLaunchHostFunc(
      stream,
      [](void* x) {
        auto* its = static_cast<flags*>(x);
        its->go.wait(false);
        its->ended = true;
        its->ended.notify_all();
      },
      &held));
  many_streams few;
  for (int i = 0; i < 16; ++i)
    BOOST_TEST(few.add() == CUDA_SUCCESS);
  BOOST_TEST(!held.ended);
  held.go = true;
  held.go.notify_all();
  held.ended.wait(false);
}

// A driver has channels for some streams only. To make one more, it waits for
// all streams.
BOOST_AUTO_TEST_CASE(making_many_streams_waits_for_pending_host_functions) {
  many_streams many;
  for (int i = 0; i < 24; ++i)
    REQUIRE_OK(many.add());
  std::atomic<bool> ended{false};
  fake().pause();
  REQUIRE_OK(cuLaunchHostFunc(
      stream, [](void* x) { static_cast<std::atomic<bool>*>(x)->store(true); },
      &ended));
  auto made = std::async(std::launch::async, [&] {
    (void)cuCtxSetCurrent(primary);
    (void)many.add();
    return ended.load();
  });
  BOOST_TEST((made.wait_for(std::chrono::milliseconds{100}) ==
              std::future_status::timeout));
  fake().resume();
  BOOST_TEST(made.get());
}

BOOST_AUTO_TEST_CASE(callbacks_may_not_use_memory) {
  CUdeviceptr p = 0;
  REQUIRE_OK(cuMemAlloc(&p, 16));
  struct answer {
    CUdeviceptr asked;
    CUresult code = CUDA_SUCCESS;
    std::atomic<bool> done{false};
  } got{.asked = p};
  REQUIRE_OK(cuStreamAddCallback(
      stream,
      [](CUstream, CUresult, void* x) {
        auto* a = static_cast<answer*>(x);
        CUdeviceptr base = 0;
        std::size_t bytes = 0;
        a->code = cuMemGetAddressRange(&base, &bytes, a->asked);
        a->done = true;
      },
      &got, 0));
  while (!got.done.load())
    std::this_thread::yield();
  CHECK_CODE(got.code, CUDA_ERROR_NOT_PERMITTED);
  REQUIRE_OK(cuMemFree(p));
}

BOOST_AUTO_TEST_CASE(host_functions_may_not_call_the_driver) {
  // The function's thread has a context of its own choice, as after the
  // runtime's first call there.
  struct asked {
    CUstream stream;
    CUcontext context = nullptr;
    CUevent event = nullptr;
    std::array<CUresult, 5> codes{};
    std::atomic<bool> done{false};
  } x{.stream = stream};
  REQUIRE_OK(cuCtxGetCurrent(&x.context));
  REQUIRE_OK(cuEventCreate(&x.event, CU_EVENT_DEFAULT));
  REQUIRE_OK(cuLaunchHostFunc(
      stream,
      [](void* p) {
        auto* a = static_cast<asked*>(p);
        CUdeviceptr made = 0;
        (void)cuCtxSetCurrent(a->context);
        a->codes = {cuCtxSynchronize(), cuStreamSynchronize(a->stream),
                    cuEventSynchronize(a->event), cuMemAlloc(&made, 16),
                    cuStreamQuery(a->stream)};
        a->done = true;
      },
      &x));
  REQUIRE_OK(cuEventRecord(x.event, stream));
  while (!x.done.load())
    std::this_thread::yield();
  for (auto code : x.codes)
    CHECK_CODE(code, CUDA_ERROR_NOT_PERMITTED);
  REQUIRE_OK(cuStreamSynchronize(stream));
  REQUIRE_OK(cuEventDestroy(x.event));
}

BOOST_AUTO_TEST_CASE(many_threads_share_the_log) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      cuCtxSetCurrent(primary);
      CUstream s = nullptr;
      CUdeviceptr p = 0;
      auto ok = cuStreamCreate(&s, 0) == CUDA_SUCCESS &&
                cuMemAlloc(&p, 4096) == CUDA_SUCCESS;
      for (unsigned i = 0; ok && i < 300; ++i) {
        unsigned back = 0;
        ok = cuMemsetD32Async(p, i, 1024, s) == CUDA_SUCCESS &&
             cuMemcpyDtoHAsync(&back, p + 400, 4, s) == CUDA_SUCCESS &&
             back == i && cuStreamSynchronize(s) == CUDA_SUCCESS;
      }
      ok = ok && cuMemFree(p) == CUDA_SUCCESS &&
           cuStreamDestroy(s) == CUDA_SUCCESS;
      if (!ok)
        failures.fetch_add(1);
    });
  for (auto& t : threads)
    t.join();
  BOOST_TEST(failures.load() == 0);
}

BOOST_AUTO_TEST_CASE(a_client_that_dies_is_replaced) {
  auto before = fake().greetings();
  REQUIRE_OK(work());
  REQUIRE_OK(cuCtxSynchronize());
  fake().hang_up();
  REQUIRE_OK(work());
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(fake().greetings() == before + 1);
}

BOOST_AUTO_TEST_SUITE_END()
