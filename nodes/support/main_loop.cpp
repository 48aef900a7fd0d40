#include "nodes/support/main_loop.hpp"

#include "actors/link/log.hpp"
#include "schema/log/session_area.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

namespace vgpu {

namespace {

[[noreturn]] void give_up(const char* what) {
  throw std::system_error{errno, std::generic_category(), what};
}

sigset_t handled_signals() {
  sigset_t out;
  ::sigemptyset(&out);
  for (auto x : {SIGINT, SIGTERM, SIGHUP})
    ::sigaddset(&out, x);
  return out;
}

/// Runs in the child between fork and exec, and makes only async-signal-safe
/// calls.
[[noreturn]] void become(char* const* argv, int input, const child_spec& what,
                         const std::vector<std::string>& groups, pid_t parent) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  // The child gets a group of its own, so that only its node handles a
  // terminal's signals.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before that took effect.
  if (::getppid() != parent)
    ::_exit(127);
  ::dup2(input, STDIN_FILENO);
  for (auto fd : what.descriptors)
    ::fcntl(fd, F_SETFD, 0);
  for (const auto& x : groups)
    if (auto fd = ::open(x.c_str(), O_WRONLY | O_CLOEXEC); fd >= 0)
      (void)!::write(fd, "0", 1);
  if (what.same_addresses)
    ::personality(ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT);
  ::execv(argv[0], argv);
  ::_exit(127);
}

std::string describe(const siginfo_t& x) {
  return (x.si_code == CLD_EXITED ? "exit " : "signal ") +
         std::to_string(x.si_status);
}

} // namespace

/// Holds the children by tag. Only the main thread uses the maps.
class main_loop::child_table final
    : public spawner,
      public std::enable_shared_from_this<child_table> {
public:
  explicit child_table(main_loop* loop) : loop_(loop) {}

  void start(std::uint64_t tag, child_spec what,
             child_listener listener) override {
    loop_->post([self = shared_from_this(), tag, what = std::move(what),
                 listener = std::move(listener)] {
      self->fork_child(tag, what, listener);
    });
  }

  void feed(std::uint64_t tag, std::string input) override {
    loop_->post([self = shared_from_this(), tag, input = std::move(input)] {
      if (auto to = self->input_of_.extract(tag))
        write_input(to.mapped().get(), input);
    });
  }

  void resize(std::uint64_t tag, std::uint64_t quota) override {
    loop_->post([self = shared_from_this(), tag, quota] {
      if (self->groups_)
        self->groups_->limit(tag, memory_of_worker(quota));
    });
  }

  void limit(std::unique_ptr<worker_groups> groups) {
    groups_ = std::move(groups);
  }

  void signal(std::uint64_t tag, int number) override {
    loop_->post([self = shared_from_this(), tag, number] {
      auto i = self->pidfd_of_.find(tag);
      if (i != self->pidfd_of_.end())
        ::syscall(SYS_pidfd_send_signal, i->second, number, nullptr, 0);
    });
  }

private:
  /// Writes a child's input. It cannot block, because a pipe holds far more
  /// bytes.
  static void write_input(int to, const std::string& input) {
    [[maybe_unused]] auto n = ::write(to, input.data(), input.size());
  }

  void fork_child(std::uint64_t tag, const child_spec& what,
                  const child_listener& listener) {
    auto fail = [&](std::string why) {
      caf::anon_send(listener, child_started{tag, 0, std::move(why)});
    };
    if (::access(what.argv[0].c_str(), X_OK) != 0)
      return fail("cannot run " + what.argv[0] + ": " + std::strerror(errno));
    int input[2];
    if (::pipe2(input, O_CLOEXEC) != 0)
      return fail(std::string{"pipe: "} + std::strerror(errno));
    std::vector<char*> argv;
    for (auto& x : what.argv)
      argv.push_back(const_cast<char*>(x.c_str()));
    argv.push_back(nullptr);
    std::vector<std::string> groups;
    if (groups_ && what.quota != 0)
      groups = groups_->make(tag, memory_of_worker(what.quota));
    auto parent = ::getpid();
    auto pid = ::fork();
    if (pid == 0)
      become(argv.data(), input[0], what, groups, parent);
    ::close(input[0]);
    unique_fd to{input[1]};
    if (pid > 0 && what.input_later)
      input_of_.insert_or_assign(tag, std::move(to));
    else if (pid > 0)
      write_input(to.get(), what.input);
    if (pid < 0)
      return fail(std::string{"fork: "} + std::strerror(errno));
    auto fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      return fail(std::string{"pidfd_open: "} + std::strerror(errno));
    }
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    pidfd_of_[tag] = fd;
    caf::anon_send(listener,
                   child_started{tag, static_cast<std::uint32_t>(pid), {}});
    loop_->watched_[fd] = [self = shared_from_this(), tag, fd, listener] {
      self->reap(tag, fd, listener);
    };
    loop_->add(fd);
  }

  void reap(std::uint64_t tag, int fd, const child_listener& listener) {
    siginfo_t info = {};
    if (::waitid(P_PIDFD, static_cast<id_t>(fd), &info, WEXITED) != 0)
      spdlog::error("Cannot read how a child process ended (waitid): {}",
                    std::strerror(errno));
    pidfd_of_.erase(tag);
    input_of_.erase(tag);
    if (groups_)
      groups_->remove(tag);
    loop_->remove(fd);
    caf::anon_send(listener, child_exited{tag, describe(info),
                                          info.si_code == CLD_EXITED &&
                                              info.si_status == 0});
  }

  main_loop* loop_;
  std::unique_ptr<worker_groups> groups_;
  std::map<std::uint64_t, int> pidfd_of_;
  std::map<std::uint64_t, unique_fd> input_of_; // not written yet
};

