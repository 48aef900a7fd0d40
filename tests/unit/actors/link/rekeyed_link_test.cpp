#include "actors/link/key_guard.hpp"
#include "actors/link/link.hpp"
#include "actors/link/log.hpp"
#include "actors/link/system.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

/// Longer than any step takes, even on a busy machine.
constexpr auto patience = 60s;

/// A link and the mailbox of its consumer.
struct side {
  caf::scoped_actor self;
  link_actor link;
  std::string endpoint;

  side(caf::actor_system& system, zmq::context_t& zmq,
       const link_options& options)
      : self(system) {
    auto opened = spawn_link(system, zmq, options);
    BOOST_REQUIRE_MESSAGE(opened.ok(), (opened ? "" : opened.why().what));
    link = opened->actor;
    endpoint = opened->endpoint;
    self->send(link, consumer_of(self));
  }

  ~side() {
    self->send_exit(link, caf::exit_reason::user_shutdown);
    self->wait_for(link);
  }

  void say(std::uint64_t number, const std::string& peer = {}) {
    self->send(link, std::make_shared<const outgoing>(
                         outgoing{peer, {"x", number, control::done{}}}));
  }

  /// Waits for a message with this number, and returns its peer.
  std::string hear(std::uint64_t number) {
    std::string out;
    while (out.empty())
      self->receive(
          [&](const incoming_ptr& in) {
            if (in->what.request == number)
              out = in->peer;
          },
          [](const link_event_ptr&) {},
          caf::after(patience) >> [] { BOOST_FAIL("no message came"); });
    return out;
  }

  /// Waits for a change of connections.
  std::string await(link_event::kind what) {
    std::optional<std::string> out;
    while (!out)
      self->receive([](const incoming_ptr&) {},
                    [&](const link_event_ptr& x) {
                      if (x->what == what)
                        out = x->peer;
                    },
                    caf::after(patience) >>
                        [] { BOOST_FAIL("no change came"); });
    return *out;
  }

  void rekey(std::shared_ptr<const link_keys> keys) {
    self->send(link, link_rekey{std::move(keys)});
  }
};

key_pair fresh_pair() {
  auto out = make_key_pair();
  BOOST_REQUIRE(out.ok());
  return *out;
}

struct rekeyed {
  system_config config;
  caf::actor_system system{config};
  zmq::context_t near, far;
  key_pair old_manager = fresh_pair(), new_manager = fresh_pair();
  key_pair old_own = fresh_pair(), new_own = fresh_pair();
  std::shared_ptr<permitted_keys> permitted = std::make_shared<permitted_keys>(
      permitted_keys::table{{old_own.open, who()}, {new_own.open, who()}});
  key_guard guard{near, permitted};

  rekeyed() { spdlog::set_level(spdlog::level::off); }

  static principal who() { return {principal::kind::node, "a", {}}; }

  std::shared_ptr<const link_keys> serving(const key_pair& own) const {
    return std::make_shared<const link_keys>(link_keys{own, {}, permitted});
  }

  link_options manager() const {
    link_options out;
    out.as = link_options::form::bind;
    out.endpoint = "tcp://127.0.0.1:*";
    out.name = "manager";
    out.keys = serving(old_manager);
    return out;
  }

  static std::shared_ptr<const link_keys> keys_to(const std::string& endpoint,
                                                  const key_pair& own,
                                                  const key_pair& listener) {
    return std::make_shared<const link_keys>(
        link_keys{own, {{endpoint, listener.open}}, nullptr});
  }

  static link_options node(const std::string& endpoint,
                           std::shared_ptr<const link_keys> keys) {
    link_options out;
    out.endpoint = endpoint;
    out.name = "node/a";
    out.keys = std::move(keys);
    return out;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(rekeyed_links, rekeyed)

BOOST_AUTO_TEST_CASE(a_listener_serves_both_keys_at_one_port) {
  side m{system, near, manager()};
  auto with_old = keys_to(m.endpoint, old_own, old_manager);
  auto with_new = keys_to(m.endpoint, new_own, new_manager);
  side stays{system, far, node(m.endpoint, with_old)};
  stays.await(link_event::kind::up);
  stays.say(1);
  auto first = m.hear(1);
  m.rekey(serving(new_manager));
  // Each key gets through, also several times.
  std::vector<std::unique_ptr<side>> all;
  for (auto n = 10u; n < 16; ++n) {
    all.push_back(std::make_unique<side>(
        system, far, node(m.endpoint, n % 2 == 0 ? with_old : with_new)));
    all.back()->await(link_event::kind::up);
    all.back()->say(n);
    auto peer = m.hear(n);
    m.say(n, peer);
    all.back()->hear(n);
  }
  // The connection of before stands.
  stays.say(2);
  BOOST_TEST(m.hear(2) == first);
  m.say(3, first);
  stays.hear(3);
  // Then the former key ends, with its connections.
  m.rekey(nullptr);
  stays.await(link_event::kind::down);
  m.await(link_event::kind::down);
  side late{system, far, node(m.endpoint, with_new)};
  late.await(link_event::kind::up);
  late.say(20);
  m.hear(20);
  all.back()->say(21);
  m.hear(21);
}

BOOST_AUTO_TEST_CASE(a_second_rotation_is_as_the_first) {
  side m{system, near, manager()};
  auto newest = fresh_pair();
  side stays{system, far,
             node(m.endpoint, keys_to(m.endpoint, new_own, new_manager))};
  m.rekey(serving(new_manager));
  stays.await(link_event::kind::up);
  m.rekey(nullptr);
  m.rekey(serving(newest));
  side late{system, far,
            node(m.endpoint, keys_to(m.endpoint, new_own, newest))};
  late.await(link_event::kind::up);
  late.say(1);
  m.hear(1);
  stays.say(2);
  m.hear(2);
}

BOOST_AUTO_TEST_CASE(who_connects_changes_over_when_the_next_keys_work) {
  side m{system, near, manager()};
  side n{system, far,
         node(m.endpoint, keys_to(m.endpoint, old_own, old_manager))};
  n.await(link_event::kind::up);
  n.say(1);
  auto before = m.hear(1);
  // The manager does not have its other key yet.
  n.rekey(keys_to(m.endpoint, new_own, new_manager));
  n.say(2);
  BOOST_TEST(m.hear(2) == before);
  m.rekey(serving(new_manager));
  n.await(link_event::kind::rekeyed);
  n.await(link_event::kind::down);
  n.await(link_event::kind::up);
  n.say(3);
  auto after = m.hear(3);
  BOOST_TEST(after != before);
  m.say(4, after);
  n.hear(4);
  // The former keys are not needed any more.
  m.rekey(nullptr);
  permitted->replace({{new_own.open, who()}});
  n.say(5);
  BOOST_TEST(m.hear(5) == after);
}

BOOST_AUTO_TEST_CASE(who_begins_with_two_keys_uses_the_one_that_works) {
  side m{system, near, manager()};
  auto only = [&](const key_pair& own, const key_pair& listener) {
    return keys_to(m.endpoint, own, listener);
  };
  auto options = node(m.endpoint, only(old_own, new_manager));
  options.next_keys = only(new_own, old_manager);
  side n{system, far, options};
  n.await(link_event::kind::rekeyed);
  n.await(link_event::kind::up);
  n.say(1);
  m.hear(1);
}

BOOST_AUTO_TEST_SUITE_END()
