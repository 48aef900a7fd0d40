// Accounts of use, which are exact even if reports are lost, repeated or late.
#include "actors/manager/cluster/usage_book.hpp"
#include "tests/unit/actors/manager_fixture.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using nlohmann::json;
using test::cluster;
using test::gib;
using test::take;

namespace {

const usage_owner mine{{7}, "vm", "me", "prog"};

usage used(std::uint64_t x) {
  return {x, 2 * x, 3 * x, 4 * x, 5 * x, 6 * x};
}

usage bytes(std::uint64_t x) {
  return {.to_device = x};
}

std::uint64_t to_device(const json& summary) {
  std::uint64_t out = 0;
  for (const auto& x : summary.at("entries"))
    out += x.at("bytes_to_device").get<std::uint64_t>();
  return out;
}

usage_book reread(const usage_book& x) {
  usage_book out;
  for (const auto& line : x.lines())
    out.take(json::parse(line.dump()));
  return out;
}

} // namespace

BOOST_AUTO_TEST_SUITE(books)

BOOST_AUTO_TEST_CASE(a_repeated_or_late_report_counts_once) {
  usage_book book;
  book.open({1}, mine);
  BOOST_TEST(book.report({1}, {1}, used(10), 60));
  BOOST_TEST(!book.report({1}, {1}, used(10), 61));
  BOOST_TEST(!book.report({1}, {1}, used(4), 62)); // an older report
  BOOST_TEST(book.report({1}, {2}, used(5), 120));
  // The former worker's last report comes after the next one's first.
  BOOST_TEST(book.report({1}, {1}, used(12), 121));
  BOOST_CHECK(book.of({1}) == used(17));
  BOOST_TEST(!book.report({2}, {1}, used(1), 130)); // an unknown session
  BOOST_TEST(to_device(book.summary(0, "user", 200)) == 3 * 17u);
}

