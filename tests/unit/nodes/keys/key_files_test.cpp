#include "nodes/keys/joined_keys.hpp"
#include "nodes/keys/key_folder.hpp"
#include "nodes/keys/manager_keys.hpp"
#include "nodes/keys/token.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace vgpu;
namespace fs = std::filesystem;

namespace {

struct folder_fixture {
  std::string dir;
  key_folder keys;

  folder_fixture() : dir(made()), keys(dir + "/vgpu") {}
  ~folder_fixture() { fs::remove_all(dir); }

  static std::string made() {
    std::string path = fs::temp_directory_path() / "keysXXXXXX";
    return ::mkdtemp(path.data());
  }

  static mode_t mode_of(const std::string& path) {
    struct stat x = {};
    BOOST_REQUIRE(::lstat(path.c_str(), &x) == 0);
    return x.st_mode & 07777;
  }
};

manager_keys some_keys() {
  manager_keys out;
  out.own = *make_key_pair();
  out.endpoint = "tcp://10.0.0.1:7070";
  return out;
}

const principal& who_of(const manager_keys& keys, const token& x) {
  auto open = pair_of(x.secret)->open;
  for (const auto& each : keys.permitted)
    if (each.key == open)
      return each.who;
  BOOST_FAIL("the token is not permitted");
  return keys.permitted.front().who;
}

constexpr double noon = 1'000'000;

} // namespace

BOOST_FIXTURE_TEST_SUITE(key_folders, folder_fixture)

BOOST_AUTO_TEST_CASE(a_file_is_private_and_comes_back) {
  auto missing = keys.read("a");
  BOOST_REQUIRE(missing.ok());
  BOOST_TEST(!missing->has_value());
  BOOST_REQUIRE(keys.write("a", "first").ok());
  BOOST_REQUIRE(keys.write("a", "second").ok());
  BOOST_TEST(**keys.read("a") == "second");
  BOOST_TEST(mode_of(keys.path()) == 0700u);
  BOOST_TEST(mode_of(keys.path_of("a")) == 0600u);
  // Nothing else is left there.
  BOOST_TEST(std::distance(fs::directory_iterator{keys.path()}, {}) == 1);
  BOOST_REQUIRE(keys.remove("a").ok());
  BOOST_TEST(!keys.read("a")->has_value());
  BOOST_TEST(keys.remove("a").ok());
}

