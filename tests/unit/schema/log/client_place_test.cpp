// Where a client listens for its user's programs, and who else could take that
// place.
#include "schema/base/endpoints.hpp"
#include "schema/log/client_place.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

using namespace vgpu;

namespace {

/// Gives this process a runtime directory of its own.
struct runtime_folder {
  runtime_folder() {
    std::string pattern = "/tmp/vgpu-place-XXXXXX";
    folder = ::mkdtemp(pattern.data());
    if (const auto* x = std::getenv("XDG_RUNTIME_DIR"))
      before = x;
    ::setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  }
  ~runtime_folder() {
    if (before.empty())
      ::unsetenv("XDG_RUNTIME_DIR");
    else
      ::setenv("XDG_RUNTIME_DIR", before.c_str(), 1);
    std::filesystem::remove_all(folder);
  }

  /// Takes the abstract name, and never listens.
  unique_fd occupy() const {
    unique_fd out{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    auto name = client_socket_name(manager, "auto");
    std::memcpy(where.sun_path + 1, name.data(), name.size());
    auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                        name.size());
    BOOST_REQUIRE(::bind(out.get(), reinterpret_cast<const sockaddr*>(&where),
                         bytes) == 0);
    return out;
  }
  result<client_place> take() const {
    return client_place::take(manager, "auto");
  }
  bool is_within_folder(const std::string& path) const {
    return path.starts_with(folder + "/");
  }

  std::string folder;
  std::string before;
  std::string manager = "ipc:///place-test-" + std::to_string(::getpid());
};

bool hears(std::vector<unique_fd>& sockets) {
  for (auto& x : sockets)
    if (unique_fd guest{::accept(x.get(), nullptr, nullptr)}; guest)
      return true;
  return false;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(client_places, runtime_folder)

BOOST_AUTO_TEST_CASE(nobody_keeps_programs_away_by_the_abstract_name) {
  auto held = occupy();
  auto place = take();
  BOOST_REQUIRE(place.ok());
  BOOST_TEST(is_within_folder(place->path()));
  auto sockets = place->take_sockets();
  auto program = connect_to_client(manager, "auto");
  BOOST_TEST(static_cast<bool>(program));
  BOOST_TEST(hears(sockets));
}

BOOST_AUTO_TEST_CASE(programs_without_the_folder_use_the_abstract_name) {
  auto place = take();
  BOOST_REQUIRE(place.ok());
  auto sockets = place->take_sockets();
  BOOST_REQUIRE(::unlink(place->path().c_str()) == 0);
  auto program = connect_to_client(manager, "auto");
  BOOST_TEST(static_cast<bool>(program));
  BOOST_TEST(hears(sockets));
}

BOOST_AUTO_TEST_CASE(a_place_has_one_client_and_leaves_nothing) {
  {
    auto first = take();
    BOOST_REQUIRE(first.ok());
    BOOST_TEST(!take().ok());
    BOOST_TEST(std::filesystem::exists(first->path()));
  }
  BOOST_TEST(std::filesystem::is_empty(folder));
  BOOST_TEST(!connect_to_client(manager, "auto"));
  BOOST_TEST(take().ok());
}

BOOST_AUTO_TEST_CASE(a_client_follows_one_that_was_killed) {
  auto path = client_socket_paths(manager, "auto").front();
  BOOST_REQUIRE(is_within_folder(path));
  BOOST_REQUIRE(::mkdir((folder + "/vgpu-clients").c_str(), 0700) == 0);
  for (const auto& left : {path, path + ".lock"})
    BOOST_REQUIRE(::mknod(left.c_str(), S_IFREG | 0600, 0) == 0);
  auto place = take();
  BOOST_REQUIRE(place.ok());
  BOOST_TEST(place->path() == path);
}

BOOST_AUTO_TEST_CASE(a_folder_that_others_may_enter_is_not_used) {
  auto shared = folder + "/vgpu-clients";
  BOOST_REQUIRE(::mkdir(shared.c_str(), 0700) == 0);
  BOOST_REQUIRE(::chmod(shared.c_str(), 0755) == 0);
  auto place = take();
  BOOST_REQUIRE(place.ok());
  BOOST_TEST(!is_within_folder(place->path()));
  auto program = connect_to_client(manager, "auto");
  BOOST_TEST(static_cast<bool>(program));
}

BOOST_AUTO_TEST_SUITE_END()
