// A program's log, its client's thread and its worker's, in one process; the
// manager is the test.
#define BOOST_TEST_MODULE data_plane
#include "actors/executor.hpp"
#include "actors/fence.hpp"
#include "actors/guest_codec.hpp"
#include "actors/session_client.hpp"
#include "actors/session_server.hpp"
#include "actors/system.hpp"
#include "plain_device.hpp"
#include "schema/call_codec.hpp"
#include "schema/guest.capnp.h"

#include <boost/test/unit_test.hpp>
#include <xxhash.h>

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

/// What the session's client told its owner.
struct inbox {
  std::mutex lock;
  std::condition_variable changed;
  caf::actor io;
  guest_opened_ptr opened;
  std::vector<control::body> told;

  template <class Body>
  bool has(auto check) {
    return std::any_of(told.begin(), told.end(), [&](auto& x) {
      auto* body = std::get_if<Body>(&x);
      return body != nullptr && check(*body);
    });
  }
  bool wait(auto condition, std::chrono::milliseconds at_most = 10s) {
    std::unique_lock guard{lock};
    return changed.wait_for(guard, at_most, condition);
  }
};

caf::behavior owner(caf::event_based_actor*, inbox* in) {
  return {
      [in](const caf::actor& io, const guest_opened_ptr& what) {
        std::lock_guard guard{in->lock};
        in->io = io;
        in->opened = what;
        in->changed.notify_all();
      },
      [in](const control_body_ptr& what) {
        std::lock_guard guard{in->lock};
        in->told.push_back(*what);
        in->changed.notify_all();
      },
  };
}

struct running_worker {
  control::worker_endpoints endpoints;
  caf::actor actor;
  std::shared_ptr<session_gauges> gauges;
};

