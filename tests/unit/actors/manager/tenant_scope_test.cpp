// Walks the table of messages once more: a tenant says everything that it may
// say about another tenant's sessions, which it neither sees nor touches.
#include "actors/manager/cluster/key_rights.hpp"

#include "actors/records/records_json.hpp"

#include "tests/unit/actors/keyed_cluster.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

using namespace vgpu;
using namespace vgpu::control;
using test::gib;
using test::of_biology;
using test::of_physics;
using test::take;

namespace {

const principal of_chief{
    principal::kind::admin, "root", {}, std::string(40, 'r')};

/// Is a number that no manager has given.
constexpr std::uint64_t nobodys = 4'000;

/// Puts a session and its vGPU, which have the same number, into a message.
/// Returns false where it names neither.
template <class T>
bool set_object(T& x, std::uint64_t number) {
  auto has_one = false;
  if constexpr (requires { x.session = session_id{}; }) {
    x.session = {number};
    has_one = true;
  }
  if constexpr (requires { x.vgpu = vgpu_id{}; }) {
    x.vgpu = {number};
    has_one = true;
  }
  return has_one;
}

/// Returns every message about this session and vGPU, in the order of the
/// table. Those that name none are as they are.
std::vector<body> about(std::uint64_t number) {
  std::vector<body> out;
  std::apply(
      [&](const auto&... row) {
        auto add = [&](auto x) {
          set_object(x, number);
          out.emplace_back(std::move(x));
        };
        (add(typename std::decay_t<decltype(row)>::type{}), ...);
      },
      messages);
  for (auto& x : out)
    if (auto* question = std::get_if<usage_request>(&x))
      question->by = "program";
  return out;
}

/// Returns whether a message is about a session or a vGPU. A refusal that a
/// manager gets is only logged.
bool names_object(body what) {
  return !std::holds_alternative<refusal>(what) &&
         std::visit([](auto& x) { return set_object(x, 1); }, what);
}

/// Returns an answer as a text in which no number of a session is left.
std::string text_of(const envelope& x, std::uint64_t number) {
  std::string out = name_of(x.body);
  if (const auto* no = std::get_if<refusal>(&x.body))
    out += " " + std::to_string(no->code) + " " + no->reason;
  else if (const auto* status = std::get_if<status_text>(&x.body))
    out += " " + status->json;
  else if (const auto* list = std::get_if<events>(&x.body))
    for (const auto& each : list->list)
      out += " " + to_line(to_json(each));
  else if (const auto* rows = std::get_if<tenants>(&x.body))
    for (const auto& each : rows->list)
      out += " " + each.name;
  auto digits = std::to_string(number);
  for (auto i = out.find(digits); i != out.npos; i = out.find(digits, i))
    out.replace(i, digits.size(), "#");
  return out;
}

/// A cluster in which each of two tenants has a program on a vGPU.
struct two_tenants : test::keyed_cluster {
  /// Have numbers that appear in no other text.
  session_id own, other;

