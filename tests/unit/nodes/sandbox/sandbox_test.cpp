// A worker that an attacker has taken: what its sandbox refuses, as root and as
// an ordinary user, and what still works in it.
#include "nodes/sandbox/sandbox.hpp"
#include "nodes/sandbox/sanitizers.hpp"

#include "schema/log/session_area.hpp"

#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

using namespace vgpu;

namespace {

constexpr uid_t ordinary_user = 65534;
/// Is the exit status of a child that may not execute the attacker.
constexpr int cannot_execute = 126;

/// Becomes an ordinary user, if it is to.
void become(uid_t user) {
  if (user != ::getuid() && (::setgid(user) != 0 || ::setuid(user) != 0))
    ::_exit(3);
}

/// Another worker of the same user. It waits until the object's end.
class sibling_process {
public:
  explicit sibling_process(uid_t user) {
    pid_ = ::fork();
    if (pid_ == 0) {
      become(user);
      ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
      for (;;)
        ::pause();
    }
  }
  sibling_process(const sibling_process&) = delete;
  sibling_process& operator=(const sibling_process&) = delete;
  ~sibling_process() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

private:
  pid_t pid_ = -1;
};

/// What another tenant has: a file, and services at sockets.
struct other_tenant {
  std::string folder;
  std::string file;
  std::string path;
  /// Is the name of an abstract socket, as a worker has one.
  std::string name;
  unique_fd worker{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  unique_fd local{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  unique_fd remote{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int port = 0;

  explicit other_tenant(uid_t user) {
    char made[] = "/tmp/vgpu-sandbox-XXXXXX";
    BOOST_REQUIRE(::mkdtemp(made) != nullptr);
    folder = made;
    file = folder + "/secret";
    path = folder + "/service.sock";
    std::ofstream{file} << "secret";
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    BOOST_REQUIRE(
        ::bind(local.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
    BOOST_REQUIRE(::listen(local.get(), 8) == 0);
    name = folder.substr(folder.rfind('/') + 1);
    sockaddr_un abstract{};
    abstract.sun_family = AF_UNIX;
    name.copy(abstract.sun_path + 1, sizeof abstract.sun_path - 1);
    auto length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
    BOOST_REQUIRE(::bind(worker.get(), reinterpret_cast<sockaddr*>(&abstract),
                         static_cast<socklen_t>(length)) == 0);
    BOOST_REQUIRE(::listen(worker.get(), 8) == 0);
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof there;
    auto* address = reinterpret_cast<sockaddr*>(&there);
    BOOST_REQUIRE(::bind(remote.get(), address, size) == 0);
    BOOST_REQUIRE(::listen(remote.get(), 8) == 0);
    BOOST_REQUIRE(::getsockname(remote.get(), address, &size) == 0);
    port = ntohs(there.sin_port);
    for (const auto& x : {folder, file, path})
      BOOST_REQUIRE(::chown(x.c_str(), user, user) == 0 || ::getuid() != 0);
  }
  other_tenant(const other_tenant&) = delete;
  other_tenant& operator=(const other_tenant&) = delete;
  ~other_tenant() {
    for (const auto& x : {file, file + ".new", path})
      ::unlink(x.c_str());
    ::rmdir(folder.c_str());
  }
};

/// The words that the attacker printed, by name: `refused`, `done`, `works` or
/// `fails`.
using outcomes = std::map<std::string, std::string>;

outcomes attack(uid_t user, const char* device) {
  sibling_process sibling{user};
  other_tenant tenant{user};
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  auto child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    become(user);
    ::execl(ATTACKER, "sandbox_attacker", device,
            std::to_string(sibling.pid()).c_str(), tenant.file.c_str(),
            tenant.path.c_str(), std::to_string(tenant.port).c_str(),
            tenant.name.c_str(), nullptr);
    ::_exit(errno == EACCES ? cannot_execute : 127);
  }
  ::close(ends[1]);
  std::string said;
  char part[512];
  for (ssize_t n = 0; (n = ::read(ends[0], part, sizeof part)) > 0;)
    said.append(part, static_cast<std::size_t>(n));
  ::close(ends[0]);
  auto status = -1;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  // The build folder may lie where only its user may look.
  if (WIFEXITED(status) && WEXITSTATUS(status) == cannot_execute &&
      user != ::getuid()) {
    BOOST_TEST_MESSAGE("an ordinary user cannot execute " ATTACKER);
    return {};
  }
  BOOST_TEST(status == 0);
  BOOST_TEST_MESSAGE(said);
  outcomes out;
  std::istringstream lines{said};
  for (std::string line; std::getline(lines, line);)
    if (auto gap = line.find(' '); gap != std::string::npos)
      out[line.substr(gap + 1)] = line.substr(0, gap);
  return out;
}

/// Returns whether the host gives a part of the sandbox to this user. The
/// report's line names it.
bool has(const outcomes& x, const std::string& part) {
  for (const auto& [text, word] : x)
    if (word == "sandbox") {
      auto gives = text.substr(0, text.find("; not:"));
      return (", " + gives + ",").find(", " + part + ",") != std::string::npos;
    }
  return false;
}

/// Checks everything but what needs a part that this host does not give.
void check(uid_t user, const char* device) {
  auto got = attack(user, device);
  // Landlock restricts TCP and signals from its versions 4 and 6 on, but
  // seccomp refuses the same.
  static const std::map<std::string, std::string> part_of{
      {"open-memory", "files"},
      {"open-environment", "files"},
      {"read-file", "files"},
      {"write-file", "files"},
      {"make-file", "files"},
      {"remove-file", "files"},
      {"read-passwords", "files"},
      {"hold-capabilities", "no capabilities"},
      {"gain-privileges", "no-new-privs"},
      {"dump-core", "no cores"},
      {"connect-to-worker", "no abstract sockets"}};
  // The needs of NVIDIA's driver are not documented, nor a sanitizer's.
  auto nvidia = device == std::string{"nvidia"};
  auto permitted = [&](const std::string& name) {
    return (name == "read-passwords" && nvidia) ||
           (name == "connect-to-service" && (nvidia || is_sanitized()));
  };
  auto seen = 0;
  for (const auto& [name, word] : got) {
    if (word == "sandbox")
      continue;
    auto needed = part_of.find(name);
    auto part =
        needed == part_of.end() ? std::string{"seccomp"} : needed->second;
    if (word == "fails")
      BOOST_ERROR(name + " does not work");
    if (word == "done" && has(got, part) && !permitted(name))
      BOOST_ERROR(name + " was not refused");
    ++seen;
  }
  BOOST_TEST((got.empty() || seen > 25));
}

} // namespace

BOOST_AUTO_TEST_SUITE(a_taken_worker)

BOOST_AUTO_TEST_CASE(is_confined_with_the_cpu_device) {
  check(::getuid(), "cpu");
}

BOOST_AUTO_TEST_CASE(is_confined_with_a_real_gpu) {
  check(::getuid(), "nvidia");
}

BOOST_AUTO_TEST_CASE(is_confined_as_an_ordinary_user) {
  if (::getuid() != 0)
    return; // the tests above are the same
  check(ordinary_user, "cpu");
  check(ordinary_user, "nvidia");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(sandbox_reports)

BOOST_AUTO_TEST_CASE(a_report_names_what_is_missing_and_why) {
  sandbox_report x;
  BOOST_TEST(x.text() == "none");
  x.has("limits");
  x.has("seccomp");
  BOOST_TEST(x.text() == "limits, seccomp");
  x.lacks("files", "no Landlock");
  BOOST_TEST(x.text() == "limits, seccomp; not: files (no Landlock)");
  sandbox_report y;
  y.read(x.write());
  BOOST_TEST(y.text() == x.text());
}

BOOST_AUTO_TEST_CASE(a_trial_leaves_this_process_as_it_was) {
  auto said = try_sandbox({}).text();
  BOOST_TEST(said.find("no-new-privs") != std::string::npos, said);
  BOOST_TEST(::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