struct world {
  system_config config{2};
  caf::actor_system system{config};
  zmq::context_t zmq;
  inbox in;
  session_area area{std::move(
      *session_area::create(std::uint64_t{64} << 20, granule_bytes * 16))};
  unique_fd doorbell{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  log_writer log{area, doorbell.get(), [](std::uint64_t) {}};
  unique_fd guest;
  caf::actor hub = system.spawn(owner, &in);
  static constexpr std::uint64_t token = 99;
  std::vector<caf::actor> actors{hub};
  std::shared_ptr<test::gate> loading = std::make_shared<test::gate>();
  std::chrono::milliseconds longest_call = 60s;
  std::uint64_t state_memory = std::uint64_t{1} << 30;
  std::string state_dir = std::filesystem::temp_directory_path();
  std::uint32_t drift = 0; // of workers that are started from now on
  // The session's client would end a worker that runs in this very process.
  std::string other_host = "elsewhere";

  ~world() {
    loading->open();
    guest = unique_fd{};
    for (auto& x : actors)
      caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
    system.await_all_actors_done();
  }

  void connect(transport how) {
    int ends[2];
    BOOST_REQUIRE(
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    guest = unique_fd{ends[0]};
    session_client_options options;
    options.transport = how;
    options.state_memory = state_memory;
    options.state_dir = state_dir;
    actors.push_back(system.spawn<session_client, caf::detached>(
        std::ref(zmq), options, unique_fd{ends[1]}, hub));
    capnp::MallocMessageBuilder message;
    message.initRoot<wire::GuestHello>().initProgram().setName("test");
    auto flat = capnp::messageToFlatArray(message);
    int fds[] = {area.control_fd(), area.log_fd(), area.host_fd(),
                 doorbell.get()};
    BOOST_REQUIRE(
        send_packet(
            guest.get(),
            {reinterpret_cast<const std::uint64_t*>(flat.begin()), flat.size()},
            fds)
            .ok());
    BOOST_REQUIRE(in.wait([&] { return in.opened != nullptr; }));
  }

  running_worker start_worker(std::uint64_t epoch, bool same_host) {
    std::vector<std::unique_ptr<device::device>> devices;
    devices.push_back(std::make_unique<test::plain_device>(loading, drift));
    auto name = "vgpu-test-" + std::to_string(::getpid()) + "-" +
                std::to_string(epoch) + "-" + std::to_string(actors.size());
    link_options bind;
    bind.as = link_options::form::bind;
    bind.endpoint = "tcp://127.0.0.1:*";
    bind.name = "worker";
    auto socket = std::make_unique<link_socket>(zmq, bind);
    running_worker out;
    out.endpoints = {socket->endpoint(), name,
                     same_host ? host_id() : other_host};
    out.gauges = std::make_shared<session_gauges>();
    out.actor = system.spawn<session_server, caf::detached>(
        session_server_options{.session = {1},
                               .epoch = {epoch},
                               .token = token,
                               .longest_call = longest_call},
        std::make_unique<executor>(std::move(devices), 1 << 30),
        std::move(socket), std::move(*listen_abstract(name)), out.gauges,
        [](const std::string&, bool) {});
    actors.push_back(out.actor);
    return out;
  }

  void lease(std::uint64_t epoch, const running_worker& worker) {
    auto x = std::make_shared<control::lease>();
    x->session = {1};
    x->vgpu = {1};
    x->epoch = {epoch};
    x->node = "n" + std::to_string(epoch);
    x->worker = worker.endpoints;
    x->token = token;
    x->quota = 1 << 30;
    caf::anon_send(in.io, lease_ptr{x});
  }

  template <class Call>
  call_number append(const Call& x, slot_index slot = 0) {
    return call::append(log, x, 0, slot, 0, [](auto) {}, {});
  }

  /// Appends and waits for the answer; its result, or nothing after 10 s.
  template <class Call>
  std::optional<CUresult> ask(const Call& x, slot_index index = 1) {
    append(x, index);
    return answer_of(index);
  }

  std::optional<CUresult> answer_of(slot_index index) {
    auto& slot = area.at(index);
    auto answered = static_cast<std::uint32_t>(slot_state::answered);
    for (auto until = std::chrono::steady_clock::now() + 10s;
         std::chrono::steady_clock::now() < until;) {
      auto state = slot.state.load();
      if (state == answered) {
        slot.state = 0;
        return static_cast<CUresult>(slot.result.load());
      }
      auto asleep = static_cast<std::uint32_t>(slot_state::waiting_asleep);
      slot.state.compare_exchange_strong(state, asleep);
      sleep_while(slot.state, asleep, 100ms);
    }
    return std::nullopt;
  }

  static constexpr device_address counter = first_window;

  /// A counter in device memory, and a kernel that adds to it.
  void prepare() {
    load();
    BOOST_TEST((answer_of(1) == CUDA_SUCCESS));
  }

  /// The same, and slot 1 waits for the kernel.
  void load() {
    append(call::mem_alloc{.address = counter, .bytes = 256});
    append(call::fill{.stream = {legacy_stream},
                      .to = {counter, 0, 0},
                      .value = 0,
                      .element_bytes = 1,
                      .size = {256, 1, 1}});
    auto image = std::string{"image"};
    auto hash = XXH3_128bits(image.data(), image.size());
    call::digest digest{hash.low64, hash.high64};
    call::append(
        log, call::image_part{.image = digest, .offset = 0, .total = 5}, 0, 0,
        5, [&](auto to) { std::memcpy(to.data(), image.data(), 5); }, {});
    append(call::module_load{.module = {{7}},
                             .image = digest,
                             .facts = {0, 65536}},
           1);
  }

  void add(std::uint32_t what) {
    std::array<std::byte, 12> parameters{};
    std::memcpy(parameters.data(), &counter, 8);
    std::memcpy(parameters.data() + 8, &what, 4);
    append(call::launch{
        .stream = {legacy_stream}, .module = {{7}}, .bytes = parameters});
  }

  /// Until its thread and its device are gone.
  void wait_for(const running_worker& worker) {
    caf::scoped_actor self{system};
    self->wait_for(worker.actor);
  }

  /// Kills a worker; another takes the session up.
  void replace(const running_worker& worker, std::uint64_t next = 2) {
    caf::anon_send_exit(worker.actor, caf::exit_reason::kill);
    wait_for(worker);
    lease(next, start_worker(next, false));
  }

  /// Asks for the session's state: why there is none, if so.
  std::string pause(std::uint64_t epoch) {
    auto order = std::make_shared<control::pause_session>();
    order->session = {1};
    order->epoch = {epoch};
    caf::anon_send(in.io, pause_order_ptr{order});
    std::string why = "no answer";
    auto answered = [&] {
      return in.has<control::paused>([&](auto& x) {
        why = x.failure;
        return x.epoch == vgpu::epoch{epoch};
      });
    };
    BOOST_TEST(in.wait(answered));
    return why;
  }

  /// Waits until all that was appended is in the session's account.
  bool charged() {
    auto all = [this] {
      return area.header().charged.load() == area.header().tail.load();
    };
    for (auto until = std::chrono::steady_clock::now() + 10s;
         !all() && std::chrono::steady_clock::now() < until;)
      std::this_thread::sleep_for(1ms);
    return all();
  }

  std::uint32_t read_counter() {
    auto result = ask(call::read{.stream = {legacy_stream},
                                 .from = {counter, 0, 0},
                                 .size = {4, 1, 1},
                                 .to = {4096, 4}});
    BOOST_TEST((result == CUDA_SUCCESS));
    std::uint32_t value = 0;
    std::memcpy(&value, area.arena().data() + 4096, 4);
    return value;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(data_plane, world)

BOOST_AUTO_TEST_CASE(a_mapped_log_is_served) {
  connect(transport::automatic);
  lease(1, start_worker(1, true));
  prepare();
  for (int i = 0; i < 1000; ++i)
    add(3);
  BOOST_TEST(read_counter() == 3000u);
}

BOOST_AUTO_TEST_CASE(a_forwarded_log_is_served) {
  connect(transport::forwarded);
  lease(1, start_worker(1, true));
  prepare();
  for (int i = 0; i < 1000; ++i)
    add(3);
  BOOST_TEST(read_counter() == 3000u);
}

BOOST_AUTO_TEST_CASE(a_worker_lives_while_a_call_takes_long) {
  connect(transport::forwarded);
  auto worker = start_worker(1, false);
  lease(1, worker);
  loading->close();
  load();
  add(2);
  // Several terms of a lease.
  auto suspected = [&] {
    return in.has<control::suspect>([](auto&) { return true; });
  };
  BOOST_TEST(!in.wait(suspected, 1500ms));
  loading->open();
  BOOST_TEST((answer_of(1) == CUDA_SUCCESS));
  add(3);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(!suspected());
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_stuck_in_a_call_is_suspected) {
  longest_call = 200ms;
  connect(transport::forwarded);
  lease(1, start_worker(1, false));
  loading->close();
  load();
  BOOST_TEST(in.wait(
      [&] { return in.has<control::suspect>([](auto&) { return true; }); }));
}

BOOST_AUTO_TEST_CASE(another_worker_replays_and_goes_on) {
  connect(transport::automatic);
  auto first = start_worker(1, false);
  lease(1, first);
  prepare();
  for (std::uint32_t i = 1; i <= 100; ++i) {
    add(i);
    if (i % 10 == 0)
      BOOST_TEST(read_counter() == i * (i + 1) / 2);
  }
  caf::anon_send_exit(first.actor, caf::exit_reason::kill);
  BOOST_TEST(in.wait([&] {
    return in.has<control::suspect>(
        [](auto& x) { return x.epoch == vgpu::epoch{1}; });
  }));
  add(1);
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 5051u);
  BOOST_TEST(in.wait([&] {
    return in.has<control::event>([](auto& x) {
      return x.kind == "session-replayed" && x.calls > 100 && x.bytes > 0;
    }) && in.has<control::event>([](auto& x) {
      return x.kind == "first-result";
    });
  }));
}

BOOST_AUTO_TEST_CASE(a_replay_is_charged_apart) {
  connect(transport::forwarded);
  auto first = start_worker(1, false);
  lease(1, first);
  prepare();
  for (int i = 0; i < 100; ++i)
    add(1);
  BOOST_TEST(read_counter() == 100u);
  BOOST_TEST(read_counter() == 100u);
  BOOST_TEST(charged());
  caf::anon_send_exit(first.actor, caf::exit_reason::kill);
  wait_for(first);
  auto second = start_worker(2, false);
  lease(2, second);
  add(1);
  BOOST_TEST(read_counter() == 101u);
  BOOST_TEST(charged());
  caf::anon_send_exit(second.actor, caf::exit_reason::kill);
  wait_for(second);
  auto before = first.gauges->account.used();
  auto after = second.gauges->account.used();
  BOOST_TEST(before.from_device == 8u);
  BOOST_TEST(before.replay_bytes == 0u);
  BOOST_TEST(before.device_ns > 0u);
  BOOST_TEST(before.replay_ns == 0u);
  BOOST_TEST(after.from_device == 4u);
  BOOST_TEST(after.replay_bytes == 8u);
  BOOST_TEST(after.replay_ns > 0u);
  BOOST_TEST(after.device_ns > 0u);
}

BOOST_AUTO_TEST_CASE(a_replay_that_brings_the_same_is_not_reported) {
  connect(transport::automatic);
  auto first = start_worker(1, false);
  lease(1, first);
  prepare();
  add(4);
  BOOST_TEST(read_counter() == 4u);
  replace(first);
  BOOST_TEST(read_counter() == 4u);
  auto reported = [&] {
    return in.has<control::event>(
        [](auto& x) { return x.kind == "replay-differs"; });
  };
  BOOST_TEST(!in.wait(reported, 200ms));
}

BOOST_AUTO_TEST_CASE(a_replay_that_brings_something_else_is_reported) {
  connect(transport::automatic);
  auto first = start_worker(1, false);
  lease(1, first);
  prepare();
  add(4);
  auto read = log.tail();
  BOOST_TEST(read_counter() == 4u);
  drift = 1;
  replace(first);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(in.wait([&] {
    return in.has<control::event>([&](auto& x) {
      return x.kind == "replay-differs" && x.calls == 1 &&
             x.vgpu == vgpu_id{1} &&
             x.text.find("number " + std::to_string(read)) != std::string::npos;
    });
  }));
}

BOOST_AUTO_TEST_CASE(a_session_moves_without_a_replay) {
  connect(transport::forwarded);
  auto first = start_worker(1, false);
  lease(1, first);
  prepare();
  for (int i = 0; i < 100; ++i)
    add(3);
  BOOST_TEST(read_counter() == 300u);
  BOOST_TEST(pause(1) == "");
  wait_for(first);
  // What would be executed again would add this each time.
  drift = 1000;
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 300u);
  drift = 0;
  BOOST_TEST(in.wait([&] {
    return in.has<control::restored>([](auto& x) {
      return x.epoch == vgpu::epoch{2} && x.bytes > 0 && x.milliseconds > 0;
    });
  }));
  BOOST_TEST(!in.has<control::event>(
      [](auto& x) { return x.kind == "session-replayed"; }));
}

BOOST_AUTO_TEST_CASE(a_large_state_lies_on_a_disk_without_a_name) {
  state_memory = 0;
  connect(transport::forwarded);
  auto first = start_worker(1, false);
  lease(1, first);
  prepare();
  add(8);
  BOOST_TEST(pause(1) == "");
  wait_for(first);
  for (auto& file : std::filesystem::directory_iterator{
           std::filesystem::temp_directory_path()})
    BOOST_TEST(!file.path().filename().string().starts_with(
        "vgpu-state-1-1-" + std::to_string(::getpid())));
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 8u);
}

BOOST_AUTO_TEST_CASE(a_state_with_nowhere_to_go_stays_where_it_is) {
  state_memory = 0;
  state_dir = "/nonexistent";
  connect(transport::forwarded);
  lease(1, start_worker(1, false));
  prepare();
  add(8);
  BOOST_TEST(pause(1).find("state") != std::string::npos);
  add(1);
  BOOST_TEST(read_counter() == 9u);
}

BOOST_AUTO_TEST_CASE(a_call_of_a_suspended_session_is_told_once) {
  connect(transport::forwarded);
  auto first = start_worker(1, false);
  lease(1, first);
  prepare();
  BOOST_TEST(pause(1) == "");
  wait_for(first);
  auto woken = [&] {
    return in.has<control::wake_session>([](auto&) { return true; });
  };
  BOOST_TEST(!in.wait(woken, 100ms));
  add(5);
  BOOST_TEST(in.wait(woken));
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 5u);
}

