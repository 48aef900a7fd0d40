// A program's log, its client's thread and its worker's, in one process. The
// test plays the manager.
#pragma once

#include "actors/client/fence.hpp"
#include "actors/client/guest_codec.hpp"
#include "actors/client/session_client.hpp"
#include "actors/link/key_guard.hpp"
#include "actors/link/system.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/vgpu_state_actor.hpp"
#include "schema/wire/call_codec.hpp"
#include "schema/wire/guest.capnp.h"
#include "tests/unit/actors/plain_device.hpp"

#include <boost/test/unit_test.hpp>
#include <xxhash.h>

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <list>
#include <mutex>
#include <ostream>

namespace vgpu::test {

using namespace std::chrono_literals;

/// How long anything that must happen may take. Only a test that fails waits so
/// long.
inline constexpr std::chrono::milliseconds patience = 120s;

/// What the session's client sent to its owner.
struct inbox {
  std::mutex lock;
  std::condition_variable changed;
  session_client_actor io;
  guest_opened_ptr opened;
  std::vector<control::body> told;
  std::vector<std::string> ends; // why workers ended by themselves

  template <class Body>
  bool has(auto check) {
    return std::any_of(told.begin(), told.end(), [&](auto& x) {
      auto* body = std::get_if<Body>(&x);
      return body != nullptr && check(*body);
    });
  }
  bool wait(auto condition, std::chrono::milliseconds at_most = patience) {
    std::unique_lock guard{lock};
    return changed.wait_for(guard, at_most, condition);
  }
};

inline session_owner::behavior_type owner(session_owner::pointer, inbox* in) {
  return {
      [in](const session_client_actor& io, const guest_opened_ptr& what) {
        std::lock_guard guard{in->lock};
        in->io = io;
        in->opened = what;
        in->changed.notify_all();
      },
      [](const session_client_actor&, const guest_watches_ptr&) {},
      [in](const control_body_ptr& what) {
        std::lock_guard guard{in->lock};
        in->told.push_back(*what);
        in->changed.notify_all();
      },
  };
}

/// Where the first epoch's worker runs.
struct a_place {
  const char* name;
  bool same_host;
};
inline std::ostream& operator<<(std::ostream& to, const a_place& x) {
  return to << x.name;
}
inline const a_place both[] = {{"mapped", true}, {"forwarded", false}};

struct running_worker {
  control::worker_endpoints endpoints;
  vgpu_actor actor;
  std::shared_ptr<session_gauges> gauges;
  port_keys* keys = nullptr; // of its port; null: it has none
};

/// The port of a worker with keys. Such a worker is a process of its own, and a
/// ZeroMQ context has one guard.
struct keyed_port {
  zmq::context_t zmq{2};
  std::unique_ptr<port_keys> keys = std::move(*port_keys::make(zmq));
};

struct world {
  system_config config{2};
  caf::actor_system system{config};
  zmq::context_t zmq{2};
  std::list<keyed_port> ports;
  inbox in;
  session_area area;
  unique_fd doorbell{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  log_writer log{area, doorbell.get(), [this](std::uint64_t x) { fills(x); }};
  unique_fd guest;
  state_places places =
      state_places::create(std::filesystem::temp_directory_path().string());
  control::protection protect = control::protection::journal;
  std::uint32_t recover_within_ms = 2'000;
  double protect_cost = 2; // percent
  control::divergence on_divergence = control::divergence::go_on;
  session_owner hub = system.spawn(owner, &in);
  static constexpr std::uint64_t token = 0x9e37'79b9'7f4a'7c15;
  std::vector<caf::strong_actor_ptr> actors{
      caf::actor_cast<caf::strong_actor_ptr>(hub)};
  std::shared_ptr<test::gate> loading = std::make_shared<test::gate>();
  std::chrono::milliseconds lease_term = 400ms;
  std::chrono::milliseconds longest_call = 60s;
  std::chrono::milliseconds cover_within = 30s;
  std::uint64_t state_memory = std::uint64_t{1} << 30;
  std::string state_dir = std::filesystem::temp_directory_path();
  std::chrono::milliseconds state_part_within = 60s;
  // These apply to workers that start afterwards:
  std::uint32_t drift = 0;
  CUresult work_error = CUDA_SUCCESS; // with which all work ends
  std::size_t device_count = 1;
  bool watches = false;                    // the devices notice changes
  bool blind = false;                      // the devices refuse peek()
  std::shared_ptr<std::uint32_t> variable; // the modules' variable
  bool hides_heap = false;                 // the kernels call malloc
  begin_dry_run dry_run;
  begin_preparation preparation;
  session_standby::teller tell_of_standby;
  shared_file former_contents;
  /// Serves in the next worker; null: a new one.
  std::unique_ptr<executor> ready;
  std::shared_ptr<const lent_parcel> lent;
  /// Makes the devices of workers; empty: make_device() chooses.
  std::function<std::unique_ptr<device::device>()> own_device;
  begin_gpu_move gpu_mover;
  busy_poll_limits looks; // for the client as well
  /// The client's key, which workers admit. Unset: nobody has keys.
  std::optional<key_pair> client_key;
  std::shared_ptr<std::atomic<bool>> away =
      std::make_shared<std::atomic<bool>>(false);
  // The client ends a worker on its own host, which would be this process.
  std::string other_host = "elsewhere";

  explicit world(std::uint64_t log_bytes = std::uint64_t{64} << 20)
      : area{std::move(*session_area::create(log_bytes, granule_bytes * 16))} {}

  ~world() {
    loading->open();
    guest = unique_fd{};
    for (auto& x : actors)
      caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
    system.await_all_actors_done();
  }

  /// Reports a full journal to the client, as the interposer does.
  void fills(std::uint64_t bytes) {
    capnp::MallocMessageBuilder message;
    message.initRoot<wire::GuestNotice>().setJournalFills(bytes);
    auto flat = capnp::messageToFlatArray(message);
    (void)send_packet(
        guest.get(),
        {reinterpret_cast<const std::uint64_t*>(flat.begin()), flat.size()},
        {});
  }

  /// Starts a client's thread for the session. With `resumed` it follows
  /// another client.
  void connect(transport how, bool resumed = false) {
    int ends[2];
    BOOST_REQUIRE(
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    guest = unique_fd{ends[0]};
    session_client_options options;
    options.transport = how;
    options.lease_term = lease_term;
    options.first_word_within = std::max(options.first_word_within, lease_term);
    options.state_memory = state_memory;
    options.state_dir = state_dir;
    options.state_part_within = state_part_within;
    options.busy_poll = looks;
    if (client_key)
      options.keys = std::make_shared<const own_keys>(*client_key);
    actors.push_back(caf::actor_cast<caf::strong_actor_ptr>(
        spawn_session_client(system, zmq, options, unique_fd{ends[1]}, hub)));
    capnp::MallocMessageBuilder message;
    auto hello = message.initRoot<wire::GuestHello>();
    hello.initProgram().setName("test");
    hello.setResumed(resumed);
    auto asked = hello.initSpecification();
    asked.setProtection(static_cast<wire::Protection>(protect));
    asked.setSnapshotMs(control::shortest_snapshot_ms);
    asked.setRecoverWithinMs(recover_within_ms);
    asked.setProtectCost(protect_cost);
    asked.setOnDivergence(static_cast<wire::Divergence>(on_divergence));
    auto flat = capnp::messageToFlatArray(message);
    auto memory = area.descriptors();
    std::vector<int> fds{memory.begin(), memory.end()};
    fds.push_back(doorbell.get());
    for (auto fd : places.descriptors())
      fds.push_back(fd);
    in.opened = nullptr;
    BOOST_REQUIRE(
        send_packet(
            guest.get(),
            {reinterpret_cast<const std::uint64_t*>(flat.begin()), flat.size()},
            fds)
            .ok());
    BOOST_REQUIRE(in.wait([&] { return in.opened != nullptr; }));
  }

  std::unique_ptr<device::device> make_device() const {
    std::unique_ptr<test::plain_device> out;
    if (watches)
      out = std::make_unique<test::watching_device>(loading, drift, blind);
    else
      out = std::make_unique<test::plain_device>(loading, drift);
    out->place_variable(variable);
    out->hides_heap = hides_heap;
    out->away = away;
    out->fail_with(work_error);
    return out;
  }

  std::unique_ptr<executor> make_executor() const {
    std::vector<std::unique_ptr<device::device>> devices;
    for (std::size_t i = 0; i < device_count; ++i)
      devices.push_back(own_device ? own_device() : make_device());
    return std::make_unique<executor>(std::move(devices), 1 << 30);
  }

  running_worker start_worker(std::uint64_t epoch, bool same_host) {
    if (!ready)
      ready = make_executor();
    auto name = "vgpu-test-" + std::to_string(::getpid()) + "-" +
                std::to_string(epoch) + "-" + std::to_string(actors.size());
    link_options bind;
    bind.as = link_options::form::bind;
    bind.endpoint = "tcp://127.0.0.1:*";
    bind.name = "worker";
    bind.io_thread = 0;
    bind.second_port = true;
    running_worker out;
    if (client_key) {
      out.keys = ports.emplace_back().keys.get();
      out.keys->admit(client_key->open);
      bind.keys = out.keys->link();
    }
    auto socket =
        std::make_unique<link_socket>(out.keys ? ports.back().zmq : zmq, bind);
    out.endpoints = {socket->endpoint(), name,
                     same_host ? host_id() : other_host,
                     out.keys ? out.keys->open() : std::string{}};
    out.gauges = std::make_shared<session_gauges>();
    out.actor =
        spawn_vgpu_actor(system,
                         vgpu_actor_options{.vgpu = {1},
                                            .session = {1},
                                            .epoch = {epoch},
                                            .token = token,
                                            .endpoints = out.endpoints,
                                            .lease_term = lease_term,
                                            .longest_call = longest_call,
                                            .cover_within = cover_within,
                                            .dry_run = dry_run,
                                            .preparation = preparation,
                                            .tell_of_standby = tell_of_standby,
                                            .contents = former_contents,
                                            .lent = lent,
                                            .gpu_mover = gpu_mover,
                                            .mapped_busy_poll = looks,
                                            .forwarded_busy_poll = looks},
                         std::exchange(ready, nullptr), std::move(socket),
                         std::move(*listen_abstract(name)), out.gauges,
                         [in = &in](const std::string& why, bool) {
                           std::lock_guard guard{in->lock};
                           in->ends.push_back(why);
                           in->changed.notify_all();
                         });
    actors.push_back(caf::actor_cast<caf::strong_actor_ptr>(out.actor));
    return out;
  }

  void lease(std::uint64_t epoch, const running_worker& worker,
             const control::recovery_terms& recovery = {}) {
    auto x = std::make_shared<control::lease>();
    x->session = {1};
    x->vgpu = {1};
    x->epoch = {epoch};
    x->node = "n" + std::to_string(epoch);
    x->worker = worker.endpoints;
    x->token = token;
    x->quota = 1 << 30;
    x->recovery = recovery;
    caf::anon_send(in.io, lease_ptr{x});
  }

  /// Starts the client and the session's first worker, and calls prepare().
  running_worker begin(transport how, bool same_host) {
    connect(how);
    auto worker = start_worker(1, same_host);
    lease(1, worker);
    prepare();
    return worker;
  }

  template <class Call>
  call_number append(const Call& x, slot_index slot = 0) {
    return call::append(log, x, 0, slot, 0, [](auto) {}, {});
  }

  /// Appends and waits for the answer. Returns its result, or nothing after 10
  /// s.
  template <class Call>
  std::optional<CUresult> ask(const Call& x, slot_index index = 1) {
    append(x, index);
    return answer_of(index);
  }

  std::optional<CUresult> answer_of(slot_index index) {
    auto& slot = area.at(index);
    auto answered = static_cast<std::uint32_t>(slot_state::answered);
    for (auto until = std::chrono::steady_clock::now() + patience;
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

  /// Makes a counter in device memory and a kernel that adds to it.
  void prepare() {
    load();
    BOOST_TEST((answer_of(1) == CUDA_SUCCESS));
  }

  /// Like prepare(), but slot 1 waits for the kernel.
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

  /// Waits until a worker's thread and device have ended.
  void wait_for(const running_worker& worker) {
    caf::scoped_actor self{system};
    self->wait_for(worker.actor);
  }

  void kill(const running_worker& worker) {
    caf::anon_send_exit(worker.actor, caf::exit_reason::kill);
    wait_for(worker);
  }

  /// Kills a worker, and starts another for the session.
  void replace(const running_worker& worker, std::uint64_t next = 2) {
    kill(worker);
    lease(next, start_worker(next, false));
  }

  /// Ends the client's thread, as if its process had died.
  void kill_client() {
    caf::scoped_actor self{system};
    caf::anon_send_exit(in.io, caf::exit_reason::kill);
    self->wait_for(in.io);
  }

  /// Waits until a worker has ended by itself. Returns why the first one did.
  std::string end_of_a_worker() {
    std::string why;
    (void)in.wait([&] {
      why = in.ends.empty() ? std::string{} : in.ends.front();
      return !in.ends.empty();
    });
    return why;
  }

  /// Waits for an event to the manager. Returns whether it came.
  bool told(const std::string& kind,
            std::chrono::milliseconds at_most = patience) {
    return in.wait(
        [&] {
          return in.has<control::event>(
              [&](auto& x) { return x.kind == kind; });
        },
        at_most);
  }

  /// Waits for an event to the manager, and returns its text.
  std::string text_of(const std::string& kind) {
    std::string text;
    (void)in.wait([&] {
      return in.has<control::event>([&](auto& x) {
        if (x.kind == kind)
          text = x.text;
        return x.kind == kind;
      });
    });
    return text;
  }

  /// Orders the client to pause the session, for which a worker is prepared.
  void order_pause(std::uint64_t epoch, bool suspend = false,
                   next_worker next = {},
                   std::vector<std::uint32_t> lend_to = {}) {
    auto order = std::make_shared<control::pause_session>();
    order->session = {1};
    order->epoch = {epoch};
    order->suspend = suspend;
    order->next = std::move(next);
    order->lend_to = std::move(lend_to);
    caf::anon_send(in.io, pause_order_ptr{order});
  }

  /// Returns why the session was not paused, or nothing if it was.
  std::string paused(std::uint64_t epoch) {
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

  std::string pause(std::uint64_t epoch) {
    order_pause(epoch);
    return paused(epoch);
  }

  /// Waits for a condition on memory or files that the client or a worker
  /// writes. Names the condition where it does not come true. Sleeps like the
  /// log's writer, which they wake at each step. A short timeout covers changes
  /// after the last step.
  boost::test_tools::assertion_result await(const char* what, auto condition) {
    constexpr auto unasked = 20ms;
    auto& wanted = area.header().room_wanted;
    for (auto until = std::chrono::steady_clock::now() + patience;
         std::chrono::steady_clock::now() < until;) {
      wanted = 1;
      if (condition())
        return true;
      sleep_while(wanted, 1, unasked);
    }
    boost::test_tools::assertion_result late{condition()};
    late.message() << "this did not come true in time: " << what;
    return late;
  }

  /// Waits until all appended calls are in the session's account.
  auto charged() {
    auto& header = area.header();
    return await("all calls are in the account", [&header] {
      return header.charged.load() == header.tail.load();
    });
  }

  /// Appends a read of the counter, as the interposer does.
  call_number begin_read(slot_index slot) {
    return call::append(log,
                        call::read{.stream = {legacy_stream},
                                   .from = {counter, 0, 0},
                                   .size = {4, 1, 1},
                                   .to = {4096, 4}},
                        0, slot, 4, [](auto) {}, {});
  }

  std::uint32_t read_counter() {
    begin_read(1);
    BOOST_TEST((answer_of(1) == CUDA_SUCCESS));
    std::uint32_t value = 0;
    std::memcpy(&value, area.arena().data() + 4096, 4);
    return value;
  }
};

} // namespace vgpu::test