BOOST_AUTO_TEST_CASE(use_is_booked_in_the_minute_of_its_report) {
  usage_book book;
  book.open({1}, mine);
  book.report({1}, {1}, bytes(100), 3'600);
  book.report({1}, {1}, bytes(150), 3'700);
  book.report({1}, {1}, bytes(151), 7'205);
  BOOST_TEST(to_device(book.summary(0, "vm", 8'000)) == 151u);
  BOOST_TEST(to_device(book.summary(3'660, "vm", 8'000)) == 51u);
  auto last = book.summary(7'210, "vgpu", 8'000);
  BOOST_TEST(to_device(last) == 1u);
  BOOST_TEST(last["since"] == 7'200); // the whole minute
  BOOST_TEST(last["entries"][0]["vgpu"] == 7);
  BOOST_TEST(last["entries"][0]["program"] == "prog");
  BOOST_TEST(to_device(book.summary(7'260, "vgpu", 8'000)) == 0u);
}

BOOST_AUTO_TEST_CASE(a_full_book_merges_minutes_and_keeps_totals) {
  usage_book book;
  auto now = 1'000'000'000.0;
  constexpr std::uint64_t sessions = 60;
  constexpr std::uint64_t minutes = 3'000;
  for (std::uint64_t i = 1; i <= sessions; ++i)
    book.open({i}, {{i}, "vm", "user" + std::to_string(i % 3), "p"});
  for (std::uint64_t minute = 1; minute <= minutes; ++minute) {
    now += 60;
    for (std::uint64_t i = 1; i <= sessions; ++i)
      book.report({i}, {1}, bytes(minute), now);
    BOOST_REQUIRE(book.rows() <= usage_book::most_rows);
  }
  BOOST_TEST(book.folded());
  BOOST_TEST(to_device(book.summary(0, "user", now)) == sessions * minutes);
  BOOST_TEST(book.summary(0, "user", now)["entries"].size() == 3u);
  // Recent use is still exact to the minute.
  BOOST_TEST(to_device(book.summary(now - 600, "user", now)) == sessions * 11);
  auto again = reread(book);
  BOOST_CHECK(again.summary(0, "vgpu", now) == book.summary(0, "vgpu", now));
  BOOST_CHECK(again.summary(now - 90'000, "vgpu", now) ==
              book.summary(now - 90'000, "vgpu", now));
}

BOOST_AUTO_TEST_CASE(very_many_owners_are_merged_into_others) {
  usage_book book;
  constexpr std::uint64_t owners = 50'000;
  for (std::uint64_t i = 1; i <= owners; ++i) {
    book.open({i}, {{i}, "vm", "user" + std::to_string(i), "p"});
    book.report({i}, {1}, bytes(1), 1e9 + 10.0 * static_cast<double>(i));
    book.close({i});
  }
  auto all = book.summary(0, "user", 2e9);
  BOOST_TEST(to_device(all) == owners);
  BOOST_TEST(book.rows() <= usage_book::most_rows);
  auto others =
      std::find_if(all["entries"].begin(), all["entries"].end(),
                   [](const json& x) { return x["user"] == "others"; });
  BOOST_REQUIRE((others != all["entries"].end()));
  BOOST_TEST((*others)["bytes_to_device"] > 1u);
  // The account was closed so long ago that no report can add to it.
  BOOST_TEST(!book.knows({1}));
  BOOST_TEST(book.knows({owners}));
}

BOOST_AUTO_TEST_CASE(reports_of_very_old_epochs_are_dropped) {
  usage_book book;
  book.open({1}, mine);
  for (std::uint64_t epoch = 1; epoch <= 20; ++epoch)
    book.report({1}, {epoch}, bytes(10), 60);
  BOOST_TEST(!book.report({1}, {1}, bytes(11), 60));
  BOOST_TEST(book.report({1}, {19}, bytes(11), 60));
  BOOST_TEST(book.of({1}).to_device == 201u);
}

BOOST_AUTO_TEST_CASE(lines_of_changes_restore_the_same_book) {
  usage_book book;
  usage_book kept;
  auto keep = [&](const std::vector<json>& lines) {
    for (const auto& x : lines)
      kept.take(json::parse(x.dump()));
  };
  book.open({1}, mine);
  book.report({1}, {1}, used(10), 60);
  keep(book.take_lines());
  book.report({1}, {1}, used(11), 70);
  book.report({1}, {2}, used(1), 130);
  keep(book.take_lines({1}));
  BOOST_TEST(!book.changed());
  BOOST_CHECK(kept.lines() == book.lines());
  BOOST_TEST(!kept.report({1}, {1}, used(11), 140));
  BOOST_CHECK(kept.of({1}) == used(12));
}

BOOST_AUTO_TEST_SUITE_END()

namespace {

struct accounting : cluster {
  session_load load(const lease& x, std::uint64_t sent) {
    session_load told;
    told.session = x.session;
    told.epoch = x.epoch;
    told.usage = bytes(sent);
    return told;
  }
  /// Sends a heartbeat. Returns whether it is acknowledged.
  bool beat(std::vector<session_load> sessions,
            std::vector<session_load> ended = {}) {
    say("n-a", "node/a",
        node_beat{"a", 9, std::move(sessions), std::move(ended)});
    auto got = take<beat_ack>(out, "n-a");
    return got && got->first.number == 9;
  }
  json answer(const usage_request& x) {
    say("cmd", "command/1", hello{1, 1, "t", role::command});
    say("cmd", "command/1", x, 6);
    auto got = take<status_text>(out, "cmd");
    BOOST_REQUIRE(got);
    return json::parse(got->first.json);
  }
  std::uint64_t bytes_used() { return to_device(answer({0, "user"})); }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(accounts, accounting)

BOOST_AUTO_TEST_CASE(heartbeats_are_charged_to_the_program_and_its_user) {
  join("a");
  auto x = open("a");
  beat({load(x, 100)});
  beat({load(x, 130)});
  beat({load(x, 130)});
  auto all = answer({0, "vgpu"})["entries"];
  BOOST_REQUIRE(all.size() == 1u);
  BOOST_TEST(all[0]["user"] == "me");
  BOOST_TEST(all[0]["program"] == "prog");
  BOOST_TEST(all[0]["bytes_to_device"] == 130);
  BOOST_TEST(status()["vgpus"][0]["sessions"][0]["usage"]["bytes_to_device"] ==
             130);
}

BOOST_AUTO_TEST_CASE(a_last_report_counts_after_the_session_is_closed) {
  join("a");
  auto x = open("a");
  say("c", "client/c", close_session{x.session, x.epoch, ""});
  BOOST_TEST(beat({}, {load(x, 55)}));
  // The node did not receive the acknowledgement.
  BOOST_TEST(beat({}, {load(x, 55)}));
  BOOST_TEST(bytes_used() == 55u);
}

BOOST_AUTO_TEST_CASE(a_last_report_counts_after_the_node_has_left) {
  join("a");
  auto x = open("a");
  beat({load(x, 10)});
  say("n-a", "node/a", shutdown{}, 2);
  BOOST_TEST(beat({}, {load(x, 60)}));
  BOOST_TEST(bytes_used() == 60u);
}

BOOST_AUTO_TEST_CASE(accounts_survive_their_manager) {
  join("a");
  auto x = open("a");
  beat({load(x, 40)});
  auto closed = open("a");
  say("c", "client/c", close_session{closed.session, closed.epoch, ""});
  restart();
  // The store has the closed session's account, but not its worker's last
  // report.
  join("a");
  BOOST_TEST(beat({load(x, 70)}, {load(closed, 5)}));
  BOOST_TEST(bytes_used() == 75u);
  restart();
  BOOST_TEST(bytes_used() == 75u);
  // A node without the acknowledgement reports it again.
  join("a");
  BOOST_TEST(beat({load(x, 70)}, {load(closed, 5)}));
  BOOST_TEST(bytes_used() == 75u);
}

BOOST_AUTO_TEST_CASE(a_session_on_a_second_worker_is_charged_for_both) {
  join("a");
  auto x = open("a");
  beat({load(x, 40)});
  say("c", "client/c", suspect{x.session, x.epoch, "silent"});
  auto order = ordered("a");
  BOOST_REQUIRE(order);
  started("a", *order);
  auto next = leased("c");
  BOOST_REQUIRE(next);
  BOOST_TEST(beat({load(*next, 3)}, {load(x, 44)}));
  BOOST_TEST(bytes_used() == 47u);
}

BOOST_AUTO_TEST_CASE(a_wrong_request_for_usage_is_refused) {
  say("cmd", "command/1", hello{1, 1, "t", role::command});
  say("cmd", "command/1", usage_request{0, "node"}, 6);
  BOOST_TEST(refused("cmd").find("vm, user, program, tenant or vgpu") !=
             std::string::npos);
  say("cmd", "command/1", usage_request{-1, "user"}, 7);
  BOOST_TEST(refused("cmd").find("since 1970") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
