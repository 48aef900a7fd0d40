#include "nodes/daemons/helper_process.hpp"

#include "actors/link/doorbell.hpp"
#include "schema/log/session_area.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

namespace vgpu {

namespace {

/// Owns the list of descriptors that the child gets, each under another number.
struct file_actions {
  posix_spawn_file_actions_t list;
  file_actions() { ::posix_spawn_file_actions_init(&list); }
  ~file_actions() { ::posix_spawn_file_actions_destroy(&list); }
  file_actions(const file_actions&) = delete;
  file_actions& operator=(const file_actions&) = delete;
  void give(int fd, int as) {
    ::posix_spawn_file_actions_adddup2(&list, fd, as);
  }
};

/// Starts a helper's program. Returns 0, or the error.
int spawn(const helper_process& what, int output, pid_t& pid) {
  file_actions actions;
  actions.give(output, STDERR_FILENO);
  if (what.file >= 0)
    actions.give(what.file, helper_file);
  auto arguments = what.arguments;
  std::vector<char*> argv;
  for (auto& x : arguments)
    argv.push_back(x.data());
  argv.push_back(nullptr);
  return ::posix_spawn(&pid, what.program.c_str(), &actions.list, nullptr,
                       argv.data(), environ);
}

/// Is a started helper. The thread that waits for it also starts it, because a
/// helper dies with the thread that started it: a sandboxed worker may signal
/// nobody, and ends its helper by ending that thread.
class process final : public helper {
public:
  process(const helper_process& what, unique_fd from, unique_fd to,
          std::function<void()> ring)
      : name_(what.name), output_(std::move(from)), ring_(std::move(ring)) {
    std::promise<int> started;
    auto error = started.get_future();
    thread_ = std::thread{[&, this] {
      auto code = spawn(what, to.get(), pid_);
      to = unique_fd{};
      started.set_value(code);
      if (code == 0)
        wait();
    }};
    error_ = error.get();
  }

  ~process() override {
    auto abandoned = false;
    {
      std::lock_guard guard{lock_};
      abandoned = error_ == 0 && !over_;
      if (abandoned && ::kill(pid_, SIGKILL) != 0)
        stop_.ring();
    }
    thread_.join();
    if (abandoned && !over_)
      ::waitpid(pid_, nullptr, 0);
  }

  /// Returns 0, or why the helper did not start.
  int error() const noexcept { return error_; }

  std::optional<status> outcome() override {
    std::lock_guard guard{lock_};
    if (!over_)
      return std::nullopt;
    return outcome_;
  }

private:
  /// Returns whether the helper says something or ends, and not stop_.
  bool await_output() {
    pollfd items[] = {{stop_.fd(), POLLIN, 0}, {output_.get(), POLLIN, 0}};
    while (::poll(items, 2, -1) < 0 && errno == EINTR)
      continue;
    return items[0].revents == 0;
  }

  void wait() {
    std::string said;
    char part[1024];
    ssize_t n = 0;
    do {
      if (!await_output())
        return;
      n = ::read(output_.get(), part, sizeof part);
      if (n > 0 && said.size() < sizeof part)
        said.append(part, static_cast<std::size_t>(n));
    } while (n > 0 || (n < 0 && errno == EINTR));
    siginfo_t end{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOWAIT) <
               0 &&
           errno == EINTR)
      continue;
    note(end, std::move(said));
    ring_();
  }

  status outcome_of(const siginfo_t& end, std::string said) const {
    auto ended = end.si_code == CLD_EXITED;
    if (said.empty())
      said = "its " + name_ +
             (ended ? " exited with status " : " was killed by signal ") +
             std::to_string(end.si_status);
    if (ended && end.si_status == 0)
      return {};
    return fault{ended && end.si_status == helper_refused
                     ? fault_kind::unsupported
                     : fault_kind::internal,
                 said};
  }

  /// Reaps the process. Its number may belong to another process from here on.
  void note(const siginfo_t& end, std::string said) {
    std::lock_guard guard{lock_};
    ::waitpid(pid_, nullptr, 0);
    outcome_ = outcome_of(end, std::move(said));
    over_ = true;
  }

  std::string name_;
  pid_t pid_ = 0;
  int error_ = 0;
  unique_fd output_;
  std::function<void()> ring_;
  doorbell stop_;
  std::mutex lock_; // guards the members below
  status outcome_;
  bool over_ = false;
  std::thread thread_;
};

} // namespace

result<std::unique_ptr<helper>> start_helper(const helper_process& what,
                                             std::function<void()> ring) {
  auto cannot = [&](const char* how, int error) {
    return fault{fault_kind::system, "cannot start a worker's " + what.name +
                                         ": " + how + ": " +
                                         std::strerror(error)};
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return cannot("pipe2", errno);
  auto out = std::make_unique<process>(what, unique_fd{ends[0]},
                                       unique_fd{ends[1]}, std::move(ring));
  if (out->error() != 0)
    return cannot("posix_spawn", out->error());
  return std::unique_ptr<helper>{std::move(out)};
}

} // namespace vgpu
