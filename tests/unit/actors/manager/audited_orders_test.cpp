// Everybody gives every order, and the audit log says who it was.
#include "actors/manager/cluster/audit_trail.hpp"

#include "tests/unit/actors/keyed_cluster.hpp"

#include <algorithm>
#include <set>

using namespace vgpu;
using namespace vgpu::control;
using test::of_physics;
using test::take;

namespace {

const principal of_root{
    principal::kind::admin, "root", {}, std::string(40, 'r')};
const principal of_token{
    principal::kind::newcomer, "token-1", {}, std::string(40, 't')};

/// A manager that keeps an audit log.
struct audited_cluster : test::keyed_cluster {
  audited_cluster() : keyed_cluster(false) { begin(); }

  void begin() {
    auto opened = audit_log::open(dir + "/audit", 1.5);
    BOOST_REQUIRE(opened.ok());
    auto with_log = options();
    with_log.audit = std::move(*opened);
    with_log.enroll = [](const principal&, const enroll&) {
      return vgpu::status{};
    };
    chief = spawn(manager, with_log, open_store(false),
                  spawn(test::fake_link, &out));
    run();
  }

  std::vector<audit_record> records() {
    std::vector<audit_record> all;
    audit_check chain;
    BOOST_TEST(each_audit_line(dir + "/audit", [&](std::string_view line) {
                 BOOST_TEST(chain.take(line).ok());
                 all.push_back(*read_audit_line(line));
                 return true;
               }).ok());
    return all;
  }

  audit_record last() { return records().back(); }

  void greet_commands() {
    greet_as(of_root, "r", "command/1", role::command);
    greet_as(of_physics, "p", "command/1", role::command);
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(audited_orders, audited_cluster)

BOOST_AUTO_TEST_CASE(exactly_the_orders_of_the_table_are_written_down) {
  std::set<std::string> orders;
  for (const auto& what : test::each_message()) {
    audited_cluster fresh;
    auto asks =
        senders_of(what).newcomer_key != scope::none ? of_token : of_root;
    auto commands = senders_of(what).command;
    auto from = commands ? "command/1" : "client/1";
    fresh.greet_as(asks, "x", from, commands ? role::command : role::client);
    auto before = fresh.records().size();
    fresh.say_as(asks, "x", from, what, 7);
    auto after = fresh.records();
    BOOST_TEST_CONTEXT(name_of(what)) {
      BOOST_TEST((after.size() > before) == is_order(what));
      if (!is_order(what))
        continue;
      orders.insert(name_of(what));
      BOOST_TEST(after.back().order == name_of(what));
      BOOST_TEST(after.back().name == asks.name);
      BOOST_TEST(after.back().proved);
      BOOST_TEST(!after.back().outcome.empty());
      BOOST_TEST(!text_of_order(what).empty());
    }
  }
  // For who reads it: what is missing here is not written down.
  const std::set<std::string> all = {
      "registerNode", "acquire",   "adopt",       "injectFault",  "shutdown",
      "setVgpu",      "setPolicy", "suspendVgpu", "resumeVgpu",   "migrateVgpu",
      "drainNode",    "enroll",    "setTenant",   "removeTenant", "renewKey"};
  BOOST_TEST(orders == all, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_record_names_principal_object_and_outcome) {
  greet_commands();
  say_as(of_root, "r", "command/1", set_tenant{"t", true, {}}, 7);
  auto done = last();
  BOOST_TEST(done.role == "admin");
  BOOST_TEST(done.from == "command/root/1");
  BOOST_TEST(done.object.starts_with("tenant t"));
  BOOST_TEST(done.outcome == "done");
  say_as(of_physics, "p", "command/1", resume_vgpu{{4}}, 7);
  auto missing = last();
  BOOST_TEST(missing.role == "tenant");
  BOOST_TEST(missing.name == "pat");
  BOOST_TEST(missing.tenant == "physics");
  BOOST_TEST(missing.object == "vGPU 4");
  BOOST_TEST(missing.outcome == "refused");
  BOOST_TEST(missing.reason.find("no vGPU 4") != std::string::npos);
  // What its key does not allow does not even reach a part of the manager.
  say_as(of_physics, "p", "command/1", drain_node{"a"}, 8);
  BOOST_TEST(last().order == "drainNode");
  BOOST_TEST(last().outcome == "refused");
  BOOST_TEST(last().reason.find("does not allow") != std::string::npos);
  // Without a key, nothing is proved.
  say("c", "command/9", hello{1, 1, "t", role::command});
  say("c", "command/9", remove_tenant{"t"}, 7);
  BOOST_TEST(last().role == "command");
  BOOST_TEST(last().name == "command/9");
  BOOST_TEST(!last().proved);
  BOOST_TEST(last().outcome == "done");
}

BOOST_AUTO_TEST_CASE(an_order_that_takes_long_has_two_records) {
  join("a");
  auto got = open("a");
  greet_commands();
  auto before = records().size();
  say_as(of_root, "r", "command/1", suspend_vgpu{got.vgpu}, 7);
  auto accepted = last();
  BOOST_TEST(accepted.outcome == "accepted");
  BOOST_TEST(accepted.of == 0u);
  say("c", "client/c", paused{got.session, got.epoch, ""});
  auto done = last();
  BOOST_TEST(done.outcome == "done");
  BOOST_TEST(done.of == accepted.number);
  BOOST_TEST(done.name == "root");
  BOOST_TEST(done.object == accepted.object);
  BOOST_TEST(records().size() == before + 2);
}

BOOST_AUTO_TEST_CASE(the_record_is_written_before_the_answer_is_sent) {
  greet_commands();
  out.clear();
  say_as(of_root, "r", "command/1", control::shutdown{}, 7);
  BOOST_TEST(dead(chief));
  BOOST_TEST(last().order == "shutdown");
  BOOST_TEST(last().outcome == "done");
}

BOOST_AUTO_TEST_CASE(a_restarted_manager_continues_the_log) {
  greet_commands();
  say_as(of_root, "r", "command/1", set_tenant{"t", true, {}}, 7);
  auto before = records().size();
  kill(chief);
  begin();
  BOOST_TEST(records().size() == before + 1);
  BOOST_TEST(last().outcome == "noted");
}

BOOST_AUTO_TEST_CASE(who_is_refused_all_the_time_does_not_fill_the_log) {
  greet_commands();
  auto before = records().size();
  for (auto i = 0; i < 1'000; ++i)
    say_as(of_physics, "p", "command/1", drain_node{"a"}, 8);
  BOOST_TEST(records().size() - before == log_limit::most_of_one);
  // Orders that are carried out are all there.
  before = records().size();
  for (auto i = 0; i < 20; ++i)
    say_as(of_root, "r", "command/1",
           set_tenant{"t" + std::to_string(i), true, {}}, 7);
  BOOST_TEST(records().size() - before == 20u);
}

BOOST_AUTO_TEST_CASE(an_admin_reads_the_log_and_nobody_else) {
  greet_commands();
  out.clear();
  say_as(of_root, "r", "command/1", audit_request{0}, 7);
  auto page = take<control::audit>(out, "r");
  BOOST_REQUIRE(page);
  BOOST_TEST(page->first.lines.size() == records().size());
  BOOST_TEST(page->first.head == last().number);
  say_as(of_root, "r", "command/1", audit_request{page->first.head}, 8);
  BOOST_TEST(take<control::audit>(out, "r")->first.lines.empty());
  say_as(of_physics, "p", "command/1", audit_request{0}, 7);
  BOOST_TEST(refused("p").find("does not allow") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
