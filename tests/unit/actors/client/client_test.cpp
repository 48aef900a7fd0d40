// What a client reports to the manager, above all to one that has just started.
#include "actors/client/client.hpp"

#include "tests/unit/actors/deterministic.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using test::take;

namespace {

/// A client. The test plays its sessions' threads and its link.
struct a_client : test::deterministic {
  test::outbox out;
  std::vector<pause_session> orders;
  std::size_t leases = 0;
  session_client_actor io =
      spawn([this]() -> session_client_actor::behavior_type {
        return {
            [this](const lease_ptr&) { ++leases; },
            [](const refusal_ptr&) {},
            [](const news_ptr&) {},
            [this](const pause_order_ptr& x) { orders.push_back(*x); },
            [](const restore_process_ptr&) {},
            [](const watched_ptr&) {},
        };
      });
  link_actor link = spawn(test::fake_link, &out);
  client_actor chief;
  static constexpr session_id session{3};

  a_client() { begins(); }

  void begins() {
    client_options options;
    options.name = "client/c";
    chief = spawn(client, options, link, [] {});
    run();
  }

  void says(body what, std::uint64_t request = 0) {
    tell(chief, test::letter("", "manager", std::move(what), request));
  }
  /// Connects the client to a manager without any state.
  void meets_manager() {
    out.clear();
    says(welcome{});
  }
  void loses_manager() { tell(chief, test::gone("")); }

  void opens(std::shared_ptr<const session_area> area = nullptr) {
    auto x = std::make_shared<guest_opened>();
    x->program.name = "prog";
    x->area = std::move(area);
    tell(chief, io, guest_opened_ptr{std::move(x)});
  }
  void has_lease(std::uint64_t epoch) {
    lease x;
    x.session = session;
    x.epoch = {epoch};
    auto asked = take<acquire>(out, "");
    says(x, asked ? asked->second : 0);
  }
  void told(body what) {
    tell(chief, std::make_shared<const body>(std::move(what)));
  }
  void gave_state(std::uint64_t epoch) {
    told(paused{session, {epoch}, "", 1, 2.5});
  }

  adopt adoption() {
    auto got = take<adopt>(out, "");
    BOOST_REQUIRE(got);
    return got->first;
  }
  bool wakes() { return take<wake_session>(out, "").has_value(); }

  /// Orders a session to leave its place.
  void leaves(bool suspend, bool hold = false) {
    meets_manager();
    opens();
    has_lease(1);
    says(pause_session{session, {1}, {}, suspend, hold});
    BOOST_TEST(orders.size() == 1u);
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(client_behaviour, a_client)

BOOST_AUTO_TEST_CASE(the_next_manager_learns_of_a_state_to_migrate) {
  leaves(false);
  loses_manager();
  gave_state(1);
  meets_manager();
  auto x = adoption();
  BOOST_TEST(x.suspended);
  BOOST_TEST(!x.held);
  BOOST_TEST(wakes()); // a migration continues
  // A lease of another place ends the suspension.
  has_lease(2);
  meets_manager();
  BOOST_TEST(!adoption().suspended);
  BOOST_TEST(!wakes());
}

BOOST_AUTO_TEST_CASE(the_next_manager_learns_of_a_changed_recovery) {
  meets_manager();
  opens();
  has_lease(1);
  lease x;
  x.session = session;
  x.epoch = {1};
  x.recovery = {500, 5, divergence::error};
  says(x);
  BOOST_TEST(leases == 2u);
  says(x); // it is nothing new
  BOOST_TEST(leases == 2u);
  loses_manager();
  meets_manager();
  auto told = adoption().specification;
  BOOST_CHECK(recovery_of(told) == x.recovery);
}

BOOST_AUTO_TEST_CASE(the_next_manager_learns_of_a_suspended_session) {
  leaves(true, true);
  loses_manager();
  gave_state(1);
  meets_manager();
  auto x = adoption();
  BOOST_TEST(x.suspended);
  BOOST_TEST(x.held);
  BOOST_TEST(!wakes());
}

BOOST_AUTO_TEST_CASE(the_next_manager_learns_that_a_session_is_held) {
  leaves(true);
  gave_state(1);
  says(pause_session{session, {1}, {}, true, true});
  meets_manager();
  auto x = adoption();
  BOOST_TEST(x.suspended);
  BOOST_TEST(x.held);
  BOOST_TEST(!wakes());
}

BOOST_AUTO_TEST_CASE(a_refused_order_does_not_undo_an_earlier_one) {
  leaves(true);
  gave_state(1);
  told(paused{session, {1}, "it is being moved already", 0, 0});
  meets_manager();
  BOOST_TEST(adoption().suspended);
}

BOOST_AUTO_TEST_CASE(an_order_of_another_epoch_changes_nothing) {
  leaves(true, true);
  gave_state(1);
  says(pause_session{session, {7}, {}, false, false});
  told(paused{session, {7}, "it is not served in this epoch", 0, 0});
  meets_manager();
  auto x = adoption();
  BOOST_TEST(x.suspended);
  BOOST_TEST(x.held);
  BOOST_TEST(!wakes());
}

BOOST_AUTO_TEST_CASE(each_manager_learns_how_long_a_program_waits) {
  opens();
  advance(3s);
  for (auto waited : {3'000u, 8'000u}) {
    meets_manager();
    auto asked = take<acquire>(out, "");
    BOOST_REQUIRE(asked.has_value());
    BOOST_TEST(asked->first.waited_ms == waited);
    loses_manager();
    advance(5s);
  }
}

BOOST_AUTO_TEST_CASE(the_next_client_reports_how_long_a_program_waits) {
  auto made = session_area::create(minimum_log, granule_bytes);
  BOOST_REQUIRE(made.ok());
  auto area = std::make_shared<const session_area>(std::move(*made));
  opens(area);
  for (auto waited : {3'000u, 6'000u}) {
    advance(3s);
    kill(chief);
    begins();
    opens(area);
    meets_manager();
    auto asked = take<acquire>(out, "");
    BOOST_REQUIRE(asked.has_value());
    BOOST_TEST(asked->first.waited_ms == waited);
  }
}

BOOST_AUTO_TEST_SUITE_END()
