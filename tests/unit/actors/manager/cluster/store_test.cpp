#include "actors/link/log.hpp"
#include "actors/manager/cluster/store.hpp"
#include "actors/records/directory.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

using namespace vgpu;

namespace {

struct folder {
  std::string dir;
  std::string path;

  folder() {
    spdlog::set_level(spdlog::level::off);
    // In memory where possible, because the test writes it hundreds of times.
    auto in = std::filesystem::path{"/dev/shm"};
    if (::access(in.c_str(), W_OK) != 0)
      in = std::filesystem::temp_directory_path();
    std::string name = in / "storeXXXXXX";
    dir = ::mkdtemp(name.data());
    path = dir + "/store";
  }
  ~folder() { std::filesystem::remove_all(dir); }

  std::unique_ptr<store> open() {
    auto out = store::open(path);
    BOOST_REQUIRE_MESSAGE(out.ok(), (out ? "" : out.why().what));
    return std::move(*out);
  }

  std::string content() {
    std::ifstream in{path};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

  void overwrite(const std::string& bytes) {
    std::ofstream{path, std::ios::trunc} << bytes;
  }
};

/// Limits the size of this process's files, like a full disk.
class no_room {
public:
  explicit no_room(std::uintmax_t bytes) {
    BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    auto now = before_;
    now.rlim_cur = bytes;
    // Without this the signal ends the process.
    std::signal(SIGXFSZ, SIG_IGN);
    BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  no_room(const no_room&) = delete;
  no_room& operator=(const no_room&) = delete;
  ~no_room() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_DFL);
  }

private:
  rlimit before_{};
};

session_record session(std::uint64_t id) {
  session_record x;
  x.id = {id};
  x.vgpu = {id + 100};
  x.epoch = {3};
  x.tokens = {{2, 22}, {3, 0xffff'ffff'ffff'fff1}};
  x.spec = {0.5, 7, 2, control::protection::none};
  x.program = {"p\xff", 1, "h", "u"};
  x.stage = session_stage::running;
  x.where = {"a", {0, 1}};
  x.worker = {"e", "g", "h"};
  x.pid = 9;
  x.quota = 11;
  x.client = "client/c";
  x.reason = "node lost";
  x.had_lease = true;
  return x;
}

control::event event(std::uint64_t number) {
  return {number, 2.5, "kind", "a", {1}, {2}, {3}, "text", 4, 5, 6.5};
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(stores, folder)

BOOST_AUTO_TEST_CASE(saved_records_are_read_back) {
  {
    auto x = open();
    x->save(session(1));
    x->save(session(2));
    x->save(session(3));
    x->forget({3});
    x->save(event(1));
    x->save_drained("a", true);
    x->save_drained("b", true);
    x->save_drained("b", false);
  }
  auto y = open();
  const auto& state = y->state();
  BOOST_TEST(state.sessions.size() == 2u);
  BOOST_TEST(state.last_session == 3u);
  BOOST_TEST(state.last_vgpu == 103u);
  const auto& got = state.sessions.at({1});
  BOOST_TEST(got.token() == 0xffff'ffff'ffff'fff1);
  BOOST_CHECK(got.spec == session(1).spec);
  BOOST_CHECK(got.where == session(1).where);
  BOOST_CHECK(got.worker == session(1).worker);
  BOOST_CHECK(got.stage == session_stage::running);
  BOOST_TEST(got.client == "client/c");
  BOOST_REQUIRE(state.events.size() == 1u);
  BOOST_CHECK(state.events[0] == event(1));
  BOOST_CHECK(state.drained == std::set<std::string>{"a"});
}

BOOST_AUTO_TEST_CASE(a_truncated_tail_costs_one_line_at_every_length) {
  {
    auto x = open();
    x->save(session(1));
    x->save(session(2));
  }
  auto whole = content();
  auto last = whole.rfind('\n', whole.size() - 2) + 1;
  for (auto size = last + 1; size < whole.size() - 1; ++size) {
    overwrite(whole.substr(0, size));
    auto y = open();
    BOOST_REQUIRE(y->state().sessions.size() == 1u);
    BOOST_REQUIRE(y->state().damaged == 1u);
    // The store can be written again.
    y->save(session(5));
    y.reset();
    auto z = open();
    BOOST_REQUIRE(z->state().sessions.size() == 2u);
    BOOST_REQUIRE(z->state().damaged == 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_line_costs_no_other_line) {
  {
    auto x = open();
    for (auto i = 1u; i <= 5; ++i)
      x->save(session(i));
  }
  auto bytes = content();
  auto at = bytes.find("\"id\":3");
  BOOST_REQUIRE(at != std::string::npos);
  bytes[at + 5] = '9';
  overwrite(bytes + "\nnoise\n" + std::string(50'000, '\0') + "\n{}\n");
  auto y = open();
  BOOST_TEST(y->state().sessions.size() == 4u);
  BOOST_TEST(!y->state().sessions.contains({9}));
}

BOOST_AUTO_TEST_CASE(a_store_is_private_and_bounded) {
  auto x = open();
  for (auto i = 0; i < 60'000; ++i)
    x->save(session(1));
  struct stat what = {};
  BOOST_REQUIRE(::stat(path.c_str(), &what) == 0);
  BOOST_TEST((what.st_mode & 0777) == 0600u);
  BOOST_TEST(what.st_size < 10'000'000);
  x.reset();
  BOOST_TEST(open()->state().sessions.size() == 1u);
}

BOOST_AUTO_TEST_CASE(records_without_room_are_written_later) {
  auto x = open();
  x->save(session(1));
  {
    no_room full{std::filesystem::file_size(path) + 10};
    x->save(session(2));
    x->forget({1});
  }
  x->save(event(1));
  x.reset();
  auto y = open();
  BOOST_TEST(y->state().sessions.contains({2}));
  BOOST_TEST(!y->state().sessions.contains({1}));
  BOOST_TEST(y->state().last_session == 2u);
  BOOST_TEST(y->state().events.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_store_that_cannot_be_rewritten_stays_unchanged) {
  open()->save(session(1));
  {
    no_room full{10};
    BOOST_TEST(!store::open(path).ok());
  }
  BOOST_TEST(!std::filesystem::exists(path + ".new"));
  BOOST_TEST(open()->state().sessions.contains({1}));
}

BOOST_AUTO_TEST_CASE(an_unwritable_path_is_named) {
  auto got = store::open(dir + "/none/store");
  BOOST_REQUIRE(!got.ok());
  BOOST_TEST(got.why().what.find("/none/store") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_store_belongs_to_one_manager) {
  auto mine = open();
  // This also holds for the file that replaces the first one.
  mine->begin_term(1, {}, {});
  auto other = store::open(path);
  BOOST_REQUIRE(!other.ok());
  BOOST_TEST(other.why().what.find("another manager") != std::string::npos);
  mine.reset();
  BOOST_TEST(store::open(path).ok());
}

BOOST_AUTO_TEST_CASE(an_outdated_store_forgets_its_sessions) {
  session_record x;
  x.id = {5};
  x.vgpu = {6};
  auto mine = open();
  mine->save(x);
  mine->save_drained("a", true);
  mine->save_tenant("t", control::tenant_limits{.gpus = 1});
  // A single manager becomes the first of several.
  mine->begin_term(1, {}, {});
  BOOST_TEST(mine->state().sessions.size() == 1u);
  BOOST_TEST(mine->state().drained.contains("a"));
  BOOST_TEST(mine->state().tenants.at("t").gpus == 1u);
  mine.reset();
  mine = open();
  BOOST_TEST(mine->state().term == 1u);
  BOOST_TEST(mine->state().tenants.at("t").gpus == 1u);
  // It leads again, without another leader in between.
  mine->begin_term(2, {"b"}, {{"u", {}}});
  BOOST_TEST(!mine->state().tenants.contains("t"));
  BOOST_TEST(mine->state().tenants.contains("u"));
  BOOST_TEST(mine->state().sessions.size() == 1u);
  BOOST_TEST((mine->state().drained == std::set<std::string>{"b"}));
  // Another manager led in between.
  mine->begin_term(4, {}, {});
  BOOST_TEST(mine->state().sessions.empty());
  mine.reset();
  mine = open();
  BOOST_TEST(mine->state().sessions.empty());
  BOOST_TEST(mine->state().drained.empty());
  BOOST_TEST(mine->state().last_session == 5u);
  BOOST_TEST(mine->state().last_vgpu == 6u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(directories)

BOOST_AUTO_TEST_CASE(a_directory_refuses_older_epochs) {
  directory x;
  BOOST_TEST(x.publish("vgpu/1", {"tcp://a", {1}}));
  BOOST_TEST(x.publish("vgpu/1", {"tcp://b", {2}}));
  BOOST_TEST(!x.publish("vgpu/1", {"tcp://a", {1}}));
  BOOST_TEST(x.find("vgpu/1")->address == "tcp://b");
  BOOST_TEST(!x.withdraw("vgpu/1", {1}));
  BOOST_TEST(x.withdraw("vgpu/1", {2}));
  BOOST_CHECK(x.find("vgpu/1") == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
