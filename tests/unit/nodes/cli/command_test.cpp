// The command, the daemons and the launcher as real processes. Every wait is
// for a condition. Workers are stand-ins (fake_worker.cpp).
#include "actors/link/link.hpp"
#include "actors/link/system.hpp"
#include "nodes/cli/command_client.hpp"
#include "nodes/cluster/cluster_launcher.hpp"
#include "nodes/cluster/embedded_cluster.hpp"
#include "nodes/support/paths.hpp"
#include "nodes/support/run_dir.hpp"
#include "schema/base/endpoints.hpp"
#include "schema/base/sizes.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

/// Longer than any step takes, even on a busy machine.
constexpr auto patience = 60'000ms;

struct outcome {
  int status = 0; // exit code, or 128 + signal
  std::string out;
};

/// A folder for a cluster, and the command.
struct fixture {
  std::string dir;

  fixture() {
    std::string path =
        std::filesystem::temp_directory_path() / "vgputestXXXXXX";
    dir = ::mkdtemp(path.data());
    // An empty value, because a variable that is removed keeps its first one.
    ::setenv("VGPU_MANAGER", "", 1);
    ::unsetenv("VGPU_LOG");
    // A program without options looks for a cluster here.
    ::setenv("XDG_RUNTIME_DIR", dir.c_str(), 1);
  }
  ~fixture() {
    if (auto record = read_record(run_dir()))
      end_processes(*record);
    std::filesystem::remove_all(dir);
  }

  std::string run_dir() const { return dir + "/vgpu"; }

  /// Runs a shell line, in which `vgpu` is the command under test.
  outcome shell(const std::string& line) {
    auto full = "vgpu() { " VGPU_BIN "/vgpu \"$@\"; }; export TMPDIR=" + dir +
                "; " + line + " 2>&1";
    auto* pipe = ::popen(("bash -c '" + full + "'").c_str(), "r");
    outcome x;
    char bytes[4096];
    for (std::size_t n; (n = std::fread(bytes, 1, sizeof(bytes), pipe)) > 0;)
      x.out.append(bytes, n);
    auto status = ::pclose(pipe);
    x.status =
        WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return x;
  }

  void up(const std::string& more = "") {
    auto x = shell("vgpu up --worker " FAKE_WORKER " " + more);
    BOOST_REQUIRE_MESSAGE(x.status == 0, x.out);
  }

  std::unique_ptr<command_client> manager() {
    auto x = command_client::connect(endpoint_in(run_dir()), patience);
    BOOST_REQUIRE_MESSAGE(x.ok(), (x ? "" : x.why().what));
    return std::move(*x);
  }

  json status() {
    auto x = manager()->ask(status_request{}, patience);
    BOOST_REQUIRE(x.ok());
    return json::parse(std::get<status_text>(*x).json);
  }

