#include "interposer/session/client_start.hpp"

#include "schema/base/own_environment.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace vgpu::interposer {

namespace {

/// Holds the report of a started process: its process id, or the error of its
/// start.
struct report {
  int error = 0;
  pid_t pid = 0;
};

/// Forks a child that sends no signal when it ends, and for which wait() does
/// not wait. The child may call only async-signal-safe functions.
pid_t quiet_fork() noexcept {
  return static_cast<pid_t>(
      ::syscall(SYS_clone, 0UL, nullptr, nullptr, nullptr, 0UL));
}

void tell(int to, const report& what) noexcept {
  [[maybe_unused]] auto n = ::write(to, &what, sizeof(what));
}

/// Becomes the client. `to` closes by itself when exec succeeds.
[[noreturn]] void become_client(const char* path, char* const* arguments,
                                char* const* environment, bool keeps_log,
                                int to) noexcept {
  tell(to, {0, ::getpid()});
  ::setsid();
  auto nowhere = ::open("/dev/null", O_RDWR);
  for (auto fd : {STDIN_FILENO, STDOUT_FILENO})
    ::dup2(nowhere, fd);
  if (!keeps_log)
    ::dup2(nowhere, STDERR_FILENO);
  // Close every descriptor but stdio and the pipe, which gets the next number.
  constexpr int kept = STDERR_FILENO + 1;
  if (to != kept)
    ::dup2(to, kept);
  ::fcntl(kept, F_SETFD, FD_CLOEXEC);
  ::syscall(SYS_close_range, static_cast<unsigned>(kept + 1), ~0U, 0U);
  [[maybe_unused]] auto moved = ::chdir("/");
  // The program's handlers must not run here, so they go before any signal is
  // let through.
  for (int i = 1; i < NSIG; ++i)
    ::signal(i, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(path, arguments, environment);
  tell(kept, {errno, 0});
  ::_exit(127);
}

/// Tells whether the entry is for the program alone. A node that the client
/// starts must not pass CUDA_VISIBLE_DEVICES to the real driver.
bool is_for_program(std::string_view entry) {
  return entry.starts_with("LD_PRELOAD=") ||
         entry.starts_with("CUDA_VISIBLE_DEVICES=");
}

/// Returns the client's environment: the program's, and what the program has
/// removed of the variables with which it was started. After clearenv() there
/// is no list of the program's. A program with more rights than its user passes
/// on nothing, because the client would have these rights and obey that user.
std::vector<char*> client_environment() {
  if (::getauxval(AT_SECURE) != 0) {
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
    return {path, nullptr};
  }
  std::vector<char*> out;
  for (auto** i = environ; i != nullptr && *i != nullptr; ++i)
    if (!is_for_program(*i))
      out.push_back(*i);
  auto cleared = out.empty();
  for (auto x : first_environment()) {
    auto name = x.substr(0, x.find('=') + 1);
    auto known = std::any_of(out.begin(), out.end(), [&](const char* y) {
      return std::string_view{y}.starts_with(name);
    });
    if (!known && !is_for_program(x) && (cleared || x.starts_with("VGPU_")))
      out.push_back(const_cast<char*>(x.data())); // execve only reads it
  }
  out.push_back(nullptr);
  return out;
}

/// Returns the last report before the pipe closes. An error takes precedence
/// over success.
report read_report(int from) noexcept {
  report last{ECHILD, 0};
  for (report one;;) {
    auto n = ::read(from, &one, sizeof(one));
    if (n < 0 && errno == EINTR) // by a signal handler of the program
      continue;
    if (n != ssize_t{sizeof(one)})
      return last;
    last = {one.error, one.pid != 0 ? one.pid : last.pid};
  }
}

} // namespace

std::string client_program() {
  if (const auto* chosen = setting("VGPU_CLIENT");
      chosen != nullptr && *chosen != '\0')
    return chosen;
  Dl_info where{};
  if (::dladdr(reinterpret_cast<const void*>(&start_client), &where) == 0 ||
      where.dli_fname == nullptr)
    return "vgpu-client";
  std::string path{where.dli_fname};
  if (auto* whole = ::realpath(where.dli_fname, nullptr); whole != nullptr) {
    path = whole;
    std::free(whole);
  }
  auto end = path.rfind('/');
  auto folder =
      end == std::string::npos ? std::string{"."} : path.substr(0, end);
  return folder + "/../bin/vgpu-client";
}

result<unique_fd> start_client(const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fault{fault_kind::system,
                 std::string{"cannot make a pipe: "} + std::strerror(errno)};
  unique_fd reading{ends[0]}, writing{ends[1]};
  std::string name = "vgpu-client";
  std::vector<char*> arguments{name.data(), nullptr};
  auto environment = client_environment();
  const auto* path = program.c_str();
  auto to = writing.get();
  auto keeps_log = setting("VGPU_LOG") != nullptr;
  // No handler of the program runs in the children.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  auto middle = quiet_fork();
  if (middle != 0)
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (middle == 0) {
    if (quiet_fork() == 0)
      become_client(path, arguments.data(), environment.data(), keeps_log, to);
    ::_exit(0);
  }
  if (middle < 0)
    return fault{fault_kind::system,
                 std::string{"cannot start " + program + ": "} +
                     std::strerror(errno)};
  writing = unique_fd{};
  while (::waitpid(middle, nullptr, __WCLONE) < 0 && errno == EINTR)
    continue;
  auto got = read_report(reading.get());
  if (got.error != 0)
    return fault{fault_kind::system,
                 "cannot start " + program + ": " + std::strerror(got.error) +
                     "; set VGPU_CLIENT to the vgpu-client program"};
  return unique_fd{static_cast<int>(::syscall(SYS_pidfd_open, got.pid, 0U))};
}

} // namespace vgpu::interposer
