// A stream of one device that waits for an event of another.
#include "actors/worker/serve/forwarded_answers.hpp"
#include "tests/unit/actors/session_fixture.hpp"

#include <atomic>

using namespace vgpu;

namespace {

/// A session of two devices, whose calls go to the second.
struct two_devices {
  two_devices() {
    std::vector<std::unique_ptr<device::device>> devices;
    for (auto ordinal : {0u, 1u})
      devices.push_back(device::open_cpu_device(
          {static_cast<int>(ordinal), a_session::quota, 1}, a_session::quota));
    seen = {devices[0].get(), devices[1].get()};
    exec = std::make_unique<executor>(std::move(devices), a_session::quota);
    exec->serve(std::make_shared<forwarded_answers>([] {}));
  }

  template <class Call>
  void call_it(const Call& x, std::uint8_t ordinal) {
    std::vector<std::uint64_t> words(call::message_words(x));
    call::encode(x, ordinal, words);
    number += 8;
    BOOST_REQUIRE(exec->execute({.call = {number},
                                 .end = number + 8,
                                 .slot = 0,
                                 .message = words,
                                 .payload = {}},
                                nullptr));
  }

  std::unique_ptr<executor> exec;
  std::array<device::device*, 2> seen{};
  std::uint64_t number = 0;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(peer_waits, two_devices)

BOOST_AUTO_TEST_CASE(a_stream_waits_for_an_event_of_another_device) {
  constexpr stream_id there{5}, here{6};
  constexpr event_id done{7};
  call_it(call::stream_create{{there}, 1, 0}, 0);
  call_it(call::event_create{{done}, 0}, 0);
  call_it(call::stream_create{{here}, 1, 0}, 1);
  std::function<void()> let_go;
  std::atomic<bool> held = false;
  BOOST_REQUIRE(seen[0]
                    ->enqueue_host(there,
                                   [&](std::function<void()> go_on) {
                                     let_go = std::move(go_on);
                                     held = true;
                                     held.notify_all();
                                   })
                    .ok());
  held.wait(false);
  call_it(call::event_record{{done}, {there}}, 0);
  call_it(call::peer_wait{{here}, done.value, 0}, 1);
  BOOST_TEST(!seen[1]->idle(here));
  let_go();
  std::atomic<bool> came = false;
  seen[1]->when_done(here, [&](CUresult) {
    came = true;
    came.notify_all();
  });
  came.wait(false);
  BOOST_TEST((exec->error() == CUDA_SUCCESS));
}

BOOST_AUTO_TEST_CASE(an_unknown_device_is_refused) {
  call_it(call::peer_wait{{legacy_stream}, 1, 9}, 1);
  BOOST_TEST((exec->error() == CUDA_ERROR_INVALID_DEVICE));
}

BOOST_AUTO_TEST_CASE(an_unknown_event_is_refused) {
  call_it(call::peer_wait{{legacy_stream}, 1, 0}, 1);
  BOOST_TEST((exec->error() == CUDA_ERROR_INVALID_HANDLE));
}

BOOST_AUTO_TEST_SUITE_END()
