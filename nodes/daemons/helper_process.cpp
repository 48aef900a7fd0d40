#include "nodes/daemons/helper_process.hpp"

#include "schema/log/session_area.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <thread>

namespace vgpu {

namespace {

class process final : public helper {
public:
  process(std::string name, pid_t pid, unique_fd output,
          std::function<void()> ring)
      : name_(std::move(name)), pid_(pid), output_(std::move(output)),
        ring_(std::move(ring)) {}

  ~process() override {
    {
      std::lock_guard guard{lock_};
      if (!over_)
        ::kill(pid_, SIGKILL);
    }
    thread_.join();
  }

  std::optional<status> outcome() override {
    std::lock_guard guard{lock_};
    if (!over_)
      return std::nullopt;
    return outcome_;
  }

private:
  void wait() {
    std::string said;
    char part[1024];
    ssize_t n = 0;
    while ((n = ::read(output_.get(), part, sizeof part)) > 0 ||
           (n < 0 && errno == EINTR))
      if (n > 0 && said.size() < sizeof part)
        said.append(part, static_cast<std::size_t>(n));
    siginfo_t end{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOWAIT) <
               0 &&
           errno == EINTR)
      continue;
    auto ended = end.si_code == CLD_EXITED;
    if (said.empty())
      said = "its " + name_ +
             (ended ? " exited with status " : " was killed by signal ") +
             std::to_string(end.si_status);
    if (ended && end.si_status == 0)
      note({});
    else
      note(fault{ended && end.si_status == helper_refused
                     ? fault_kind::unsupported
                     : fault_kind::internal,
                 said});
    ring_();
  }

  /// Reaps the process. Its number may belong to another process from here on.
  void note(status outcome) {
    std::lock_guard guard{lock_};
    ::waitpid(pid_, nullptr, 0);
    outcome_ = std::move(outcome);
    over_ = true;
  }

  std::string name_;
  pid_t pid_;
  unique_fd output_;
  std::function<void()> ring_;
  std::mutex lock_; // guards the members below
  status outcome_;
  bool over_ = false;
  // This is last, because the thread uses the other members.
  std::thread thread_{[this] { wait(); }};
};

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
  unique_fd from{ends[0]};
  unique_fd to{ends[1]};
  file_actions actions;
  actions.give(to.get(), STDERR_FILENO);
  if (what.file >= 0)
    actions.give(what.file, helper_file);
  auto arguments = what.arguments;
  std::vector<char*> argv;
  for (auto& x : arguments)
    argv.push_back(x.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (auto error = ::posix_spawn(&pid, what.program.c_str(), &actions.list,
                                 nullptr, argv.data(), environ);
      error != 0)
    return cannot("posix_spawn", error);
  to = unique_fd{};
  return std::unique_ptr<helper>{std::make_unique<process>(
      what.name, pid, std::move(from), std::move(ring))};
}

} // namespace vgpu
