// A process of an old epoch is refused, whatever else it knows, and its results
// are not used. The test plays the old worker or the old client.
#include "tests/unit/actors/data_plane_fixture.hpp"
#include "tests/unit/actors/talker.hpp"

#include "actors/state/state_file.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

#include <csignal>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;
namespace data_of = boost::unit_test::data;

namespace {

bool readable(int fd) {
  pollfd item{fd, POLLIN, 0};
  return ::poll(&item, 1, 10'000) == 1;
}

/// Returns the next packet of this kind, and drops the others.
template <class Body>
std::optional<std::pair<Body, std::vector<unique_fd>>> next(int socket) {
  while (readable(socket)) {
    auto got = receive_packet(socket);
    if (!got || !*got || (*got)->closed)
      break;
    auto head = data::decode((*got)->words);
    if (head && std::holds_alternative<Body>(head->body))
      return std::pair{std::get<Body>(head->body),
                       std::move((*got)->descriptors)};
  }
  return std::nullopt;
}

void say(int socket, std::uint64_t epoch, data::body what) {
  BOOST_TEST(
      send_packet(socket, data::encode({{1}, {epoch}, std::move(what)})).ok());
}

/// A worker on the program's host that does what the test says.
class acted_worker {
public:
  acted_worker()
      : name_("vgpu-acted-" + std::to_string(::getpid())),
        listener_(std::move(*listen_abstract(name_))) {}

  running_worker where() const { return {{"", name_, host_id()}, {}, {}}; }

  /// Takes the client's first message, which shows its lease.
  data::attach take_client() {
    BOOST_REQUIRE(readable(listener_.get()));
    client_ = accept_own(listener_.get());
    BOOST_REQUIRE(static_cast<bool>(client_));
    auto hello = next<data::attach>(client_.get());
    BOOST_REQUIRE(hello.has_value());
    descriptors = std::move(hello->second);
    return hello->first;
  }

  /// Fills the listening socket, so that whoever connects must wait.
  void crowd() {
    while (auto one = connect_abstract(name_))
      crowd_.push_back(std::move(*one));
  }

  /// Ends the worker's process.
  void die() { listener_ = unique_fd{}; }

  void say(std::uint64_t epoch, data::body what) {
    ::say(client_.get(), epoch, std::move(what));
  }

  /// Returns the next order to write a state that differs from `before`.
  data::checkpoint take_order(std::uint64_t before = 0) {
    for (;;) {
      auto order = next<data::checkpoint>(client_.get());
      BOOST_REQUIRE(order.has_value());
      if (order->first.order == before)
        continue;
      descriptors = std::move(order->second);
      return order->first;
    }
  }

  const std::string& name() const noexcept { return name_; }

  /// The descriptors of the last message taken.
  std::vector<unique_fd> descriptors;

private:
  std::string name_;
  unique_fd listener_, client_;
  std::vector<unique_fd> crowd_;
};

/// Writes a state without any calls.
data::checkpointed write_empty_state(int file, std::uint64_t order) {
  state_writer to{file, false};
  auto bytes = to.finish(state_index{});
  BOOST_REQUIRE(bytes.ok());
  return {.bytes = *bytes, .order = order};
}

/// Is a process of the given name that listens on a worker's socket.
class listening_process {
public:
  explicit listening_process(const char* comm)
      : name_("vgpu-worker-7-" + std::to_string(::getpid())) {
    int ready[2];
    BOOST_REQUIRE(::pipe(ready) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::prctl(PR_SET_NAME, comm);
      auto listener = listen_abstract(name_);
      char told = listener.ok() ? 'y' : 'n';
      (void)!::write(ready[1], &told, 1);
      for (;;)
        ::pause();
    }
    ::close(ready[1]);
    char told = 'n';
    BOOST_REQUIRE(::read(ready[0], &told, 1) == 1);
    BOOST_REQUIRE(told == 'y');
    ::close(ready[0]);
  }
  listening_process(const listening_process&) = delete;
  listening_process& operator=(const listening_process&) = delete;
  ~listening_process() {
    if (ended_)
      return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  /// Returns whether it was ended, which whoever ended it has waited for.
  bool ended() {
    ended_ = ended_ || ::waitpid(pid_, nullptr, WNOHANG) == pid_;
    return ended_;
  }

  const std::string& name() const noexcept { return name_; }

private:
  std::string name_;
  pid_t pid_ = 0;
  bool ended_ = false;
};

struct attempt {
  const char* name;
  std::uint64_t epoch;
  bool accepted;
};
std::ostream& operator<<(std::ostream& to, const attempt& x) {
  return to << x.name;
}
const attempt attempts[] = {
    {"an old client", 2, false},
    {"a client of a lease that is not this worker's", 4, false},
    {"the client", 3, true}};

} // namespace

BOOST_AUTO_TEST_SUITE(fences_of_processes)

BOOST_AUTO_TEST_CASE(only_a_worker_is_ended) {
  listening_process bystander{"editor"};
  auto refused = end_worker(bystander.name(), 10s);
  BOOST_TEST(!refused.ok());
  BOOST_TEST(refused.why().what.find("no worker") != std::string::npos);
  BOOST_TEST(!bystander.ended());
}

BOOST_AUTO_TEST_CASE(a_worker_is_ended_and_is_dead_then) {
  listening_process worker{"vgpu-worker"};
  BOOST_TEST(end_worker(worker.name(), 10s).ok());
  BOOST_TEST(worker.ended());
  BOOST_TEST(end_worker(worker.name(), 10s).ok());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(fences, world)

// -- an old worker

BOOST_AUTO_TEST_CASE(a_stuck_worker_does_not_count_as_dead) {
  acted_worker stuck;
  stuck.crowd();
  BOOST_TEST(!end_worker(stuck.name(), 50ms).ok());
  stuck.die();
  BOOST_TEST(end_worker(stuck.name(), 50ms).ok());
}

BOOST_AUTO_TEST_CASE(a_mapped_workers_message_of_another_epoch_is_dropped) {
  acted_worker worker;
  connect(transport::automatic);
  lease(3, worker.where());
  worker.take_client();
  worker.say(3, data::attached{});
  for (std::uint64_t epoch : {2, 4})
    worker.say(epoch, data::differs{{epoch}, 1, false, {}});
  worker.say(3, data::differs{{3}, 1, false, {}});
  BOOST_TEST(told("replay-differs"));
  auto events = 0;
  std::lock_guard guard{in.lock};
  (void)in.has<control::event>([&](auto& x) {
    events += x.kind == "replay-differs" ? 1 : 0;
    return false;
  });
  BOOST_TEST(events == 1);
}

BOOST_AUTO_TEST_CASE(an_answer_of_another_epoch_is_dropped) {
  talker worker{zmq, link_options::form::bind, "tcp://127.0.0.1:*"};
  connect(transport::forwarded);
  lease(3, {{worker.endpoint(), "", "elsewhere"}, {}, {}});
  BOOST_REQUIRE(worker.hear());
  auto call = append(call::device_sync{}, 1);
  data::answer wrong{
      .number = 1, .call = call, .slot = 1, .result = CUDA_ERROR_UNKNOWN};
  worker.say(data::attached{}, {}, 3);
  for (std::uint64_t epoch : {2, 4})
    worker.say(wrong, {}, epoch);
  worker.say(data::answer{.number = 1, .call = call, .slot = 1}, {}, 3);
  BOOST_TEST((answer_of(1) == CUDA_SUCCESS));
}

// -- an old client

BOOST_DATA_TEST_CASE_F(world, a_worker_serves_a_client_of_its_own_epoch_alone,
                       data_of::make(attempts), who) {
  auto worker = start_worker(3, false);
  auto socket = connect_abstract(worker.endpoints.guest_socket);
  BOOST_REQUIRE(socket.ok());
  auto memory = area.descriptors();
  std::vector<int> fds{memory.begin(), memory.end()};
  fds.push_back(doorbell.get());
  // The token is right, because a lease may be old in its epoch alone.
  data::attach hello;
  hello.token = token;
  auto words = data::encode({{1}, {who.epoch}, hello});
  BOOST_REQUIRE(send_packet(socket->get(), words, fds).ok());
  if (who.accepted)
    BOOST_TEST(next<data::attached>(socket->get()).has_value());
  else
    BOOST_TEST(next<data::refused>(socket->get()).has_value());
}

BOOST_AUTO_TEST_CASE(an_older_lease_does_not_move_a_session_back) {
  auto first = start_worker(2, false);
  connect(transport::forwarded);
  auto second = start_worker(3, false);
  lease(3, second);
  prepare();
  lease(2, first);
  add(4);
  BOOST_TEST(read_counter() == 4u);
  BOOST_TEST(first.gauges->calls.load() == 0u);
}

// -- an old snapshot and an old state

BOOST_AUTO_TEST_CASE(a_snapshot_of_another_epoch_or_order_is_not_kept) {
  protect = control::protection::snapshot;
  acted_worker worker;
  connect(transport::automatic);
  lease(3, worker.where());
  worker.take_client();
  worker.say(3, data::attached{});
  append(call::device_sync{});
  auto given_up = worker.take_order();
  auto old_file = std::move(worker.descriptors);
  worker.say(3, data::not_checkpointed{"not now"});
  auto order = worker.take_order(given_up.order);
  auto newest = [&] { return area.header().newest.load(); };
  // The first is of the abandoned order, the second of another worker.
  worker.say(3, write_empty_state(old_file[0].get(), given_up.order));
  worker.say(2, write_empty_state(worker.descriptors[0].get(), order.order));
  worker.say(3, data::differs{{1}, 1, false, {}});
  BOOST_TEST(told("replay-differs"));
  BOOST_TEST(newest() == 0u);
  worker.say(3, write_empty_state(worker.descriptors[0].get(), order.order));
  BOOST_TEST(
      await("the requested snapshot is kept", [&] { return newest() != 0; }));
}

// An adopted state's file becomes the worker's memory. After that worker's loss
// the state must not be used again, even if the client has not yet read that
// the worker had begun.
BOOST_AUTO_TEST_CASE(a_state_adopted_by_a_lost_worker_is_not_used_again) {
  auto first = begin(transport::automatic, true);
  add(5);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(pause(1) == "");
  wait_for(first);
  acted_worker second;
  lease(2, second.where());
  BOOST_TEST(second.take_client().adopt);
  auto& state = second.descriptors.at(session_area::descriptor_count + 1);
  // The client gets the next lease and waits for the second worker's end, so it
  // reads that worker's message only after its death.
  second.crowd();
  lease(3, start_worker(3, false));
  BOOST_TEST(::ftruncate(state.get(), 0) == 0);
  second.say(2, data::attached{});
  second.die();
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(told("session-replayed"));
  BOOST_TEST(!told("state-refused", 0ms));
}

BOOST_AUTO_TEST_SUITE_END()
