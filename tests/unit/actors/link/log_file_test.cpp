// How large the file of a daemon's log becomes.
#include "actors/link/log_file.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

using namespace vgpu;

namespace {

struct growing_log {
  static constexpr std::uint64_t most = 64 << 10;

  growing_log() {
    std::string pattern = "/tmp/vgpu-log-XXXXXX";
    folder = ::mkdtemp(pattern.data());
    path = folder + "/node.log";
  }
  ~growing_log() {
    ::close(fd);
    std::filesystem::remove_all(folder);
  }

  void open(int flags = O_APPEND) {
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    BOOST_REQUIRE(fd >= 0);
  }
  /// Writes so many lines of 100 bytes, and returns the largest size.
  std::uint64_t write(log_file& to, int lines) {
    const std::string line = std::string(99, 'x') + "\n";
    std::uint64_t largest = 0;
    for (int i = 0; i < lines; ++i) {
      BOOST_REQUIRE(::write(fd, line.data(), line.size()) == 100);
      to.look();
      largest =
          std::max<std::uint64_t>(largest, std::filesystem::file_size(path));
    }
    return largest;
  }

  std::string folder;
  std::string path;
  int fd = -1;
};

constexpr auto slack = std::uint64_t{log_file::lines_at_once} * 100;

} // namespace

BOOST_FIXTURE_TEST_SUITE(log_files, growing_log)

BOOST_AUTO_TEST_CASE(a_log_has_two_files_of_a_size) {
  open();
  log_file file{fd, path.c_str(), most};
  BOOST_TEST(file.is_bounded());
  BOOST_TEST(write(file, 10'000) <= most + slack);
  auto old = std::filesystem::file_size(path + ".1");
  BOOST_TEST(old >= most);
  BOOST_TEST(old <= most + slack);
}

BOOST_AUTO_TEST_CASE(who_may_make_no_file_drops_lines) {
  open();
  std::filesystem::create_directory(path + ".1");
  log_file file{fd, path.c_str(), most};
  BOOST_TEST(write(file, 10'000) <= 2 * most + slack);
}

BOOST_AUTO_TEST_CASE(files_of_others_stay_as_they_are) {
  open(0);
  BOOST_TEST(!(log_file{fd, path.c_str(), most}.is_bounded()));
  BOOST_TEST(!(log_file{fd, nullptr, most}.is_bounded()));
  auto other = folder + "/other.log";
  BOOST_TEST(!(log_file{fd, other.c_str(), most}.is_bounded()));
  log_file none{fd, nullptr, most};
  BOOST_TEST(write(none, 2'000) == 200'000u);
}

BOOST_AUTO_TEST_SUITE_END()
