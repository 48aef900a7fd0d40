#include "actors/link/managers/leader_link.hpp"

#include "tests/unit/actors/deterministic.hpp"

using namespace vgpu;
using namespace vgpu::control;

namespace {

welcome in_term(std::uint64_t term) {
  welcome out;
  out.term = term;
  return out;
}

/// What a consumer received: the managers' messages, and changes such as `up`.
struct heard {
  std::vector<std::string> all;

  std::vector<std::string> take() { return std::exchange(all, {}); }
};

control_consumer::behavior_type listener(control_consumer::pointer, heard* to) {
  return {
      [to](const incoming_ptr& in) {
        to->all.push_back(in->peer + " " + name_of(in->what.body));
      },
      [to](const link_event_ptr& x) {
        static constexpr const char* names[] = {"up", "down", "unreachable",
                                                "overrun"};
        to->all.push_back(x->peer + " " +
                          names[static_cast<unsigned>(x->what)]);
      },
  };
}

struct two_managers : test::deterministic {
  test::outbox to_a, to_b;
  heard consumer;
  leader_link_actor link;
  using list = std::vector<std::string>;

  two_managers() {
    auto a = spawn(test::fake_link, &to_a);
    auto b = spawn(test::fake_link, &to_b);
    link = spawn(leader_link, std::string{"a,b"},
                 std::map<std::string, link_actor>{{"a", a}, {"b", b}});
    tell(link, spawn(listener, &consumer));
    changes("a", link_event::kind::up);
    changes("b", link_event::kind::up);
  }

  void says(const std::string& who, body what) {
    tell(link, test::letter(who, "manager", std::move(what)));
  }
  void changes(const std::string& who, link_event::kind what) {
    tell(link, std::make_shared<const link_event>(link_event{what, who}));
  }
  void send() {
    tell(link, std::make_shared<const outgoing>(
                   outgoing{{}, {"node/x", 1, status_request{}}}));
  }
};

const std::vector<std::string> nothing;

} // namespace

BOOST_FIXTURE_TEST_SUITE(leader_links, two_managers)

BOOST_AUTO_TEST_CASE(a_manager_that_sends_welcome_is_the_leader) {
  BOOST_TEST(consumer.take() == nothing);
  says("a", redirect{"b", 1});
  send();
  BOOST_TEST(consumer.take() == nothing);
  says("b", in_term(1));
  BOOST_TEST(consumer.take() == (list{"a,b up", "a,b welcome"}));
  send();
  BOOST_TEST(to_a.size() == 0u);
  BOOST_TEST(to_b.size() == 1u);
  says("b", done{});
  BOOST_TEST(consumer.take() == list{"a,b done"});
}

BOOST_AUTO_TEST_CASE(a_later_leader_takes_its_place) {
  says("a", in_term(1));
  consumer.take();
  says("b", in_term(2));
  BOOST_TEST(consumer.take() == (list{"a,b down", "a,b up", "a,b welcome"}));
  send();
  BOOST_TEST(to_a.size() == 0u);
  BOOST_TEST(to_b.size() == 1u);
}

BOOST_AUTO_TEST_CASE(an_old_leaders_orders_are_dropped) {
  says("a", in_term(1));
  says("b", in_term(2));
  consumer.take();
  says("a", stop_worker{{1}, {1}, "late"});
  says("a", refusal{CUDA_ERROR_UNKNOWN, "late", {1}});
  says("a", in_term(1));
  says("a", redirect{"b", 2});
  BOOST_TEST(consumer.take() == nothing);
  // This also holds when the later leader is gone.
  changes("b", link_event::kind::down);
  consumer.take();
  says("a", in_term(1));
  says("a", stop_worker{{1}, {1}, "late"});
  BOOST_TEST(consumer.take() == nothing);
  says("a", in_term(3));
  BOOST_TEST(consumer.take() == (list{"a,b up", "a,b welcome"}));
}

BOOST_AUTO_TEST_CASE(a_leader_that_steps_down_counts_as_gone) {
  says("a", in_term(1));
  consumer.take();
  says("a", redirect{"", 1});
  BOOST_TEST(consumer.take() == list{"a,b down"});
  send();
  BOOST_TEST(to_a.size() == 0u);
  says("a", in_term(2));
  BOOST_TEST(consumer.take() == (list{"a,b up", "a,b welcome"}));
}

BOOST_AUTO_TEST_CASE(only_the_leaders_lost_connection_is_reported) {
  says("a", in_term(1));
  consumer.take();
  changes("b", link_event::kind::down);
  changes("b", link_event::kind::unreachable);
  BOOST_TEST(consumer.take() == nothing);
  changes("a", link_event::kind::down);
  BOOST_TEST(consumer.take() == list{"a,b down"});
  changes("a", link_event::kind::unreachable);
  BOOST_TEST(consumer.take() == list{"a,b unreachable"});
}

BOOST_AUTO_TEST_CASE(without_terms_the_first_manager_stays_leader) {
  says("a", in_term(0));
  consumer.take();
  says("b", in_term(0));
  BOOST_TEST(consumer.take() == nothing);
  changes("a", link_event::kind::down);
  says("b", in_term(0));
  BOOST_TEST(consumer.take() == (list{"a,b down", "a,b up", "a,b welcome"}));
}

BOOST_AUTO_TEST_CASE(a_refused_hello_is_passed_on) {
  says("a", refusal{CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "old", {}});
  BOOST_TEST(consumer.take() == list{"a,b refusal"});
}

BOOST_AUTO_TEST_SUITE_END()