BOOST_AUTO_TEST_CASE(a_lost_state_is_made_up_for_by_the_journal) {
  connect(transport::forwarded);
  auto first = start_worker(1, false);
  lease(1, first);
  prepare();
  add(5);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(pause(1) == "");
  wait_for(first);
  // The state is restored once; the worker that has it dies.
  auto second = start_worker(2, false);
  lease(2, second);
  add(6);
  BOOST_TEST(read_counter() == 11u);
  replace(second, 3);
  BOOST_TEST(read_counter() == 11u);
}

BOOST_AUTO_TEST_CASE(an_order_of_another_epoch_changes_nothing) {
  connect(transport::forwarded);
  lease(1, start_worker(1, false));
  prepare();
  BOOST_TEST(pause(7).find("epoch") != std::string::npos);
  add(2);
  BOOST_TEST(read_counter() == 2u);
}

BOOST_AUTO_TEST_CASE(what_is_not_protected_ends_with_a_cuda_error) {
  area.header().protection_level = static_cast<std::uint32_t>(protection::none);
  connect(transport::forwarded);
  auto first = start_worker(1, false);
  lease(1, first);
  prepare();
  caf::anon_send_exit(first.actor, caf::exit_reason::kill);
  append(call::device_sync{}, 2);
  lease(2, start_worker(2, false));
  BOOST_TEST((answer_of(2) == CUDA_ERROR_DEVICE_UNAVAILABLE));
  BOOST_TEST((ask(call::device_sync{}) == CUDA_ERROR_DEVICE_UNAVAILABLE));
  BOOST_TEST(area.header().sticky_error.load() ==
             static_cast<unsigned>(CUDA_ERROR_DEVICE_UNAVAILABLE));
}

