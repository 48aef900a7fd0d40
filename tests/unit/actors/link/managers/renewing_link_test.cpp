#include "actors/link/managers/renewing_link.hpp"

#include "tests/unit/actors/deterministic.hpp"

#include <string>
#include <vector>

using namespace vgpu;
using namespace vgpu::control;

namespace {

const std::string manager_key(40, 'm');

/// Keeps keys in memory. As a file, it outlives the actor.
struct fake_keys final : key_renewal {
  std::vector<std::string> finished;
  unsigned made = 0;
  unsigned failures = 0;
  std::uint64_t rotation = 0;
  std::shared_ptr<const link_keys> next;

  result<std::shared_ptr<const link_keys>>
  begin(const rotate_key& order) override {
    if (failures != 0) {
      --failures;
      return fault{fault_kind::not_ready, "busy"};
    }
    if (!next || rotation != order.number) {
      link_keys x;
      x.own = {"key-" + std::to_string(++made), "secret"};
      x.listeners = {{"tcp://m", order.manager}};
      next = std::make_shared<const link_keys>(x);
      rotation = order.number;
    }
    return next;
  }

  vgpu::status finish(const std::string& open) override {
    finished.push_back(open);
    return {};
  }
};

control_consumer::behavior_type listener(control_consumer::pointer,
                                         std::vector<std::string>* to) {
  return {
      [to](const incoming_ptr& in) {
        to->emplace_back(name_of(in->what.body));
      },
      [to](const link_event_ptr& x) {
        to->emplace_back(x->what == link_event::kind::rekeyed ? "rekeyed"
                         : x->what == link_event::kind::up    ? "up"
                                                              : "down");
      },
  };
}

/// Keeps what the link was told about keys, too.
link_actor::behavior_type keyed_link(link_actor::pointer, test::outbox* box,
                                     std::vector<std::string>* keys) {
  return {
      [](const control_consumer&) {},
      [box](const outgoing_ptr& out) { box->push_back(*out); },
      [](const link_look& x) {
        caf::anon_send(x.asks, std::make_shared<const link_event>(
                                   link_event{link_event::kind::up, {}}));
      },
      [keys](const link_rekey& x) { keys->push_back(x.keys->own.open); },
  };
}

struct renewing : test::deterministic {
  test::outbox out;
  std::vector<std::string> heard;
  std::vector<std::string> used;
  std::shared_ptr<fake_keys> kept = std::make_shared<fake_keys>();
  renewing_link_actor link;
  using list = std::vector<std::string>;

  renewing() { begin(nullptr); }

  void begin(std::shared_ptr<const link_keys> next) {
    link = spawn(renewing_link, spawn(keyed_link, &out, &used), kept,
                 std::move(next));
    tell(link, spawn(listener, &heard));
  }

  void says(body what, std::uint64_t request = 0) {
    tell(link, std::make_shared<const incoming>(
                   incoming{"m", {"manager", request, std::move(what)}}));
  }
  void changes(link_event::kind what) {
    tell(link, std::make_shared<const link_event>(link_event{what, "m"}));
  }
  /// Returns the number of the request that asks for this key.
  std::uint64_t asked_for(const std::string& key) {
    auto got = test::take<renew_key>(out, {});
    BOOST_REQUIRE(got);
    BOOST_TEST(got->first.number == 3u);
    BOOST_TEST(got->first.key == key);
    return got->second;
  }
};

const rotate_key third{3, manager_key, 20};

} // namespace

BOOST_FIXTURE_TEST_SUITE(renewing_links, renewing)

BOOST_AUTO_TEST_CASE(what_is_not_about_keys_passes) {
  says(welcome{});
  says(done{}, 1);
  changes(link_event::kind::down);
  BOOST_TEST(heard == (list{"welcome", "done", "down"}));
  tell(link, std::make_shared<const outgoing>(
                 outgoing{{}, {"node/x", 1, status_request{}}}));
  BOOST_TEST(test::take<status_request>(out, {}).has_value());
}

BOOST_AUTO_TEST_CASE(
    a_key_is_used_when_it_is_permitted_and_kept_when_it_works) {
  says(third);
  auto request = asked_for("key-1");
  BOOST_TEST(used == list{});
  says(done{}, request);
  BOOST_TEST(used == list{"key-1"});
  BOOST_TEST(kept->finished == list{});
  changes(link_event::kind::rekeyed);
  BOOST_TEST(kept->finished == list{"key-1"});
  BOOST_TEST(heard == list{"rekeyed"});
}

BOOST_AUTO_TEST_CASE(a_lost_answer_leads_to_the_same_key) {
  says(third);
  auto lost = asked_for("key-1");
  changes(link_event::kind::down);
  // The manager tells it again when it has connected.
  says(third);
  auto request = asked_for("key-1");
  BOOST_TEST(request != lost);
  says(done{}, lost);
  BOOST_TEST(used == list{});
  says(done{}, request);
  BOOST_TEST(used == list{"key-1"});
}

BOOST_AUTO_TEST_CASE(a_refused_key_is_not_used) {
  says(third);
  says(refusal{CUDA_ERROR_UNKNOWN, "no", {}}, asked_for("key-1"));
  changes(link_event::kind::rekeyed);
  BOOST_TEST(used == list{});
}

BOOST_AUTO_TEST_CASE(a_busy_file_is_tried_again) {
  kept->failures = 2;
  says(third);
  BOOST_TEST(!test::take<renew_key>(out, {}));
  advance(std::chrono::seconds{1});
  BOOST_TEST(!test::take<renew_key>(out, {}));
  advance(std::chrono::seconds{1});
  says(done{}, asked_for("key-1"));
  BOOST_TEST(used == list{"key-1"});
}

BOOST_AUTO_TEST_CASE(who_died_before_it_kept_its_key_keeps_it_later) {
  says(third);
  asked_for("key-1");
  kill(link);
  begin(kept->next);
  changes(link_event::kind::rekeyed);
  BOOST_TEST(kept->finished == list{"key-1"});
}

BOOST_AUTO_TEST_SUITE_END()
