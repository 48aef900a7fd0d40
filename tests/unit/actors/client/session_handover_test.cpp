// Sessions that leave a worker on another host: what travels while calls go on,
// and what while the session stands still.
#include "tests/unit/actors/worker_elsewhere.hpp"

#include "actors/state/snapshot_inflow.hpp"

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace {

struct leaves_elsewhere : elsewhere {
  // This worker is silent while it writes its file.
  explicit leaves_elsewhere(std::chrono::milliseconds part_within = 60s)
      : elsewhere(control::protection::none, 60s, part_within) {
    call();
    // From here on the client takes orders.
    BOOST_TEST(worker.next<data::calls>(1).has_value());
  }

  /// Changes so many pieces, each time to something else.
  void change(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      worker.file.set(i, ++seed_);
  }

  /// Restores the state in the next worker. Returns the bytes that it got.
  std::uint64_t restore_elsewhere() {
    auto& next =
        next_.emplace(zmq, link_options::form::bind, "tcp://127.0.0.1:*");
    lease(2, {{next.endpoint(), "", "elsewhere"}, {}, {}});
    data::attach hello;
    do
      hello = next.next<data::attach>();
    while (hello.restore == 0);
    auto to = snapshot_inflow::begin(hello.restore,
                                     std::move(*make_state_memory()), {});
    BOOST_REQUIRE(to.ok());
    while (!to->complete()) {
      while (auto x = to->want())
        next.say(*x, {}, 2);
      if (!to->works()) {
        auto got = next.hear();
        BOOST_REQUIRE(got.has_value());
        if (auto* x = std::get_if<data::state_part>(&got->head.body))
          BOOST_REQUIRE(to->take(x->from, got->in->bulk()).ok());
      }
      BOOST_REQUIRE(to->work().ok());
    }
    auto index = whole_index(to->file());
    BOOST_TEST(index.position == worker.tail);
    for (std::size_t i = 0; i < worker.file.pieces.size(); ++i)
      BOOST_TEST(index.memory[i].hash == worker.file.pieces[i].hash);
    next.say(data::attached{{.received = worker.tail, .executed = worker.tail}},
             {}, 2);
    return to->bytes().travelled;
  }

  /// Returns the text of the event about what travelled.
  std::string copied() {
    std::string out;
    BOOST_TEST(in.wait([&] {
      return in.has<control::event>([&](auto& x) {
        out = x.text;
        return x.kind == "session-copied";
      });
    }));
    return out;
  }

private:
  unsigned seed_ = 1000;
  /// Is the next worker. What it said last may still be under way when
  /// restore_elsewhere() returns.
  std::optional<talker> next_;
};

struct impatient_for_parts : leaves_elsewhere {
  impatient_for_parts() : leaves_elsewhere(200ms) {}
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(sessions_that_leave_workers_elsewhere,
                         leaves_elsewhere)

BOOST_AUTO_TEST_CASE(a_session_stands_still_for_what_changed_alone) {
  order_pause(1);
  auto ahead = worker.give_snapshot(1);
  BOOST_TEST(more_than(ahead, worker.file, 6) == 0u);
  call();
  change(1);
  auto rest = worker.give_rest(1);
  BOOST_TEST(more_than(rest, worker.file, 1) == 0u);
  BOOST_TEST(paused(1) == "");
  rest += restore_elsewhere();
  auto text = copied();
  BOOST_TEST(text.find(std::to_string(ahead) +
                       " bytes of its state travelled while "
                       "its calls went on, and " +
                       std::to_string(rest) + " bytes") != std::string::npos,
             text);
}

/// A round that is not small is followed by another one, as long as they
/// shrink.
BOOST_AUTO_TEST_CASE(rounds_go_on_while_they_shrink) {
  worker.file = kept_file{40};
  order_pause(1);
  for (auto count : {40u, 25u, 18u, 1u}) {
    if (count != 40)
      change(count);
    BOOST_TEST(more_than(worker.give_snapshot(1), worker.file, count) == 0u);
  }
  BOOST_TEST(more_than(worker.give_rest(1), worker.file, 0) == 0u);
  BOOST_TEST(paused(1) == "");
}

BOOST_AUTO_TEST_CASE(a_session_that_changes_all_its_memory_leaves_as_well) {
  worker.file = kept_file{20};
  order_pause(1);
  worker.give_snapshot(1);
  change(20);
  worker.give_snapshot(1);
  change(20);
  BOOST_TEST(more_than(worker.give_rest(1), worker.file, 20) == 0u);
  BOOST_TEST(paused(1) == "");
}

BOOST_AUTO_TEST_CASE(a_refused_copy_ends_the_move) {
  order_pause(1);
  BOOST_TEST(worker.next<data::checkpoint>(1).has_value());
  worker.say(1, data::not_checkpointed{"it has no room"});
  BOOST_TEST(worker.next<data::go_on>(1).has_value());
  BOOST_TEST(paused(1) == "it has no room");
}

BOOST_AUTO_TEST_CASE(the_state_of_a_session_that_sleeps_is_compressed) {
  order_pause(1, true);
  auto order = worker.next<data::checkpoint>(1);
  BOOST_REQUIRE(order.has_value());
  BOOST_TEST((!order->go_on && order->compress));
}

/// The session goes on where it was: nothing of it has left.
BOOST_AUTO_TEST_CASE(a_copy_that_is_damaged_on_its_way_ends_the_move) {
  order_pause(1);
  auto order = worker.next<data::checkpoint>(1);
  BOOST_REQUIRE(order.has_value());
  worker.file.finish(worker.tail);
  worker.say(1, data::checkpointed{.position = worker.tail,
                                   .bytes = worker.file.bytes,
                                   .order = order->order});
  auto head = worker.next<data::state_wanted>(1);
  BOOST_REQUIRE(head.has_value());
  std::vector<std::byte> noise(head->to - head->from);
  worker.say(1, data::state_part{head->from}, noise);
  BOOST_TEST(worker.next<data::go_on>(1).has_value());
  BOOST_TEST(paused(1) != "");
}

BOOST_FIXTURE_TEST_CASE(a_part_that_does_not_come_ends_the_move,
                        impatient_for_parts) {
  order_pause(1);
  auto order = worker.next<data::checkpoint>(1);
  BOOST_REQUIRE(order.has_value());
  worker.file.finish(worker.tail);
  worker.say(1, data::checkpointed{.position = worker.tail,
                                   .bytes = worker.file.bytes,
                                   .order = order->order});
  // It sends nothing of what the client asks for.
  BOOST_TEST(worker.next<data::state_wanted>(1).has_value());
  BOOST_TEST(worker.next<data::go_on>(1, 0).has_value());
  BOOST_TEST(paused(1).find("no part of its state came") == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