  /// Waits until an event of this kind has come after number `after`.
  event await(const std::string& kind, std::uint64_t after = 0) {
    auto connection = manager();
    for (;;) {
      auto x = connection->ask(events_request{after, 60'000}, patience);
      BOOST_REQUIRE_MESSAGE(x.ok(), "no event " + kind);
      for (auto& each : std::get<control::events>(*x).list) {
        if (each.kind == kind)
          return each;
        after = each.number;
      }
      BOOST_REQUIRE_MESSAGE(!std::get<control::events>(*x).list.empty(),
                            "no event " + kind);
    }
  }
};

/// A client that holds sessions.
struct client {
  zmq::context_t zmq;
  system_config config;
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  link_actor link;

  explicit client(const std::string& endpoint) {
    link_options options;
    options.endpoint = endpoint;
    options.name = "client/test";
    options.greeting = hello{1, 1, "test", role::client};
    auto opened = spawn_link(system, zmq, options);
    BOOST_REQUIRE(opened.ok());
    link = opened->actor;
    self->send(link, consumer_of(self));
    next<welcome>();
  }
  ~client() {
    self->send_exit(link, caf::exit_reason::user_shutdown);
    self->wait_for(link);
    system.clock().cancel_all();
  }

  void say(body what, std::uint64_t request = 0) {
    self->send(link, std::make_shared<const outgoing>(
                         outgoing{{}, {"client/test", request, what}}));
  }

  template <class T>
  T next() {
    std::optional<T> out;
    while (!out) {
      auto in_time = true;
      self->receive(
          [&](const incoming_ptr& in) {
            if (auto* found = std::get_if<T>(&in->what.body))
              out = *found;
          },
          [](const link_event_ptr&) {},
          caf::after(patience) >> [&] { in_time = false; });
      BOOST_REQUIRE(in_time);
    }
    return *out;
  }

  lease open() {
    say(acquire{{}, {"test", 1, "h", "u"}}, 1);
    return next<lease>();
  }
};

bool exists(int pid) {
  return process_of(pid, "").birth != 0;
}

/// Waits for the end of a process that need not be a child.
void await_end(int pid) {
  auto fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0)
    return;
  pollfd what{fd, POLLIN, 0};
  BOOST_TEST(::poll(&what, 1, 60'000) == 1);
  ::close(fd);
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(cluster, fixture)

BOOST_AUTO_TEST_CASE(up_and_down_leave_nothing_behind) {
  up("--nodes 3 --gpus-per-node 2 --memory 1GiB");
  auto now = status();
  BOOST_TEST(now["nodes"].size() == 3u);
  std::set<int> pids{now["manager"]["pid"].get<int>()};
  for (auto& node : now["nodes"]) {
    BOOST_TEST(node["state"] == "alive");
    BOOST_TEST(node["pgpus"].size() == 2u);
    BOOST_TEST(node["pgpus"][0]["memory"] == 1 << 30);
    pids.insert(node["pid"].get<int>());
  }
  auto again = shell("vgpu up");
  BOOST_TEST(again.status == 1);
  BOOST_TEST(again.out.find("already") != std::string::npos);
  auto shown = shell("vgpu status");
  BOOST_TEST(shown.out.find("node c  alive") != std::string::npos);
  BOOST_TEST(shell("vgpu down").status == 0);
  for (auto pid : pids)
    BOOST_TEST(!exists(pid));
  BOOST_TEST(!std::filesystem::exists(run_dir()));
  auto none = shell("vgpu down");
  BOOST_TEST(none.status == 1);
  BOOST_TEST(none.out.find("vgpu up") != std::string::npos);
  BOOST_TEST(shell("vgpu status").status == 3);
}

BOOST_AUTO_TEST_CASE(a_killed_cluster_does_not_block_the_next_one) {
  up();
  auto record = read_record(run_dir());
  BOOST_REQUIRE(record.ok());
  kill_process(record->manager);
  kill_process(record->nodes.at(0));
  up();
  BOOST_TEST(status()["nodes"][0]["state"] == "alive");
}

BOOST_AUTO_TEST_CASE(a_cluster_that_cannot_start_says_why) {
  auto x = shell("vgpu up --device nvidia --worker " FAKE_WORKER);
  BOOST_TEST(x.status == 1);
  BOOST_TEST(x.out.find("NVIDIA") != std::string::npos, x.out);
  BOOST_TEST(!std::filesystem::exists(run_dir()));
  BOOST_TEST(shell("vgpu up --memory 3Q").status == 2);
  BOOST_TEST(shell("vgpu up --nodes 0").status == 2);
  for (auto bad : {"0", "0.09", "4000", "nan", "1s", "on", "''"})
    BOOST_TEST(shell(std::string{"vgpu up --balance "} + bad).status == 2);
  BOOST_TEST(shell("vgpu up --listen nowhere").status == 2);
  BOOST_TEST(shell("vgpu").status == 2);
  BOOST_TEST(shell("vgpu nonsense").status == 2);
}

BOOST_AUTO_TEST_CASE(every_command_has_help_with_an_example) {
  for (std::string name :
       {"up", "down", "run", "status", "events", "kill-node", "kill-worker",
        "kill-manager", "restart-manager", "inject"}) {
    auto x = shell("vgpu " + name + " --help");
    BOOST_TEST(x.status == 0);
    BOOST_TEST(x.out.find("Example") != std::string::npos, name);
  }
}

BOOST_AUTO_TEST_CASE(a_session_survives_its_worker_and_its_node) {
  up("--nodes 2");
  client program{endpoint_in(run_dir())};
  auto first = program.open();
  BOOST_TEST(first.epoch.value == 1u);
  auto pid = status()["vgpus"][0]["sessions"][0]["worker_pid"].get<int>();
  BOOST_TEST(exists(pid));

  auto session = std::to_string(first.session.value);
  BOOST_TEST(shell("vgpu kill-worker " + session).status == 0);
  auto second = program.next<lease>();
  BOOST_TEST(second.epoch.value == 2u);
  BOOST_TEST(second.node == first.node);
  BOOST_TEST(!exists(pid));

  pid = status()["vgpus"][0]["sessions"][0]["worker_pid"].get<int>();
  BOOST_TEST(shell("vgpu kill-node " + second.node).status == 0);
  auto third = program.next<lease>();
  BOOST_TEST(third.epoch.value == 3u);
  BOOST_TEST(third.node != second.node);
  BOOST_TEST(third.token != second.token);
  await_end(pid); // its workers died with the node
  await("node-killed");
  await("node-lost");
  BOOST_TEST(shell("vgpu kill-node " + second.node).status == 1);
  BOOST_TEST(shell("vgpu kill-node z").status == 1);
  BOOST_TEST(shell("vgpu kill-worker 99").status == 1);
  auto told = shell("vgpu events --json");
  BOOST_TEST(told.out.find("\"kind\":\"session-replaced\"") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(sessions_outlive_a_killed_manager) {
  up();
  client program{endpoint_in(run_dir())};
  auto first = program.open();
  auto pid = status()["vgpus"][0]["sessions"][0]["worker_pid"].get<int>();
  BOOST_TEST(shell("vgpu kill-manager").status == 0);
  BOOST_TEST(shell("vgpu kill-manager").status == 1);
  BOOST_TEST(shell("vgpu status --manager " + endpoint_in(run_dir())).status ==
             3);
  BOOST_TEST(exists(pid));
  BOOST_TEST(shell("vgpu restart-manager").status == 0);
  program.next<welcome>();
  program.say(adopt{first.session,
                    first.vgpu,
                    first.epoch,
                    first.token,
                    {},
                    {"test", 1, "h", "u"},
                    first.node},
              2);
  auto again = program.next<lease>();
  BOOST_CHECK(again.epoch == first.epoch);
  await("manager-restarted");
  await("node-joined", await("manager-restarted").number);
  auto now = status()["vgpus"][0]["sessions"][0];
  BOOST_TEST(now["worker_pid"].get<int>() == pid);
  BOOST_TEST(now["epoch"] == 1);
  program.say(close_session{first.session, first.epoch, "over"});
  await("session-closed");
  await_end(pid);
}

BOOST_AUTO_TEST_CASE(a_session_leaves_a_lost_pgpu) {
  up("--gpus-per-node 2");
  client program{endpoint_in(run_dir())};
  auto first = program.open();
  auto on = std::to_string(first.pgpus.at(0));
  BOOST_TEST(shell("vgpu inject a " + on + " lost").status == 0);
  auto second = program.next<lease>();
  BOOST_TEST(second.pgpus.at(0) != first.pgpus.at(0));
  BOOST_TEST(shell("vgpu inject a 9 lost").status == 1);
  BOOST_TEST(shell("vgpu inject a 0 rust").status == 2);
}

BOOST_AUTO_TEST_CASE(two_managers_do_not_share_an_endpoint) {
  up();
  auto x = shell(VGPU_BIN "/vgpu-manager --run-dir " + run_dir());
  BOOST_TEST(x.status == 1);
  BOOST_TEST(x.out.find("already") != std::string::npos);
  auto y = shell(VGPU_BIN "/vgpu-node --name a --manager " +
                 endpoint_in(run_dir()) + " --run-dir " + dir + "/other");
  BOOST_TEST(y.status == 1);
  BOOST_TEST(y.out.find("named") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(run, fixture)

BOOST_AUTO_TEST_CASE(a_program_joins_a_running_cluster) {
  up();
  auto x = shell("vgpu run --share 0.5 --memory 1GiB --gpus 1 --protect none "
                 "-- env");
  BOOST_TEST(x.status == 0);
  for (auto expected :
       {std::string{"VGPU_SHARE=0.5"}, std::string{"VGPU_MEMORY=1073741824"},
        std::string{"VGPU_GPUS=1"}, std::string{"VGPU_PROTECT=none"},
        "VGPU_MANAGER=" + endpoint_in(run_dir()),
        std::string{"LD_LIBRARY_PATH="}})
    BOOST_TEST(x.out.find(expected) != std::string::npos, expected);
  auto huge = shell("vgpu run --memory 5GiB -- true");
  BOOST_TEST(huge.status == 1);
  BOOST_TEST(huge.out.find("no GPU has more than") != std::string::npos);
  BOOST_TEST(shell("vgpu run --gpus 2 -- true").status == 1);
}

BOOST_AUTO_TEST_CASE(without_a_cluster_run_starts_its_own) {
  auto x = shell("vgpu run -- " VGPU_BIN "/vgpu status");
  BOOST_TEST(x.status == 0);
  BOOST_TEST(x.out.find("node a  alive") != std::string::npos);
  BOOST_TEST(shell("vgpu run -- sh -c \"exit 7\"").status == 7);
  BOOST_TEST(std::filesystem::is_empty(dir));
}

BOOST_AUTO_TEST_CASE(a_program_gets_its_arguments_unchanged) {
  up();
  for (std::string run : {"vgpu run -- ", "vgpu run ", "vgpu run --share 1 "}) {
    auto x = shell(run + "printf \"<%s>\" -n --share -- a --");
    BOOST_TEST(x.out == "<-n><--share><--><a><-->", run);
  }
  BOOST_TEST(shell("vgpu run --shar 1 -- true").status == 2);
  BOOST_TEST(shell("vgpu run --").status == 2);
}

BOOST_AUTO_TEST_CASE(run_ends_as_its_program_does) {
  BOOST_TEST(shell("exec " VGPU_BIN "/vgpu run -- sh -c \"kill -USR1 \\$\\$\"")
                 .status == 128 + SIGUSR1);
  // `vgpu run` passes signals on to the program.
  auto x = shell("vgpu run -- bash -c \"sleep 60 >&- 2>&- & "
                 "trap \\\"kill \\$!; echo caught; exit 9\\\" TERM; "
                 "kill -TERM \\$PPID; wait\"");
  BOOST_TEST(x.status == 9);
  BOOST_TEST(x.out == "caught\n");
  BOOST_TEST(std::filesystem::is_empty(dir));
}

BOOST_AUTO_TEST_CASE(runs_own_cluster_ends_with_it) {
  auto x = shell("vgpu run -- sh -c \"" VGPU_BIN "/vgpu status --json; "
                 "kill -KILL \\$PPID; exec sleep 60\" & wait");
  auto all = json::parse(x.out.substr(0, x.out.find('\n')));
  await_end(all["manager"]["pid"].get<int>());
  await_end(all["nodes"][0]["pid"].get<int>());
  BOOST_TEST(std::filesystem::is_empty(dir));
}

BOOST_AUTO_TEST_CASE(kinds_of_bad_usage_have_their_own_exit_codes) {
  auto missing = shell("vgpu run -- no-such-program");
  BOOST_TEST(missing.status == 127);
  BOOST_TEST(missing.out.find("cannot find program") != std::string::npos);
  std::ofstream{dir + "/plain"} << "x";
  BOOST_TEST(shell("vgpu run -- " + dir + "/plain").status == 126);
  for (std::string bad : {"--share 0", "--share 1.5", "--share x", "--gpus 0",
                          "--memory lots", "--memory 0", "--protect maybe",
                          "--manager nowhere", "--manager tcp://h:99999"})
    BOOST_TEST(shell("vgpu run " + bad + " -- true").status == 2, bad);
  BOOST_TEST(shell("vgpu run").status == 2);
  auto lost = shell("VGPU_MANAGER=ipc://" + dir + "/none vgpu run -- true");
  BOOST_TEST(lost.status == 3);
  BOOST_TEST(lost.out.find("check") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_profile_is_a_named_specification) {
  up();
  std::ofstream{dir + "/profiles.toml"} << "[quarter]\n"
                                           "share = 0.25\n"
                                           "memory = \"1GiB\"\n"
                                           "priority = 5\n"
                                           "[wrong]\n"
                                           "limit = 1.5\n"
                                           "[unknown]\n"
                                           "colour = \"red\"\n"
                                           "[typed]\n"
                                           "gpus = [1]\n";
  std::ofstream{dir + "/broken.toml"} << "[quarter\n";
  ::setenv("VGPU_PROFILES", (dir + "/profiles.toml").c_str(), 1);
  auto x = shell("vgpu run --profile quarter --priority 7 -- env");
  BOOST_TEST(x.status == 0, x.out);
  for (std::string expected :
       {"VGPU_SHARE=0.25", "VGPU_MEMORY=1073741824", "VGPU_PRIORITY=7"})
    BOOST_TEST(x.out.find(expected) != std::string::npos, x.out);
  auto told = [&](const std::string& name, const std::string& words) {
    auto got = shell("vgpu run --profile " + name + " -- true");
    BOOST_TEST(got.status == 2);
    BOOST_TEST(got.out.find(words) != std::string::npos, got.out);
  };
  told("wrong", "profile wrong: limit");
  told("wrong", "more than 0 and at most 1");
  told("unknown", "no field");
  told("typed", "profile typed: gpus");
  told("third", "no profile \'third\'; it has quarter, typed, unknown, wrong");
  ::setenv("VGPU_PROFILES", (dir + "/broken.toml").c_str(), 1);
  told("quarter", "is not valid TOML");
  ::setenv("VGPU_PROFILES", (dir + "/none.toml").c_str(), 1);
  told("quarter", "cannot read the profiles file");
  ::unsetenv("VGPU_PROFILES");
}

BOOST_AUTO_TEST_CASE(bad_changes_are_wrong_usage) {
  for (std::string bad :
       {"set 1 share=2", "set 1 share", "set 1 gpus=2", "set 1 memory=by-share",
        "set 1 priority=high", "set 1 recover-within=0",
        "set 1 protect-cost=101", "set 1 on-divergence=never", "set x share=1",
        "set 1", "policy a equal", "policy a/0 fair", "policy a/0 quantum=0.1",
        "policy a/x equal", "policy a/0 equal speed=1", "policy a/0"})
    BOOST_TEST(shell("vgpu " + bad).status == 2, bad);
}

BOOST_AUTO_TEST_CASE(policies_and_vgpus_are_changed_by_name) {
  up();
  BOOST_TEST(shell("vgpu policy a/0 equal quantum=5").status == 0);
  BOOST_TEST(shell("vgpu policy z/0 equal").status == 1);
  auto none = shell("vgpu set 99 share=0.5");
  BOOST_TEST(none.status == 1);
  BOOST_TEST(none.out.find("no vGPU 99") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_run_directory_is_removed_with_its_last_user) {
  auto path = dir + "/shared";
  std::filesystem::create_directory(path);
  std::ofstream{path + "/file"} << "x";
  {
    run_dir_part first{path};
    { run_dir_part second{path}; }
    BOOST_TEST(std::filesystem::exists(path + "/file"));
    run_dir_part moved{std::move(first)};
    run_dir_part none;
  }
  BOOST_TEST(!std::filesystem::exists(path));
}

BOOST_AUTO_TEST_CASE(an_embedded_cluster_lives_as_long_as_its_object) {
  cluster_options shape;
  shape.gpus_per_node = 3;
  shape.programs = VGPU_BIN;
  auto x = embedded_cluster::start(shape);
  BOOST_REQUIRE_MESSAGE(x.ok(), (x ? "" : x.why().what));
  auto dir_of_it = (*x)->run_dir();
  {
    auto connection = command_client::connect((*x)->endpoint(), patience);
    BOOST_REQUIRE(connection.ok());
    auto got = (*connection)->ask(status_request{}, patience);
    BOOST_REQUIRE(got.ok());
    auto all = json::parse(std::get<status_text>(*got).json);
    BOOST_TEST(all["nodes"][0]["pgpus"].size() == 3u);
  }
  x->reset();
  BOOST_TEST(!std::filesystem::exists(dir_of_it));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(what_people_write)

BOOST_AUTO_TEST_CASE(sizes_are_read_as_people_write_them) {
  struct row {
    const char* text;
    std::uint64_t bytes; // 0: refused
  };
  for (auto& x : std::vector<row>{{"65536", 65536},
                                  {"512MiB", 512ull << 20},
                                  {"4G", 4ull << 30},
                                  {"4GB", 4ull << 30},
                                  {"1.5g", 3ull << 29},
                                  {"2k", 2048},
                                  {"1TiB", 1ull << 40},
                                  {"", 0},
                                  {"G", 0},
                                  {"-1G", 0},
                                  {"0", 0},
                                  {"4X", 0},
                                  {"4Gi b", 0},
                                  {"1e30", 0},
                                  {"nan", 0},
                                  {"inf", 0}}) {
    auto got = parse_size(x.text);
    BOOST_TEST_CONTEXT(x.text) {
      BOOST_TEST(got.ok() == (x.bytes != 0));
      if (got)
        BOOST_TEST(*got == x.bytes);
    }
  }
  BOOST_TEST(show_size(4ull << 30) == "4.0 GiB");
  BOOST_TEST(show_size(12) == "12 B");
}

BOOST_AUTO_TEST_CASE(endpoints_are_checked) {
  for (auto good : {"tcp://h:1", "tcp://127.0.0.1:*", "ipc:///x"})
    BOOST_TEST(check_endpoint(good).ok(), good);
  for (auto bad : {"", "x", "tcp://", "tcp://h", "tcp://:1", "tcp://h:x",
                   "tcp://h:65536", "ipc://", "http://h:1"})
    BOOST_TEST(!check_endpoint(bad).ok(), bad);
}

BOOST_AUTO_TEST_CASE(endpoints_of_several_managers_are_checked) {
  for (auto good : {"tcp://h:1", "tcp://h:1,tcp://g:1", "ipc:///x,tcp://h:1"})
    BOOST_TEST(check_endpoints(good).ok(), good);
  for (auto bad :
       {"", ",", "tcp://h:1,", ",tcp://h:1", "tcp://h:1,,tcp://g:1",
        "tcp://h:1, tcp://g:1", "tcp://h:1,x", "tcp://h:1,tcp://h:1"})
    BOOST_TEST(!check_endpoints(bad).ok(), bad);
  std::string many = "tcp://h:1";
  for (auto i = 2; i <= 9; ++i)
    many += ",tcp://h:" + std::to_string(i);
  BOOST_TEST(!check_endpoints(many).ok());
  auto why = check_endpoints("tcp://h:1,tcp://g:x").why().what;
  BOOST_TEST(why.find("'tcp://g:x'") != why.npos, why);
  BOOST_TEST((split_endpoints("tcp://h:1,ipc:///x") ==
              std::vector<std::string>{"tcp://h:1", "ipc:///x"}));
}

BOOST_AUTO_TEST_CASE(only_loopback_and_files_stay_on_the_host) {
  for (auto stays : {"ipc:///x", "tcp://127.0.0.1:1", "tcp://127.9.0.1:*",
                     "tcp://lo:*", "tcp://localhost:1", "tcp://[::1]:1"})
    BOOST_TEST(!leaves_host(stays), stays);
  for (auto leaves :
       {"tcp://10.0.0.1:1", "tcp://*:1", "tcp://0.0.0.0:1", "tcp://eth0:*",
        "tcp://h:1", "tcp://[::]:1", "tcp://12.7.0.1:1", "tcp://lo1:*"})
    BOOST_TEST(leaves_host(leaves), leaves);
}

BOOST_AUTO_TEST_SUITE_END()