BOOST_AUTO_TEST_CASE(a_file_that_others_may_touch_is_refused) {
  BOOST_REQUIRE(keys.write("a", "text").ok());
  auto path = keys.path_of("a");
  for (mode_t mode : {0640, 0604, 0620, 0602}) {
    BOOST_REQUIRE(::chmod(path.c_str(), mode) == 0);
    BOOST_TEST(!keys.read("a").ok());
  }
  BOOST_REQUIRE(::chmod(path.c_str(), 0600) == 0);
  BOOST_TEST(keys.read("a").ok());
  for (mode_t mode : {0720, 0702}) {
    BOOST_REQUIRE(::chmod(keys.path().c_str(), mode) == 0);
    BOOST_TEST(!keys.read("a").ok());
    BOOST_TEST(!keys.write("a", "x").ok());
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_file_is_refused) {
  BOOST_REQUIRE(keys.write("a", "text").ok());
  fs::create_symlink("a", keys.path_of("link"));
  BOOST_TEST(!keys.read("link").ok());
  // Opening it would wait for a writer.
  BOOST_REQUIRE(::mkfifo(keys.path_of("pipe").c_str(), 0600) == 0);
  BOOST_TEST(!keys.read("pipe").ok());
  fs::create_directory(keys.path_of("folder"));
  BOOST_TEST(!keys.read("folder").ok());
  fs::create_symlink(keys.path(), dir + "/elsewhere");
  BOOST_TEST(!key_folder{dir + "/elsewhere"}.read("a").ok());
}

BOOST_AUTO_TEST_CASE(a_file_that_is_too_long_is_refused) {
  BOOST_REQUIRE(keys.write("a", "text").ok());
  BOOST_REQUIRE(::truncate(keys.path_of("a").c_str(), (4 << 20) + 1) == 0);
  BOOST_TEST(!keys.read("a").ok());
}

BOOST_AUTO_TEST_CASE(a_file_of_another_user_is_refused) {
  BOOST_REQUIRE(keys.write("a", "text").ok());
  // Only root can give files away.
  if (::geteuid() != 0 || ::chown(keys.path_of("a").c_str(), 12345, 0) != 0)
    return;
  BOOST_TEST(!keys.read("a").ok());
  BOOST_REQUIRE(::chown(keys.path_of("a").c_str(), 0, 0) == 0);
  BOOST_REQUIRE(::chown(keys.path().c_str(), 12345, 0) == 0);
  BOOST_TEST(!keys.read("a").ok());
}

BOOST_AUTO_TEST_CASE(a_folder_has_one_writer) {
  auto first = keys.lock();
  BOOST_REQUIRE(first.ok());
  auto second = keys.lock();
  BOOST_REQUIRE(!second.ok());
  BOOST_TEST((second.why().kind == fault_kind::not_ready));
  first = fault{};
  BOOST_TEST(keys.lock().ok());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(keys_of_managers, folder_fixture)

BOOST_AUTO_TEST_CASE(the_file_comes_back_as_it_was) {
  BOOST_TEST(!read_manager_keys(keys)->has_value());
  BOOST_REQUIRE(init_manager_keys(keys, "tcp://10.0.0.1:7070").ok());
  auto own = (**read_manager_keys(keys)).own;
  // Those who joined know the key.
  BOOST_TEST(!init_manager_keys(keys, "tcp://10.0.0.1:7070").ok());
  BOOST_REQUIRE(
      change_manager_keys(keys, [](manager_keys& x) -> status {
        (void)add_token(x, principal::kind::tenant, "physics", 3, noon);
        x.permitted.push_back({{principal::kind::node, "a", {}}, x.own.open});
        return {};
      }).ok());
  auto got = **read_manager_keys(keys);
  BOOST_TEST(got.own.secret == own.secret);
  BOOST_TEST(got.endpoint == "tcp://10.0.0.1:7070");
  BOOST_REQUIRE(got.permitted.size() == 2u);
  BOOST_TEST((got.permitted[0].who ==
              principal{principal::kind::newcomer, "token-1", "physics"}));
  BOOST_TEST((got.permitted[0].joins_as == principal::kind::tenant));
  BOOST_TEST(got.permitted[0].uses == 3u);
  BOOST_TEST(got.permitted[0].ends == noon);
  BOOST_TEST(
      (got.permitted[1].who == principal{principal::kind::node, "a", {}}));
}

BOOST_AUTO_TEST_CASE(a_change_that_fails_changes_nothing) {
  BOOST_TEST(
      !change_manager_keys(keys, [](manager_keys&) { return status{}; }).ok());
  BOOST_REQUIRE(init_manager_keys(keys, "tcp://10.0.0.1:7070").ok());
  auto failed = change_manager_keys(keys, [](manager_keys& x) {
    x.endpoint.clear();
    return status{fault{fault_kind::refused, "no"}};
  });
  BOOST_TEST(!failed.ok());
  BOOST_TEST((**read_manager_keys(keys)).endpoint == "tcp://10.0.0.1:7070");
}

BOOST_AUTO_TEST_CASE(a_text_that_is_no_file_of_keys_is_refused) {
  auto good = text_of(some_keys());
  BOOST_REQUIRE(parse_manager_keys(good).ok());
  for (std::size_t n = 0; n + 2 < good.size(); ++n)
    BOOST_TEST(!parse_manager_keys(good.substr(0, n)).ok());
  for (const char* bad :
       {"", "[]", "{}", "null", "7",
        R"({"version":2,"secret":"x","endpoint":"e","permitted":[]})",
        R"({"version":1,"secret":"x","endpoint":"e","permitted":[]})",
        R"({"version":1,"secret":7,"endpoint":"e","permitted":[]})"})
    BOOST_TEST(!parse_manager_keys(bad).ok());
  auto with = some_keys();
  with.permitted.push_back({{principal::kind::node, "a", {}}, with.own.open});
  BOOST_REQUIRE(parse_manager_keys(text_of(with)).ok());
  with.permitted[0].who.name = "a/b";
  BOOST_TEST(!parse_manager_keys(text_of(with)).ok());
  with.permitted[0].who.name = "a";
  with.permitted[0].key = "short";
  BOOST_TEST(!parse_manager_keys(text_of(with)).ok());
  with.permitted[0].key = with.own.open;
  with.permitted.push_back(with.permitted[0]);
  BOOST_TEST(!parse_manager_keys(text_of(with)).ok());
}

/// A manager's keys with one node, and who holds its key.
struct one_node {
  manager_keys all = some_keys();
  key_pair manager = all.own;
  std::string first = make_key_pair()->open;
  std::string second = make_key_pair()->open;

  one_node() {
    auto made = add_token(all, principal::kind::node, {}, 1, 0);
    BOOST_REQUIRE(made.ok());
    BOOST_REQUIRE(enroll(all, who_of(all, *made), first, "a", noon).ok());
  }

  static principal by(const std::string& key) {
    return {principal::kind::node, "a", {}, key};
  }
  bool admits(const std::string& key, double when) const {
    return all.table(when).contains(key);
  }
};

BOOST_AUTO_TEST_CASE(both_keys_are_good_until_a_rotation_ends) {
  one_node x;
  BOOST_TEST(!rotation_for(x.all, x.by(x.first)));
  BOOST_REQUIRE(rotate(x.all, 60, noon).ok());
  BOOST_TEST(x.all.own.open != x.manager.open);
  BOOST_TEST(x.all.former->open == x.manager.open);
  BOOST_TEST(x.all.rotates(noon + 59));
  BOOST_TEST(!rotate(x.all, 60, noon + 59).ok());
  auto told = rotation_for(x.all, x.by(x.first));
  BOOST_REQUIRE(told.has_value());
  BOOST_TEST(told->number == 1u);
  BOOST_TEST(told->manager == x.all.own.open);
  BOOST_TEST(told->ends == noon + 60);
  const control::renew_key asks{1, x.second};
  BOOST_REQUIRE(renew(x.all, x.by(x.first), asks, noon + 1).ok());
  // It comes back as it was, and is the same when it is asked for again.
  auto read = parse_manager_keys(text_of(x.all));
  BOOST_REQUIRE(read.ok());
  BOOST_TEST(text_of(*read) == text_of(x.all));
  x.all = *read;
  BOOST_REQUIRE(renew(x.all, x.by(x.first), asks, noon + 1).ok());
  BOOST_TEST(text_of(x.all) == text_of(*read));
  // Who does not know that it was permitted is told again.
  BOOST_TEST(rotation_for(x.all, x.by(x.first)).has_value());
  BOOST_TEST(!rotation_for(x.all, x.by(x.second)));
  BOOST_TEST(x.admits(x.first, noon + 59));
  BOOST_TEST(x.admits(x.second, noon + 59));
  BOOST_TEST(!x.admits(x.first, noon + 60));
  BOOST_TEST(x.admits(x.second, noon + 60));
  BOOST_REQUIRE(rotate(x.all, 60, noon + 60).ok());
  BOOST_TEST(rotation_for(x.all, x.by(x.second))->number == 2u);
  BOOST_TEST(!x.admits(x.first, noon + 61));
}

BOOST_AUTO_TEST_CASE(who_does_not_renew_its_key_is_out) {
  one_node x;
  BOOST_REQUIRE(rotate(x.all, 60, noon).ok());
  BOOST_TEST(x.admits(x.first, noon + 59));
  BOOST_TEST(!x.admits(x.first, noon + 60));
  BOOST_TEST(!renew(x.all, x.by(x.first), {1, x.second}, noon + 60).ok());
  BOOST_REQUIRE(rotate(x.all, 60, noon + 60).ok());
  BOOST_TEST(!x.admits(x.first, noon + 61));
}

BOOST_AUTO_TEST_CASE(an_end_of_a_rotation_ends_the_former_keys) {
  one_node x;
  BOOST_TEST(!end_rotation(x.all, noon).ok());
  BOOST_REQUIRE(rotate(x.all, 60, noon).ok());
  BOOST_REQUIRE(renew(x.all, x.by(x.first), {1, x.second}, noon).ok());
  BOOST_REQUIRE(end_rotation(x.all, noon + 1).ok());
  BOOST_TEST(!x.admits(x.first, noon + 1));
  BOOST_TEST(x.admits(x.second, noon + 1));
  BOOST_TEST(!x.all.former.has_value());
  BOOST_REQUIRE(rotate(x.all, 60, noon + 1).ok());
}

BOOST_AUTO_TEST_CASE(a_former_key_does_not_displace_the_next) {
  one_node x;
  BOOST_REQUIRE(rotate(x.all, 60, noon).ok());
  BOOST_REQUIRE(renew(x.all, x.by(x.first), {1, x.second}, noon).ok());
  auto third = make_key_pair()->open;
  BOOST_TEST(!renew(x.all, x.by(x.first), {1, third}, noon).ok());
  BOOST_TEST(!renew(x.all, x.by(x.second), {1, third}, noon).ok());
  BOOST_TEST(!x.admits(third, noon));
}

BOOST_AUTO_TEST_CASE(a_renewal_takes_no_wrong_or_foreign_key) {
  one_node x;
  BOOST_TEST(!renew(x.all, x.by(x.first), {0, x.second}, noon).ok());
  BOOST_REQUIRE(rotate(x.all, 60, noon).ok());
  for (const auto& [number, key] : std::vector<control::renew_key>{
           {2, x.second}, {1, "short"}, {1, x.all.permitted[0].key}})
    BOOST_TEST(!renew(x.all, x.by(x.first), {number, key}, noon).ok());
  auto other = x.by(x.first);
  other.is = principal::kind::admin;
  BOOST_TEST(!renew(x.all, other, {1, x.second}, noon).ok());
  other = {principal::kind::node, "b", {}};
  BOOST_TEST(!renew(x.all, other, {1, x.second}, noon).ok());
}

BOOST_AUTO_TEST_CASE(a_token_of_before_a_rotation_leads_to_a_key_to_renew) {
  auto all = some_keys();
  auto made = add_token(all, principal::kind::tenant, "physics", 1, 0);
  BOOST_REQUIRE(rotate(all, 60, noon).ok());
  auto by = who_of(all, *made);
  BOOST_TEST(!rotation_for(all, by));
  auto key = make_key_pair()->open;
  BOOST_REQUIRE(enroll(all, by, key, "pat", noon).ok());
  BOOST_TEST(rotation_for(all, {principal::kind::tenant, "pat", "physics", key})
                 .has_value());
  BOOST_TEST(!all.table(noon + 60).contains(pair_of(made->secret)->open));
}

/// Who joined, with a file of keys.
struct joined_fixture : folder_fixture {
  joined_keys mine{.own = *make_key_pair(),
                   .is = principal::kind::node,
                   .name = "a",
                   .endpoints = "tcp://10.0.0.1:7070",
                   .manager = make_key_pair()->open};
  control::rotate_key order{1, make_key_pair()->open, noon};

  joined_fixture() {
    BOOST_REQUIRE(keys.write(node_key_file, text_of(mine)).ok());
  }

  joined_keys now() const { return **read_joined_keys(keys, node_key_file); }
};

BOOST_FIXTURE_TEST_CASE(a_renewal_is_kept_before_it_is_used, joined_fixture) {
  std::vector<std::string> told;
  joined_renewal renewal{keys, node_key_file,
                         [&](const key_pair& x) { told.push_back(x.open); }};
  auto next = renewal.begin(order);
  BOOST_REQUIRE(next.ok());
  BOOST_TEST((*next)->listeners.at(mine.endpoints) == order.manager);
  BOOST_TEST(now().own.open == mine.own.open);
  BOOST_REQUIRE(now().next.has_value());
  BOOST_TEST(mode_of(keys.path_of(node_key_file)) == 0600u);
  // It dies. The next process has both keys, and asks for the same one.
  auto both = keys_to_managers(keys, node_key_file, mine.endpoints);
  BOOST_REQUIRE(both.ok());
  BOOST_TEST(both->present->own.open == mine.own.open);
  BOOST_TEST(both->next->own.open == (*next)->own.open);
  joined_renewal later{keys, node_key_file};
  auto again = later.begin(order);
  BOOST_REQUIRE(again.ok());
  BOOST_TEST((*again)->own.secret == (*next)->own.secret);
  BOOST_REQUIRE(renewal.finish((*next)->own.open).ok());
  BOOST_TEST(now().own.secret == (*next)->own.secret);
  BOOST_TEST(now().manager == order.manager);
  BOOST_TEST(now().rotation == 1u);
  BOOST_TEST(!now().next.has_value());
  BOOST_TEST(told == std::vector<std::string>{(*next)->own.open});
  // Another process of this user has nothing to make.
  again = later.begin(order);
  BOOST_REQUIRE(again.ok());
  BOOST_TEST((*again)->own.open == (*next)->own.open);
  BOOST_REQUIRE(later.finish((*next)->own.open).ok());
  BOOST_TEST(now().rotation == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_renewal_of_a_wrong_order_changes_nothing,
                        joined_fixture) {
  joined_renewal renewal{keys, node_key_file};
  order.manager = "no key";
  BOOST_TEST(!renewal.begin(order).ok());
  BOOST_REQUIRE(renewal.finish(make_key_pair()->open).ok());
  BOOST_TEST(text_of(now()) == text_of(mine));
  BOOST_REQUIRE(keys.remove(node_key_file).ok());
  BOOST_TEST(!renewal.finish(mine.own.open).ok());
}

BOOST_AUTO_TEST_CASE(a_token_joins_as_often_as_it_says) {
  auto all = some_keys();
  auto made = add_token(all, principal::kind::node, {}, 2, noon);
  BOOST_REQUIRE(made.ok());
  auto by = who_of(all, *made);
  auto first = make_key_pair()->open;
  auto second = make_key_pair()->open;
  BOOST_REQUIRE(enroll(all, by, first, "a", noon - 10).ok());
  // Its answer was lost.
  BOOST_REQUIRE(enroll(all, by, first, "a", noon - 10).ok());
  BOOST_TEST(!enroll(all, by, first, "b", noon - 10).ok());
  BOOST_TEST(!enroll(all, by, second, "a", noon - 10).ok());
  BOOST_REQUIRE(enroll(all, by, second, "b", noon - 10).ok());
  BOOST_TEST(!enroll(all, by, make_key_pair()->open, "c", noon - 10).ok());
  BOOST_REQUIRE(enroll(all, by, second, "b", noon - 10).ok());
  auto table = all.table(noon - 1);
  BOOST_TEST((table.at(first) == principal{principal::kind::node, "a", {}}));
  BOOST_TEST((table.at(second) == principal{principal::kind::node, "b", {}}));
}

BOOST_AUTO_TEST_CASE(a_token_ends) {
  auto all = some_keys();
  auto made = add_token(all, principal::kind::tenant, "t", 2, noon);
  auto by = who_of(all, *made);
  auto open = pair_of(made->secret)->open;
  BOOST_TEST(all.table(noon - 1).contains(open));
  BOOST_TEST(!all.table(noon).contains(open));
  BOOST_TEST(!enroll(all, by, make_key_pair()->open, "a", noon).ok());
}

BOOST_AUTO_TEST_CASE(wrong_requests_to_join_are_refused) {
  auto all = some_keys();
  auto made = add_token(all, principal::kind::tenant, "t", 100, noon);
  auto by = who_of(all, *made);
  auto key = make_key_pair()->open;
  for (const std::string& name :
       {std::string{}, std::string{"a/b"}, std::string{"a b"},
        std::string(65, 'a'), std::string{"a\n"}, std::string{"token-1"}})
    BOOST_TEST(!enroll(all, by, key, name, 1).ok());
  for (const std::string& bad :
       {std::string{}, std::string(40, '#'), key + "0", all.permitted[0].key})
    BOOST_TEST(!enroll(all, by, bad, "a", 1).ok());
  // A principal that is no token, and one that is gone.
  BOOST_REQUIRE(enroll(all, by, key, "a", 1).ok());
  principal joined{principal::kind::tenant, "a", "t"};
  BOOST_TEST(!enroll(all, joined, make_key_pair()->open, "b", 1).ok());
  BOOST_REQUIRE(revoke(all, by.name).ok());
  BOOST_TEST(!enroll(all, by, make_key_pair()->open, "b", 1).ok());
  BOOST_TEST(!revoke(all, by.name).ok());
  BOOST_REQUIRE(revoke(all, "a").ok());
  BOOST_TEST(all.table(1).empty());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(tokens, folder_fixture)

BOOST_AUTO_TEST_CASE(a_token_is_a_word_that_comes_back) {
  for (auto kind : {principal::kind::node, principal::kind::tenant,
                    principal::kind::admin}) {
    token x{kind, "tcp://10.0.0.1:7070,tcp://h-2:7070", make_key_pair()->open,
            make_key_pair()->secret};
    auto text = text_of(x);
    BOOST_TEST(text.find_first_of(" $&|;<>()\\`'\"*?#~!{}") == text.npos);
    auto back = parse_token(text);
    BOOST_REQUIRE(back.ok());
    BOOST_TEST((*back == x));
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_token_is_refused) {
  auto text = text_of({principal::kind::node, "tcp://10.0.0.1:7070",
                       make_key_pair()->open, make_key_pair()->secret});
  auto shortest = text.rfind(':') + 2;
  for (std::size_t n = 0; n < shortest; ++n)
    BOOST_TEST(!parse_token(text.substr(0, n)).ok());
  for (const std::string& bad :
       {"x" + text, " " + text, std::string(5000, 'a'),
        "vgpu1-token" + text.substr(10), text + " ", text + ",", text + "x",
        text + "\n", std::string{"vgpu1-node-"} + std::string(200, '-')})
    BOOST_TEST(!parse_token(bad).ok());
}

BOOST_AUTO_TEST_CASE(who_joined_keeps_the_managers_key) {
  joined_keys x{*make_key_pair(), principal::kind::tenant, "a",
                "tcp://10.0.0.1:7070", make_key_pair()->open};
  BOOST_TEST(!*keys_to_managers(keys, node_key_file, x.endpoints));
  BOOST_REQUIRE(keys.write(node_key_file, text_of(x)).ok());
  // Within a host there are no keys.
  BOOST_TEST(!*keys_to_managers(keys, node_key_file, "ipc:///x"));
  auto links = *keys_to_managers(keys, node_key_file, x.endpoints);
  BOOST_REQUIRE(links.present);
  BOOST_TEST(!links.next);
  BOOST_TEST(links.present->own.secret == x.own.secret);
  BOOST_TEST(links.present->listeners.at("tcp://10.0.0.1:7070") == x.manager);
  auto good = text_of(x);
  for (std::size_t n = 0; n + 2 < good.size(); ++n)
    BOOST_TEST(!parse_joined_keys(good.substr(0, n)).ok());
  BOOST_REQUIRE(keys.write(login_key_file, "{}").ok());
  BOOST_TEST(!manager_of_login(keys).ok());
  BOOST_REQUIRE(keys.write(login_key_file, good).ok());
  BOOST_TEST(*manager_of_login(keys) == "tcp://10.0.0.1:7070");
}

BOOST_AUTO_TEST_SUITE_END()
