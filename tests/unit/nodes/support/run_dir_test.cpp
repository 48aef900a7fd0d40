// A cluster in a directory that another user made is not joined.
#include "nodes/support/run_dir.hpp"

#include "nodes/support/paths.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace vgpu;

namespace {

constexpr uid_t somebody = 65'534;

/// A folder in place of the user's, in which the default run directory lies.
struct a_place {
  std::string folder;
  std::string dir;
  std::string former;

  a_place() {
    std::string path = std::filesystem::temp_directory_path() / "run_dirXXXXXX";
    folder = ::mkdtemp(path.data());
    dir = folder + "/vgpu";
    if (const auto* was = std::getenv("XDG_RUNTIME_DIR"); was != nullptr)
      former = was;
    ::setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  }
  ~a_place() {
    if (former.empty())
      ::unsetenv("XDG_RUNTIME_DIR");
    else
      ::setenv("XDG_RUNTIME_DIR", former.c_str(), 1);
    std::filesystem::remove_all(folder);
  }

  void make(mode_t mode) const {
    BOOST_REQUIRE(::mkdir(dir.c_str(), 0700) == 0);
    BOOST_REQUIRE(::chmod(dir.c_str(), mode) == 0);
  }

  std::string why() const {
    auto good = check_own_cluster(endpoint_in(dir));
    return good ? std::string{} : good.why().what;
  }

  bool refused_for(const std::string& text) const {
    auto what = why();
    BOOST_TEST(what.find(dir) != what.npos, what);
    return what.find(text) != what.npos;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(run_dirs, a_place)

BOOST_AUTO_TEST_CASE(a_directory_of_ones_own_is_trusted) {
  BOOST_TEST(why() == ""); // there is none yet
  make(0700);
  BOOST_TEST(why() == "");
}

BOOST_AUTO_TEST_CASE(a_directory_that_others_may_enter_is_not) {
  make(0755);
  BOOST_TEST(refused_for("other users"));
}

BOOST_AUTO_TEST_CASE(a_link_or_a_file_is_not) {
  std::filesystem::create_directory(folder + "/elsewhere");
  ::chmod((folder + "/elsewhere").c_str(), 0700);
  std::filesystem::create_symlink(folder + "/elsewhere", dir);
  BOOST_TEST(refused_for("not a directory"));
  std::filesystem::remove(dir);
  std::ofstream{dir} << "x";
  BOOST_TEST(refused_for("not a directory"));
}

BOOST_AUTO_TEST_CASE(a_clients_own_cluster_is_checked_as_well) {
  BOOST_REQUIRE(::mkdir(own_cluster_dir().c_str(), 0700) == 0);
  ::chmod(own_cluster_dir().c_str(), 0750);
  BOOST_TEST(!check_own_cluster(endpoint_in(own_cluster_dir())).ok());
}

BOOST_AUTO_TEST_CASE(whoever_names_an_endpoint_trusts_it) {
  make(0755);
  BOOST_TEST(check_own_cluster("tcp://127.0.0.1:7070").ok());
  BOOST_TEST(check_own_cluster("ipc://" + folder + "/other.sock").ok());
}

BOOST_AUTO_TEST_CASE(another_users_directory_is_refused) {
  if (::geteuid() != 0)
    return; // only root can make one
  make(0700);
  BOOST_REQUIRE(::chown(dir.c_str(), somebody, somebody) == 0);
  BOOST_TEST(refused_for("another user"));
}

BOOST_AUTO_TEST_CASE(another_users_manager_is_refused) {
  if (::geteuid() != 0)
    return; // only root can become one
  make(0700);
  auto path = dir + "/manager.sock";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  auto fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  BOOST_REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address),
                       sizeof(address)) == 0);
  auto child = ::fork();
  if (child == 0)
    ::_exit(::setuid(somebody) == 0 && ::listen(fd, 8) == 0 ? 0 : 1);
  int how = 0;
  BOOST_REQUIRE(::waitpid(child, &how, 0) == child);
  BOOST_REQUIRE(how == 0);
  BOOST_TEST(refused_for("another user"));
  ::close(fd);
}

BOOST_AUTO_TEST_SUITE_END()
