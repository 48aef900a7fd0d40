// A session whose state cannot be described: the driver checkpoints its
// worker's process.
#include "tests/unit/actors/data_plane_fixture.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;
namespace data_of = boost::unit_test::data;

namespace {

/// A driver that succeeds or fails as the test says.
struct process_checkpoint : world {
  std::mutex lock;
  std::condition_variable changed;
  std::vector<gpu_move> asked;
  std::string trouble; // why the next requests fail
  unsigned fails = 0;  // how many requests fail
  fault_kind failure = fault_kind::internal;
  std::shared_ptr<gate> door = std::make_shared<gate>();

  struct a_helper final : helper {
    status found;
    std::shared_ptr<std::atomic<bool>> told =
        std::make_shared<std::atomic<bool>>(false);
    std::thread thread;

    ~a_helper() override { thread.join(); }
    std::optional<status> outcome() override {
      return told->load() ? std::optional{found} : std::nullopt;
    }
  };

  process_checkpoint() {
    hides_heap = true;
    gpu_mover =
        [this](gpu_move what,
               std::function<void()> ring) -> result<std::unique_ptr<helper>> {
      auto out = std::make_unique<a_helper>();
      std::lock_guard guard{lock};
      if (fails != 0 && fails-- != 0)
        out->found = fault{failure, trouble};
      *away = true;
      auto is_out = what == gpu_move::release;
      out->thread = std::thread{
          [open = door, told = out->told, ring, is_out, gone = away] {
            open->pass();
            *gone = is_out;
            *told = true;
            ring();
          }};
      asked.push_back(what);
      changed.notify_all();
      return std::unique_ptr<helper>{std::move(out)};
    };
  }

  ~process_checkpoint() { door->open(); }

  bool wait_asked(std::size_t count) {
    std::unique_lock guard{lock};
    return changed.wait_for(guard, 120s, [&] { return asked.size() >= count; });
  }

