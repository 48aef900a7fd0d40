#include "actors/manager/cluster/tenant_registry.hpp"

#include "tests/unit/actors/keyed_cluster.hpp"
#include "tests/unit/actors/manager/election/fake_etcd.hpp"

using namespace vgpu;
using namespace vgpu::control;
using test::gib;
using test::of_biology;
using test::of_physics;
using test::take;

namespace {

specification small(std::uint64_t memory = gib, double share = 0.25) {
  specification out;
  out.memory = memory;
  out.share = share;
  return out;
}

/// A manager to which programs of two tenants come, and an admin on its host.
struct tenanted_cluster : test::keyed_cluster {
  explicit tenanted_cluster(bool begin = true) : keyed_cluster(begin) {}

  void order(body what) {
    say("cmd", "command/1", hello{1, 1, "t", role::command});
    take<welcome>(out, "cmd");
    say("cmd", "command/1", std::move(what), 8);
  }

  /// Returns why an order is refused; empty: it was carried out.
  std::string why_not(body what) {
    order(std::move(what));
    if (take<done>(out, "cmd"))
      return "";
    auto why = refused("cmd");
    BOOST_TEST(why != "");
    return why;
  }

  static set_tenant adding(const std::string& name, tenant_limits limits) {
    return {name, true, limits, true, true, true, true, true};
  }

  void limit(const std::string& name, tenant_limits limits) {
    BOOST_TEST(why_not(adding(name, limits)) == "");
  }

  tenant row(const std::string& name) {
    order(tenants_request{});
    auto got = take<tenants>(out, "cmd");
    BOOST_REQUIRE(got);
    for (const auto& x : got->first.list)
      if (x.name == name)
        return x;
    return {};
  }

  /// Asks for a vGPU with a tenant's key.
  void ask_as(const principal& who, const std::string& peer,
              specification spec = small()) {
    greet_as(who, peer, "client/" + peer, role::client);
    take<welcome>(out, peer);
    acquire asks{spec, {"prog", 9, "h", "me"}};
    say_as(who, peer, "client/" + peer, asks, 5);
    check_index();
  }