  two_tenants() {
    auto a = inventory("a");
    a.host = "node-host";
    join(a);
    own = open_as(of_physics, "p", {"own-program", 71, "own-host", "pat"});
    other = open_as(of_biology, "b",
                    {"secret-program", 7'272, "secret-host", "secret-user"});
    for (auto [peer, who] : {std::pair{"pc", &of_physics}, {"ac", &of_chief}})
      greet_as(*who, peer, "command/1", role::command);
    // Both have used something, and something has happened to both.
    std::vector<session_load> loads;
    for (auto id : {own, other}) {
      session_load x{id, {1}};
      x.usage.device_ns = 1'000'000'000;
      loads.push_back(x);
    }
    say("n-a", "node/a", node_beat{"a", 1, loads});
    out.clear();
  }

  session_id open_as(const principal& who, const std::string& peer,
                     const program& what) {
    greet_as(who, peer, "client/" + what.host + "-1", role::client);
    specification asked;
    asked.memory = gib;
    asked.share = 0.25;
    say_as(who, peer, "client/" + what.host + "-1", acquire{asked, what}, 5);
    auto order = ordered("a");
    BOOST_REQUIRE(order);
    started("a", *order);
    BOOST_REQUIRE(leased(peer, 5));
    BOOST_REQUIRE(order->session.value == order->vgpu.value);
    return order->session;
  }

  /// Says something, and returns what the sender is told. Checks that nobody
  /// else is told anything where `quiet`.
  std::string answer(const principal& who, const std::string& peer,
                     const std::string& from, const body& what,
                     std::uint64_t number, bool quiet) {
    out.clear();
    say_as(who, peer, from, what, 7);
    std::string told;
    for (const auto& x : out)
      if (x.peer == peer)
        told += text_of(x.what, number) + "\n";
      else if (quiet)
        BOOST_ERROR(name_of(x.what.body) << " was sent to " << x.peer);
    return told;
  }

  /// Returns what an admin sees of the other tenant's session.
  std::string state_of_other() {
    out.clear();
    say_as(of_chief, "ac", "command/1", status_request{}, 8);
    auto got = take<status_text>(out, "ac");
    BOOST_REQUIRE(got);
    auto all = nlohmann::json::parse(got->first.json);
    for (auto& x : all.at("vgpus"))
      if (x.at("id") == other.value)
        return x.dump();
    return "gone";
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(tenant_scope, two_tenants)

BOOST_AUTO_TEST_CASE(another_tenants_session_is_as_one_that_does_not_exist) {
  auto of_other = about(other.value);
  auto of_nobody = about(nobodys);
  auto before = state_of_other();
  for (std::size_t i = 0; i < of_other.size(); ++i) {
    const auto& what = of_other[i];
    // To claim a session that no manager knows is to have it made.
    if (senders_of(what).tenant_key != scope::own || !names_object(what) ||
        std::holds_alternative<adopt>(what))
      continue;
    auto commands = senders_of(what).command;
    auto peer = commands ? "pc" : "p";
    auto from = commands ? "command/1" : "client/own-host-1";
    BOOST_TEST_CONTEXT(name_of(what)) {
      auto told = answer(of_physics, peer, from, what, other.value, true);
      BOOST_TEST(told.starts_with("refusal"));
      BOOST_TEST(told ==
                 answer(of_physics, peer, from, of_nobody[i], nobodys, true));
      BOOST_TEST(state_of_other() == before);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_tenant_and_an_admin_reach_what_the_table_says) {
  auto of_nobody = about(nobodys);
  auto of_own = about(own.value);
  auto of_other = about(other.value);
  for (std::size_t i = 0; i < of_own.size(); ++i) {
    const auto& what = of_own[i];
    if (!senders_of(what).command || !names_object(what))
      continue;
    BOOST_TEST_CONTEXT(name_of(what)) {
      // Each order finds the cluster as it was.
      auto reaches = [](const principal& who, const char* peer, const body& x,
                        std::uint64_t number, const body& missing) {
        two_tenants fresh;
        auto told = fresh.answer(who, peer, "command/1", x, number, false);
        return told !=
               fresh.answer(who, peer, "command/1", missing, nobodys, false);
      };
      auto may = senders_of(what).tenant_key == scope::own;
      BOOST_TEST(reaches(of_physics, "pc", what, own.value, of_nobody[i]) ==
                 may);
      BOOST_TEST(
          !reaches(of_physics, "pc", of_other[i], other.value, of_nobody[i]));
      // An event of an admin may name anything.
      if (!std::holds_alternative<event>(what))
        BOOST_TEST(
            reaches(of_chief, "ac", of_other[i], other.value, of_nobody[i]));
    }
  }
}

BOOST_AUTO_TEST_CASE(no_answer_names_anything_of_another_tenant) {
  std::string seen;
  for (const auto& what : about(own.value)) {
    if (senders_of(what).tenant_key != scope::own ||
        !senders_of(what).command || std::holds_alternative<hello>(what))
      continue;
    auto told = answer(of_physics, "pc", "command/1", what, nobodys, false);
    BOOST_TEST_CONTEXT(name_of(what) << ": " << told)
    for (const auto* word : {"secret", "7272", "biology", "bo/"})
      BOOST_TEST(told.find(word) == told.npos);
    seen += told;
  }
  // The same answers name what is its own.
  for (const auto* word : {"own-program", "own-host", "physics", "71"})
    BOOST_TEST(seen.find(word) != seen.npos);
  std::string all;
  for (const body& what :
       {body{status_request{}}, body{usage_request{0, "program"}},
        body{events_request{}}, body{tenants_request{}}})
    all += answer(of_chief, "ac", "command/1", what, nobodys, false);
  for (const auto* word : {"own-program", "secret-program", "biology"})
    BOOST_TEST(all.find(word) != all.npos);
}

BOOST_AUTO_TEST_CASE(the_use_of_a_pgpu_tells_nothing_of_others) {
  out.clear();
  say_as(of_physics, "pc", "command/1", status_request{}, 7);
  auto got = take<status_text>(out, "pc");
  BOOST_REQUIRE(got);
  auto all = nlohmann::json::parse(got->first.json);
  const auto& pgpu = all.at("nodes").at(0).at("pgpus").at(0);
  BOOST_TEST(pgpu.at("sessions").size() == 1u);
  BOOST_TEST(all.at("vgpus").size() == 1u);
  BOOST_TEST(all.at("nodes").at(0).at("pid") == 0u);
  BOOST_TEST(all.at("manager").at("pid") == 0u);
}

BOOST_AUTO_TEST_CASE(use_is_shown_to_whom_it_is_charged) {
  for (auto [who, peer, entries] :
       {std::tuple{&of_physics, "pc", 1u}, {&of_chief, "ac", 2u}}) {
    out.clear();
    say_as(*who, peer, "command/1", usage_request{0, "tenant"}, 7);
    auto got = take<status_text>(out, peer);
    BOOST_REQUIRE(got);
    auto all = nlohmann::json::parse(got->first.json).at("entries");
    BOOST_TEST(all.size() == entries);
    BOOST_TEST(all.back().at("tenant") == "physics");
    BOOST_TEST(all.back().at("device_seconds") == 1.0);
  }
}

BOOST_AUTO_TEST_CASE(who_waits_for_events_gets_its_own) {
  say_as(of_physics, "pc", "command/1", events_request{0, 0}, 7);
  auto got = take<control::events>(out, "pc");
  BOOST_REQUIRE(got);
  BOOST_REQUIRE(!got->first.list.empty());
  auto last = got->first.list.back().number;
  say_as(of_physics, "pc", "command/1", events_request{last, 60'000}, 8);
  auto happen = [&](const principal& who, const char* peer, session_id id) {
    event x;
    x.kind = "told";
    x.session = id;
    x.tenant = "physics"; // a message proves nothing
    say_as(who, peer,
           "client/" + std::string{peer == std::string{"p"} ? "own-host-1"
                                                            : "secret-host-1"},
           x);
  };
  happen(of_biology, "b", other);
  BOOST_TEST(!take<control::events>(out, "pc"));
  happen(of_physics, "p", own);
  got = take<control::events>(out, "pc");
  BOOST_REQUIRE(got);
  BOOST_REQUIRE(got->first.list.size() == 1u);
  BOOST_TEST(got->first.list[0].session.value == own.value);
}

BOOST_AUTO_TEST_CASE(places_of_others_are_no_constraint) {
  greet_as(of_physics, "q", "client/q-1", role::client);
  auto why = [&](std::uint64_t beside) {
    out.clear();
    specification asked;
    asked.memory = gib;
    asked.beside = {beside};
    asked.wait_ms = 0;
    say_as(of_physics, "q", "client/q-1", acquire{asked, {"x", 1, "h", "u"}},
           5);
    auto order = ordered("a");
    BOOST_TEST(order.has_value() == (beside == own.value));
    return refused("q");
  };
  BOOST_TEST(why(other.value) == why(nobodys));
  BOOST_TEST(why(own.value) == "");
}

BOOST_AUTO_TEST_CASE(an_unknown_session_does_not_take_another_tenants_vgpu) {
  adopt claim;
  claim.session = {nobodys};
  claim.vgpu = {other.value};
  claim.epoch = {1};
  claim.token = 99;
  claim.node = "a";
  say_as(of_physics, "p", "client/own-host-1", claim, 6);
  BOOST_TEST(refused("p").find("does not have vGPU") != std::string::npos);
  BOOST_TEST(state_of_other().find("physics") == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