main_loop::main_loop()
    : on_signal_([this] { stop(); }),
      children_(std::make_shared<child_table>(this)) {
  ::signal(SIGPIPE, SIG_IGN);
  // A write beyond RLIMIT_FSIZE then fails with EFBIG.
  ::signal(SIGXFSZ, SIG_IGN);
  auto handled = handled_signals();
  if (::pthread_sigmask(SIG_BLOCK, &handled, nullptr) != 0)
    give_up("pthread_sigmask");
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  signals_ = ::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  if (epoll_ < 0 || signals_ < 0)
    give_up("epoll_create1, signalfd");
  add(signals_);
  add(bell_.fd());
}

main_loop::~main_loop() {
  // This precedes the descriptors, because their closures hold the table.
  auto watched = std::exchange(watched_, {});
  for (auto& [fd, what] : watched)
    ::close(fd);
  ::close(signals_);
  ::close(epoll_);
}

void main_loop::add(int fd) {
  epoll_event what = {};
  what.events = EPOLLIN;
  what.data.fd = fd;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &what) != 0)
    give_up("epoll_ctl");
}

void main_loop::remove(int fd) {
  watched_.erase(fd);
  // close() alone does not remove it from epoll while a child that has not
  // executed its program yet has a copy. The kernel would report events of that
  // copy for the next descriptor with this number.
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  ::close(fd);
}

void main_loop::on_signal(std::function<void()> what) {
  on_signal_ = std::move(what);
}

void main_loop::watch_owner(int fd, std::function<void()> ended) {
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  watched_[fd] = [this, fd, ended = std::move(ended)] {
    char ignored[64];
    if (::read(fd, ignored, sizeof(ignored)) > 0)
      return;
    auto call = ended;
    remove(fd);
    call();
  };
  add(fd);
}

void main_loop::post(std::function<void()> what) {
  {
    std::lock_guard guard{mutex_};
    posted_.push_back(std::move(what));
  }
  bell_.ring();
}

void main_loop::stop() {
  post([this] { running_ = false; });
}

std::shared_ptr<spawner> main_loop::children() {
  return children_;
}

void main_loop::limit_children(std::unique_ptr<worker_groups> groups) {
  children_->limit(std::move(groups));
}

void main_loop::read_signal() {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof(info)) == sizeof(info)) {
    spdlog::info("Received signal {}", info.ssi_signo);
    on_signal_();
  }
}

void main_loop::run_posted() {
  bell_.silence();
  std::vector<std::function<void()>> mine;
  {
    std::lock_guard guard{mutex_};
    mine.swap(posted_);
  }
  for (auto& x : mine)
    x();
}

void main_loop::dispatch(int fd) {
  if (fd == signals_)
    return read_signal();
  if (fd == bell_.fd())
    return run_posted();
  // The function is copied, because it may remove itself from the table.
  if (auto i = watched_.find(fd); i != watched_.end())
    std::function<void()>{i->second}();
}

void main_loop::run() {
  while (running_) {
    epoll_event ready[16];
    auto n = ::epoll_wait(epoll_, ready, 16, -1);
    if (n < 0 && errno != EINTR)
      give_up("epoll_wait");
    for (auto i = 0; i < n; ++i)
      dispatch(ready[i].data.fd);
  }
}

} // namespace vgpu