  /// Opens a session of a tenant on `node`.
  lease open_as(const principal& who, const std::string& peer,
                const std::string& node = "a", specification spec = small()) {
    ask_as(who, peer, spec);
    auto told = ordered(node);
    BOOST_REQUIRE(told);
    started(node, *told);
    auto got = leased(peer, 5);
    BOOST_REQUIRE(got);
    return *got;
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(tenant_orders, tenanted_cluster)

BOOST_AUTO_TEST_CASE(sessions_beyond_the_quota_are_refused_at_once) {
  join("a");
  limit("physics", {.sessions = 2});
  auto first = open_as(of_physics, "p1");
  open_as(of_physics, "p2");
  ask_as(of_physics, "p3");
  auto why = refused("p3");
  BOOST_TEST(has(why, "tenant 'physics' may have 2 sessions, has 2 (0 wait)"));
  BOOST_TEST(has(why, "vgpu tenant set physics --sessions"));
  BOOST_TEST(has(events().back().text, "prog was refused: tenant 'physics'"));
  // Others are not concerned, also without a key.
  open_as(of_biology, "b1");
  open("a", small());
  // A session that ends makes room.
  say_as(of_physics, "p1", "client/p1",
         close_session{first.session, first.epoch, ""});
  open_as(of_physics, "p4");
  BOOST_TEST(row("physics").sessions == 2u);
  BOOST_TEST(row("biology").sessions == 1u);
  BOOST_TEST(row("default").sessions == 1u);
}

BOOST_AUTO_TEST_CASE(sessions_that_wait_count) {
  join("a");
  limit("physics", {.gpus = 2});
  open_as(of_physics, "p1", "a", small(3 * gib));
  ask_as(of_physics, "p2", small(3 * gib)); // there is no room
  BOOST_TEST(!ordered("a"));
  BOOST_TEST(row("physics").waiting == 1u);
  ask_as(of_physics, "p3");
  auto why = refused("p3");
  BOOST_TEST(has(why, "may have 2 GPUs, has 2 in 2 sessions, of which 1 wait"));
  BOOST_TEST(!ordered("a"));
}

BOOST_AUTO_TEST_CASE(memory_and_shares_are_counted_over_all_nodes) {
  join("a");
  join("b");
  limit("physics", {.memory = 7 * gib, .share = 1.5});
  ask_as(of_physics, "p1", small(3 * gib, 0.5));
  ask_as(of_physics, "p2", small(3 * gib, 0.5));
  ask_as(of_physics, "p3", small(2 * gib, 0.5));
  BOOST_TEST(has(refused("p3"), "may have 7.0 GiB of memory, has 6.0 GiB"));
  ask_as(of_physics, "p4", small(gib, 0.6));
  BOOST_TEST(has(refused("p4"), "of GPUs' shares, has 1"));
  ask_as(of_physics, "p5", {});
  BOOST_TEST(has(refused("p5"), "vgpu run --memory"));
  ask_as(of_physics, "p6", small(gib, 0.5));
  BOOST_TEST(refused("p6") == "");
}

BOOST_AUTO_TEST_CASE(a_tenant_that_was_not_added_has_the_limits_of_default) {
  join("a");
  open_as(of_biology, "b1");
  BOOST_TEST(!row("biology").added);
  BOOST_TEST(row("default").added);
  set_tenant x{"default", false, {.sessions = 1}};
  x.change_sessions = true;
  BOOST_TEST(why_not(x) == "");
  ask_as(of_biology, "b2");
  BOOST_TEST(has(refused("b2"), "vgpu tenant add biology --sessions"));
  // Each has them for itself.
  open_as(of_physics, "p1");
  open("a", small());
  ask(small(), "c", 6);
  BOOST_TEST(has(refused("c"), "tenant 'default'"));
}

BOOST_AUTO_TEST_CASE(orders_that_make_no_sense_are_refused) {
  limit("physics", {});
  BOOST_TEST(has(why_not(adding("physics", {})), "vgpu tenant set"));
  BOOST_TEST(has(why_not(set_tenant{"maths", false, {}}), "no tenant 'maths'"));
  BOOST_TEST(has(why_not(remove_tenant{"maths"}), "no tenant 'maths'"));
  BOOST_TEST(has(why_not(remove_tenant{"default"}), "no tenant 'default'"));
  BOOST_TEST(has(why_not(adding("a b", {})), "letters"));
  BOOST_TEST(has(why_not(adding("maths", {.share = -1})), "share -1"));
  BOOST_TEST(has(why_not(adding("maths", {.priority = 2'000})), "priority"));
  BOOST_TEST(row("maths").name == "");
  BOOST_TEST(count("tenant-set") == 1u);
}

BOOST_AUTO_TEST_CASE(a_change_leaves_other_limits) {
  limit("physics", {1, 2, 0.5, 3, 4});
  set_tenant x{"physics", false, {.gpus = 9}};
  x.change_gpus = true;
  BOOST_TEST(why_not(x) == "");
  BOOST_CHECK((row("physics").limits == tenant_limits{9, 2, 0.5, 3, 4}));
}

BOOST_AUTO_TEST_CASE(a_tenant_with_sessions_is_removed_by_force_alone) {
  join("a");
  limit("physics", {});
  auto got = open_as(of_physics, "p1");
  BOOST_TEST(has(why_not(remove_tenant{"physics"}), "--force"));
  BOOST_TEST(row("physics").added);
  BOOST_TEST(why_not(remove_tenant{"physics", true}) == "");
  // They go on.
  BOOST_TEST(!row("physics").added);
  BOOST_TEST(row("physics").sessions == 1u);
  say_as(of_physics, "p1", "client/p1",
         close_session{got.session, got.epoch, ""});
  BOOST_TEST(row("physics").name == "");
}

BOOST_AUTO_TEST_CASE(tenants_survive_a_restart) {
  join("a");
  limit("physics", {.sessions = 1, .priority = 3});
  limit("gone", {});
  BOOST_TEST(why_not(remove_tenant{"gone"}) == "");
  auto got = open_as(of_physics, "p1");
  restart();
  BOOST_CHECK(
      (row("physics").limits == tenant_limits{.sessions = 1, .priority = 3}));
  BOOST_TEST(row("gone").name == "");
  BOOST_TEST(row("physics").sessions == 1u);
  ask_as(of_physics, "p2");
  BOOST_TEST(has(refused("p2"), "tenant 'physics'"));
  // Nor does its session become another tenant's.
  greet_as(of_biology, "b", "client/b", role::client);
  say_as(of_biology, "b", "client/b", adoption(got), 6);
  BOOST_TEST(has(refused("b"), "token"));
  greet_as(of_physics, "p1", "client/p1", role::client);
  say_as(of_physics, "p1", "client/p1", adoption(got), 6);
  BOOST_TEST(refused("p1") == "");
  BOOST_TEST(row("physics").sessions == 1u);
}

BOOST_AUTO_TEST_CASE(a_priority_is_lowered_for_programs_alone) {
  join("a");
  limit("physics", {.priority = -2});
  auto spec = small();
  spec.priority = 5;
  auto got = open_as(of_physics, "p1", "a", spec);
  BOOST_TEST(status()["vgpus"][0]["priority"] == -2);
  BOOST_TEST(status()["vgpus"][0]["sessions"][0]["tenant"] == "physics");
  auto why = why_not(set_vgpu{got.vgpu, 0, 0, 0, true, -1});
  BOOST_TEST(has(why, "tenant 'physics' may have at most -2"));
  BOOST_TEST(why_not(set_vgpu{got.vgpu, 0, 0, 0, true, -3}) == "");
}

BOOST_AUTO_TEST_CASE(a_vgpu_does_not_grow_beyond_its_tenants_quota) {
  join("a");
  limit("physics", {.memory = 2 * gib, .share = 0.5, .sessions = 1});
  auto got = open_as(of_physics, "p1");
  BOOST_TEST(has(why_not(set_vgpu{got.vgpu, 0, 0, 3 * gib}), "of memory"));
  BOOST_TEST(has(why_not(set_vgpu{got.vgpu, 0.75}), "shares"));
  BOOST_TEST(why_not(set_vgpu{got.vgpu, 0.5, 0, 2 * gib}) == "");
  // Lower limits take nothing away, and allow only less.
  set_tenant x{"physics", false, {.share = 0.25, .sessions = 0}};
  x.change_share = x.change_sessions = true;
  BOOST_TEST(why_not(x) == "");
  BOOST_TEST(why_not(set_vgpu{got.vgpu, 0, 0, gib}) == "");
  BOOST_TEST(why_not(set_vgpu{got.vgpu, 0.375}) == "");
}

BOOST_AUTO_TEST_CASE(requests_before_nodes_register_are_within_the_quota) {
  join("a");
  limit("physics", {.sessions = 1, .priority = -1});
  restart();
  auto urgent = small();
  urgent.priority = 9;
  ask_as(of_physics, "p1", urgent);
  ask_as(of_physics, "p2", urgent);
  ask_as(of_biology, "b1");
  BOOST_TEST((refused("p1") == "" && refused("p2") == ""));
  join("a");
  // Once the nodes are there, those that waited for them go in turn.
  live(std::chrono::seconds{3}, {"a"});
  auto first = ordered("a");
  auto second = ordered("a");
  BOOST_REQUIRE((first && second));
  BOOST_TEST(first->priority == 0);
  BOOST_TEST(second->priority == -1);
  BOOST_TEST(!ordered("a"));
  BOOST_TEST(has(refused("p2"), "tenant 'physics'"));
}

BOOST_AUTO_TEST_CASE(a_claim_that_no_node_confirms_is_within_the_quota) {
  join("a");
  limit("physics", {.sessions = 1});
  auto got = open_as(of_physics, "p1");
  auto made_up = got;
  made_up.session = {77};
  made_up.vgpu = {77};
  greet_as(of_physics, "p2", "client/p2", role::client);
  say_as(of_physics, "p2", "client/p2", adoption(made_up), 6);
  BOOST_TEST(has(refused("p2"), "tenant 'physics' may have 1 sessions"));
  BOOST_TEST(row("physics").sessions == 1u);
}

BOOST_AUTO_TEST_CASE(a_confirmed_session_goes_on_whatever_the_quota_is) {
  join("a");
  ask_as(of_physics, "p1");
  auto told = ordered("a");
  BOOST_REQUIRE(told);
  started("a", *told);
  auto got = leased("p1", 5);
  BOOST_REQUIRE(got);
  restart(false);
  limit("physics", {.sessions = 0});
  auto back = inventory("a");
  back.sessions.push_back(running("a", *told));
  join(back);
  greet_as(of_physics, "p1", "client/p1", role::client);
  say_as(of_physics, "p1", "client/p1", adoption(*got), 6);
  BOOST_TEST(refused("p1") == "");
  BOOST_TEST(row("physics").sessions == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(tenant_terms)

BOOST_AUTO_TEST_CASE(the_next_leader_knows_the_tenants) {
  tenanted_cluster x{false};
  auto etcd = std::make_shared<test::fake_etcd>();
  candidacy how;
  how.election.endpoint = "tcp://here";
  how.etcd =
      std::make_shared<test::fake_access>(etcd, [&x] { return x.now(); });
  x.chief = x.spawn(manager_candidate, x.options(), x.open_store(false),
                    x.spawn(test::fake_link, &x.out), how);
  x.run();
  x.limit("physics", {.sessions = 1});
  BOOST_TEST(etcd->kept().tenants.at("physics").sessions == 1u);
  // Another manager leads for a while, and adds one.
  etcd->release();
  etcd->seize(x.now());
  etcd->kept().tenants["biology"].gpus = 7;
  x.advance(std::chrono::seconds{3});
  x.out.clear();
  etcd->release();
  x.advance(std::chrono::milliseconds{200});
  BOOST_TEST(x.row("physics").limits.sessions == 1u);
  BOOST_TEST(x.row("biology").limits.gpus == 7u);
}

BOOST_AUTO_TEST_SUITE_END()
