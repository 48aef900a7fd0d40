// Walks the table of messages: everybody says everything to a manager, and gets
// as far as the table says.
#include "actors/manager/cluster/key_rights.hpp"

#include "tests/unit/actors/keyed_cluster.hpp"

#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>

using namespace vgpu;
using namespace vgpu::control;
using test::each_message;
using test::take;

namespace {

/// Says something to a manager, with or without a key.
struct speaker {
  std::string about;
  std::optional<principal> who;
  role as;
  std::string from;
};

principal of_kind(principal::kind is) {
  return {is, "k", is == principal::kind::tenant ? "physics" : ""};
}

const speaker everybody[] = {
    {"a node", std::nullopt, role::node, "node/k"},
    {"a client", std::nullopt, role::client, "client/k"},
    {"a worker", std::nullopt, role::worker, "worker/1"},
    {"a command", std::nullopt, role::command, "command/1"},
    {"a node's key", of_kind(principal::kind::node), role::node, "node/k"},
    {"a tenant's key", of_kind(principal::kind::tenant), role::client,
     "client/h"},
    {"a tenant's key", of_kind(principal::kind::tenant), role::command,
     "command/1"},
    {"an admin's key", of_kind(principal::kind::admin), role::client,
     "client/h"},
    {"an admin's key", of_kind(principal::kind::admin), role::command,
     "command/1"},
    {"a newcomer's key", of_kind(principal::kind::newcomer), role::client,
     "client/h"},
};

scope key_scope(const senders& by, principal::kind x) {
  return x == principal::kind::node     ? by.node_key
         : x == principal::kind::tenant ? by.tenant_key
         : x == principal::kind::admin  ? by.admin_key
                                        : by.newcomer_key;
}

/// Returns what the table says: about whose sessions `x` may say it.
scope reach_of(const speaker& x, const body& what) {
  const auto& by = senders_of(what);
  if (!x.who)
    return by.has(x.as) ? scope::all : scope::none;
  auto reach = key_scope(by, x.who->is);
  // A newcomer has no role before it has a key of its own.
  return x.who->is == principal::kind::newcomer || by.has(x.as) ? reach
                                                                : scope::none;
}

/// A manager to which everybody speaks.
struct listening : test::keyed_cluster {
  listening() : keyed_cluster(false) { start(false); }

  void say_to_manager(const speaker& x, body what) {
    if (x.who)
      say_as(*x.who, peer_of(x), x.from, std::move(what), 7);
    else
      say(peer_of(x), x.from, std::move(what), 7);
  }

  /// Each has a connection of its own.
  static std::string peer_of(const speaker& x) { return x.about + x.from; }

  /// Returns whether the manager takes the message, or refuses it for what it
  /// contains, but not for who says it.
  bool takes(const speaker& x, body what) {
    if (dead(chief))
      start(false);
    if (auto* first = std::get_if<hello>(&what))
      first->as = x.as;
    say_to_manager(x, hello{1, 1, "t", x.as});
    out.clear();
    say_to_manager(x, std::move(what));
    auto why = refused(peer_of(x));
    for (const auto* part :
         {"does not allow", "may not say", "say hello first"})
      if (why.find(part) != why.npos)
        return false;
    return true;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(message_rights, listening)

BOOST_AUTO_TEST_CASE(everybody_may_say_what_the_table_says) {
  for (const auto& x : everybody)
    for (const auto& what : each_message())
      BOOST_TEST_CONTEXT(x.about << " as " << x.from << " says "
                                 << name_of(what))
  BOOST_TEST(takes(x, what) == (reach_of(x, what) != scope::none));
}

/// Is the table once more, for who reads it: a message that is missing here, or
/// that is here for others, is a change of rights.
BOOST_AUTO_TEST_CASE(the_table_is_as_it_was_decided) {
  const std::string all = "refusal hello report done renewKey";
  const std::map<std::string, std::string> rows = {
      {"node", all + " registerNode nodeBeat workerStarted workerExited "
                     "workerPrepared shutdown"},
      {"client", all + " acquire adopt suspect closeSession paused wakeSession "
                       "restored"},
      {"command",
       all + " injectFault statusRequest eventsRequest shutdown setVgpu "
             "setPolicy suspendVgpu resumeVgpu migrateVgpu drainNode "
             "usageRequest setTenant removeTenant tenantsRequest "
             "auditRequest"},
      // Besides what its programs say. It is about its own sessions alone.
      {"tenant", "statusRequest eventsRequest setVgpu suspendVgpu resumeVgpu "
                 "migrateVgpu usageRequest tenantsRequest"},
      {"newcomer", "enroll"},
  };
  auto words = [&](const std::string& row) {
    std::istringstream in{rows.at(row)};
    return std::set<std::string>{std::istream_iterator<std::string>{in}, {}};
  };
  auto tenant = words("client");
  tenant.merge(words("tenant"));
  auto own = [](bool has) { return has ? scope::own : scope::none; };
  for (const auto& what : each_message()) {
    const auto& by = senders_of(what);
    std::string name = name_of(what);
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(by.node == words("node").contains(name));
      BOOST_CHECK(by.node_key == own(by.node));
      BOOST_TEST(by.client == words("client").contains(name));
      BOOST_CHECK(by.tenant_key == own(tenant.contains(name)));
      BOOST_TEST(by.command == words("command").contains(name));
      BOOST_CHECK(by.admin_key == (by.command ? scope::all : own(by.client)));
      BOOST_CHECK(by.newcomer_key == own(words("newcomer").contains(name)));
      BOOST_TEST(by.worker == (by.node && by.client && by.command));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
