// A program's files in the host window, and programs that name files of others.
#include "actors/lend/host_files.hpp"

#include "actors/lend/program_files.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace vgpu;

namespace {

/// A process with copies of this one's descriptors, until the object's end.
class other_process {
public:
  explicit other_process(const std::function<void()>& first = [] {}) {
    int ends[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_ = ::fork();
    char one = 'x';
    if (pid_ == 0) {
      first();
      ::close(ends[1]);
      // Then waits until the other end is closed.
      auto told = ::write(ends[0], &one, 1) == 1;
      ::_exit(told && ::read(ends[0], &one, 1) == 0 ? 0 : 1);
    }
    ::close(ends[0]);
    end_ = unique_fd{ends[1]};
    BOOST_REQUIRE(::read(ends[1], &one, 1) == 1); // it has begun
  }
  other_process(const other_process&) = delete;
  other_process& operator=(const other_process&) = delete;
  ~other_process() {
    end_ = {};
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

private:
  pid_t pid_ = -1;
  unique_fd end_;
};

struct window_with_file {
  static constexpr auto pages = std::uint64_t{5};
  static constexpr device_address at = host_window + 2 * page_bytes;

  std::shared_ptr<const session_area> area = make();
  unique_fd file{::memfd_create("vgpu-test", MFD_CLOEXEC)};
  host_files files{area};

  window_with_file() {
    BOOST_REQUIRE(::ftruncate(file.get(), pages * page_bytes) == 0);
    write_to_file(3 * page_bytes, "in the file");
    std::strcpy(text(0), "pinned");
  }

  static std::shared_ptr<const session_area> make() {
    auto made = session_area::create(minimum_log, 8 * granule_bytes);
    BOOST_REQUIRE(made.ok());
    BOOST_REQUIRE(made->map_host().ok());
    return std::make_shared<const session_area>(std::move(*made));
  }

  void write_to_file(std::uint64_t where, const std::string& what) const {
    BOOST_REQUIRE(::pwrite(file.get(), what.c_str(), what.size() + 1,
                           static_cast<off_t>(where)) ==
                  static_cast<ssize_t>(what.size()) + 1);
  }

  static char* text(std::uint64_t page) {
    return reinterpret_cast<char*>(at + page * page_bytes);
  }

  call::host_file of(pid_t program) const {
    return {at,
            2 * page_bytes,
            3 * page_bytes,
            static_cast<std::uint32_t>(program),
            static_cast<std::uint32_t>(area->control_fd()),
            static_cast<std::uint32_t>(file.get())};
  }

  void is_refused(const call::host_file& what) {
    BOOST_TEST(!files.show(what));
    BOOST_TEST(text(0) == "pinned");
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(files_in_the_host_window, window_with_file)

BOOST_AUTO_TEST_CASE(files_are_shown_and_hidden) {
  other_process program;
  BOOST_REQUIRE(files.show(of(program.pid())).ok());
  BOOST_TEST(text(0) == "in the file");
  write_to_file(4 * page_bytes, "later");
  BOOST_TEST(text(1) == "later");
  std::strcpy(text(1), "back");
  char back[5] = "";
  BOOST_TEST(::pread(file.get(), back, 5, 4 * page_bytes) == 5);
  BOOST_TEST(back == "back");
  // This is not the range that was shown.
  BOOST_TEST(files.hide(at, page_bytes).ok());
  BOOST_TEST(text(0) == "in the file");
  BOOST_TEST(files.hide(at, 2 * page_bytes).ok());
  BOOST_TEST(text(0) == "pinned");
}

BOOST_AUTO_TEST_CASE(the_client_opens_files_for_the_worker) {
  // They have no copies of the sockets.
  other_process program;
  other_process worker;
  int ends[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX,
                             SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                             ends) == 0);
  files.opened_at(unique_fd{ends[0]});
  auto answer = [&, client = unique_fd{ends[1]}] {
    pollfd item{client.get(), POLLIN, 0};
    while (::poll(&item, 1, -1) == 1 &&
           answer_program_file(client.get(), area->control_fd(), worker.pid()))
      continue;
  };
  std::thread client{std::move(answer)};
  BOOST_TEST(files.show(of(program.pid())).ok());
  BOOST_TEST(text(0) == "in the file");
  BOOST_TEST(files.hide(at, 2 * page_bytes).ok());
  // Neither its worker nor the client itself, which is this process here.
  for (auto pid : {worker.pid(), ::getpid(), 0}) {
    auto refused = files.show(of(pid));
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.why().kind == fault_kind::usage));
  }
  auto wrong = of(program.pid());
  wrong.file = wrong.control + 100000;
  is_refused(wrong);
  files.opened_at({});
  client.join();
}

BOOST_AUTO_TEST_CASE(without_its_client_a_worker_gets_no_file) {
  int ends[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX,
                             SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                             ends) == 0);
  files.opened_at(unique_fd{ends[0]});
  ::close(ends[1]);
  other_process program;
  auto refused = files.show(of(program.pid()));
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.why().kind == fault_kind::unsupported));
}

BOOST_AUTO_TEST_CASE(only_files_of_the_program_itself_are_shown) {
  is_refused(of(::getpid())); // the worker
  is_refused(of(0));
  is_refused(of(-1));
  {
    other_process client;
    files.served_by(client.pid());
    is_refused(of(client.pid()));
  }
  // It has the file, but not the program's control area.
  other_process stranger{[&] { ::close(area->control_fd()); }};
  is_refused(of(stranger.pid()));
  other_process program;
  auto wrong = of(program.pid());
  wrong.control = wrong.file;
  is_refused(wrong);
}

BOOST_AUTO_TEST_CASE(only_ranges_within_a_file_and_the_window_are_shown) {
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  unique_fd out{ends[0]};
  unique_fd in{ends[1]};
  other_process program;
  const auto good = of(program.pid());
  auto wrong = good;
  wrong.file = static_cast<std::uint32_t>(in.get());
  is_refused(wrong);
  wrong.file = 100000;
  is_refused(wrong);
  wrong = good;
  wrong.offset = pages * page_bytes; // the end
  is_refused(wrong);
  wrong.offset = ~std::uint64_t{0} - page_bytes + 1;
  is_refused(wrong);
  wrong.offset = 1;
  is_refused(wrong);
  wrong = good;
  wrong.bytes = 3 * page_bytes; // beyond the end
  is_refused(wrong);
  wrong.bytes = 0;
  is_refused(wrong);
  wrong.bytes = 100;
  is_refused(wrong);
  wrong = good;
  wrong.address = host_window + area->host_bytes() - page_bytes;
  is_refused(wrong);
  wrong.address = first_window;
  is_refused(wrong);
  BOOST_TEST(files.show(good).ok());
}

BOOST_AUTO_TEST_SUITE_END()