BOOST_AUTO_TEST_CASE(a_wrong_token_is_refused) {
  connect(transport::forwarded);
  auto worker = start_worker(1, false);
  auto x = std::make_shared<control::lease>();
  x->session = {1};
  x->epoch = {1};
  x->worker = worker.endpoints;
  x->token = token + 1;
  caf::anon_send(in.io, lease_ptr{x});
  append(call::device_sync{}, 2);
  BOOST_TEST(in.wait(
      [&] { return in.has<control::suspect>([](auto&) { return true; }); }));
  BOOST_TEST(worker.gauges->calls.load() == 0u);
}

BOOST_AUTO_TEST_CASE(a_bad_handle_is_the_calls_error_and_nobody_elses) {
  connect(transport::automatic);
  lease(1, start_worker(1, true));
  prepare();
  BOOST_TEST((ask(call::stream_sync{.stream = {{4711}}}) ==
              CUDA_ERROR_INVALID_HANDLE));
  BOOST_TEST((ask(call::read{.stream = {legacy_stream},
                             .from = {counter + 200, 0, 0},
                             .size = {400, 1, 1},
                             .to = {0, 400}}) == CUDA_ERROR_INVALID_VALUE));
  BOOST_TEST((ask(call::read{.stream = {legacy_stream},
                             .from = {counter, 0, 0},
                             .size = {100, 1, 1},
                             .to = {arena_bytes - 50, 100}}) ==
              CUDA_ERROR_INVALID_VALUE));
  add(2);
  BOOST_TEST(read_counter() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