  std::string suspend(std::uint64_t epoch = 1) {
    order_pause(epoch, true);
    return paused(epoch);
  }
  bool is_checkpointed() {
    return in.wait([&] {
      return in.has<control::paused>(
          [](auto& x) { return x.process_checkpointed; });
    });
  }
  void order_back(std::uint64_t epoch = 1) {
    caf::anon_send(in.io, std::make_shared<const control::restore_process>(
                              control::restore_process{{1}, {epoch}}));
  }
  bool is_back() {
    return in.wait([&] {
      return in.has<control::restored>([](auto& x) { return x.bytes != 0; });
    });
  }
  bool was_woken(std::chrono::milliseconds at_most = 120s) {
    return in.wait(
        [&] {
          return in.has<control::wake_session>([](auto&) { return true; });
        },
        at_most);
  }
  auto holds(const running_worker& worker, std::uint64_t bytes) {
    return await("the worker holds memory, or none, as expected",
                 [gauges = worker.gauges, bytes] {
                   return (gauges->memory.load() != 0) == (bytes != 0);
                 });
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(checkpointed_processes)

BOOST_DATA_TEST_CASE_F(process_checkpoint,
                       the_next_call_restores_a_checkpointed_process,
                       data_of::make(both), where) {
  auto worker = begin(transport::automatic, where.same_host);
  add(5);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(holds(worker, 256));
  BOOST_TEST(suspend() == "");
  BOOST_TEST(is_checkpointed());
  BOOST_TEST(*away);
  BOOST_TEST(holds(worker, 0));
  BOOST_TEST(!was_woken(300ms));
  add(4);
  BOOST_TEST(was_woken());
  // The process is not restored before the manager orders it.
  BOOST_TEST(*away);
  order_back();
  BOOST_TEST(is_back());
  BOOST_TEST(read_counter() == 9u);
  BOOST_TEST(holds(worker, 256));
  BOOST_TEST((asked == std::vector{gpu_move::release, gpu_move::restore}));
  // A second suspension works as well.
  in.told.clear();
  BOOST_TEST(suspend() == "");
  BOOST_TEST(is_checkpointed());
  order_back();
  BOOST_TEST(is_back());
  add(1);
  BOOST_TEST(read_counter() == 10u);
}

BOOST_DATA_TEST_CASE_F(process_checkpoint,
                       calls_sent_during_a_checkpoint_are_not_lost,
                       data_of::make(both), where) {
  begin(transport::automatic, where.same_host);
  door->close();
  order_pause(1, true);
  BOOST_TEST(wait_asked(1));
  add(5); // the worker may have received it
  door->open();
  BOOST_TEST(paused(1) == "");
  BOOST_TEST(was_woken());
  order_back();
  BOOST_TEST(read_counter() == 5u);
}

BOOST_DATA_TEST_CASE_F(process_checkpoint,
                       a_process_that_cannot_be_checkpointed_runs_on,
                       data_of::make(both), where) {
  begin(transport::automatic, where.same_host);
  trouble = "the driver does not want to";
  fails = 1;
  BOOST_TEST(suspend().find("does not want to") != std::string::npos);
  add(5);
  BOOST_TEST(read_counter() == 5u);
  // The driver's changes were undone.
  BOOST_TEST((asked == std::vector{gpu_move::release, gpu_move::restore}));
  // Where the driver refuses before it changes anything, nothing is undone.
  in.told.clear();
  failure = fault_kind::unsupported;
  fails = 1;
  BOOST_TEST(suspend().find("does not want to") != std::string::npos);
  *away = false;
  add(1);
  BOOST_TEST(read_counter() == 6u);
  BOOST_TEST(asked.size() == 3u);
}

BOOST_DATA_TEST_CASE_F(process_checkpoint,
                       a_process_that_cannot_be_restored_is_recovered,
                       data_of::make(both), where) {
  auto worker = begin(transport::automatic, where.same_host);
  add(5);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(suspend() == "");
  trouble = "its memory is gone";
  fails = 3;
  order_back();
  wait_for(worker);
  BOOST_TEST(asked.size() == 4u);
  *away = false;
  lease(2, start_worker(2, where.same_host));
  add(1);
  BOOST_TEST(read_counter() == 6u);
}

BOOST_DATA_TEST_CASE_F(process_checkpoint, a_failed_restore_is_tried_again,
                       data_of::make(both), where) {
  begin(transport::automatic, where.same_host);
  BOOST_TEST(suspend() == "");
  fails = 2;
  order_back();
  BOOST_TEST(is_back());
  add(5);
  BOOST_TEST(read_counter() == 5u);
}

/// The first report of the loss was dropped.
BOOST_DATA_TEST_CASE_F(process_checkpoint,
                       a_loss_while_checkpointed_is_reported_again,
                       data_of::make(both), where) {
  auto worker = begin(transport::automatic, where.same_host);
  add(5);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(suspend() == "");
  kill(worker);
  auto suspected = [&] {
    return in.wait(
        [&] { return in.has<control::suspect>([](auto&) { return true; }); });
  };
  BOOST_TEST(suspected());
  in.told.clear();
  order_back();
  BOOST_TEST(suspected());
  *away = false;
  lease(2, start_worker(2, where.same_host));
  BOOST_TEST(read_counter() == 5u);
}

BOOST_DATA_TEST_CASE_F(process_checkpoint,
                       the_next_client_restores_a_checkpointed_process,
                       data_of::make(both), where) {
  auto worker = begin(transport::automatic, where.same_host);
  add(5);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(suspend() == "");
  BOOST_TEST(is_checkpointed());
  kill_client();
  add(2);
  connect(transport::automatic, true);
  lease(1, worker);
  BOOST_TEST(read_counter() == 7u);
}

BOOST_DATA_TEST_CASE_F(process_checkpoint,
                       only_a_suspension_checkpoints_a_process,
                       data_of::make(both), where) {
  begin(transport::automatic, where.same_host);
  BOOST_TEST(pause(1).find("call malloc") != std::string::npos);
  BOOST_TEST(asked.empty());
  add(5);
  BOOST_TEST(read_counter() == 5u);
}

/// A manager repeats an order if it does not know whether the first one
/// arrived.
BOOST_DATA_TEST_CASE_F(process_checkpoint, a_repeated_order_is_carried_out_once,
                       data_of::make({true, false}), hidden) {
  hides_heap = hidden;
  begin(transport::automatic, true);
  add(5);
  BOOST_TEST(read_counter() == 5u);
  door->close();
  order_pause(1, true);
  if (hidden)
    BOOST_TEST(wait_asked(1));
  order_pause(1, true);
  door->open();
  BOOST_TEST(paused(1) == "");
  order_pause(1, true);
  // Orders are answered one after the other, so this one's answer comes last.
  order_pause(9, true);
  BOOST_TEST(paused(9) != "");
  auto refused = false;
  auto look = [&] {
    refused = in.has<control::paused>([](auto& x) {
      return x.epoch == vgpu::epoch{1} && !x.failure.empty();
    });
    return true;
  };
  BOOST_TEST(in.wait(look));
  BOOST_TEST(!refused);
}

BOOST_FIXTURE_TEST_CASE(a_describable_session_is_not_checkpointed_as_process,
                        process_checkpoint) {
  hides_heap = false;
  auto worker = begin(transport::automatic, true);
  BOOST_TEST(suspend() == "");
  wait_for(worker);
  BOOST_TEST(asked.empty());
}

BOOST_FIXTURE_TEST_CASE(a_session_with_a_failed_call_is_not_checkpointed,
                        process_checkpoint) {
  begin(transport::automatic, true);
  append(call::mem_free{.address = 12345, .bytes = 8});
  (void)ask(call::device_sync{});
  BOOST_TEST(suspend().find("error") != std::string::npos);
  BOOST_TEST(asked.empty());
}

BOOST_AUTO_TEST_SUITE_END()
