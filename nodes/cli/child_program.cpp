#include "nodes/cli/child_program.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <initializer_list>

namespace vgpu::command {

namespace {

/// Passes on the signals that were sent to this process alone. A terminal sends
/// its signals to the whole group.
void forward(int signals, pid_t program) {
  signalfd_siginfo info;
  while (::read(signals, &info, sizeof(info)) == sizeof(info))
    if (info.ssi_code != SI_KERNEL)
      ::kill(program, static_cast<int>(info.ssi_signo));
}

} // namespace

sigset_t forwarded_signals() {
  sigset_t out;
  ::sigemptyset(&out);
  for (auto x : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH})
    ::sigaddset(&out, x);
  return out;
}

siginfo_t wait_program(int signals, pid_t program) {
  auto end = static_cast<int>(::syscall(SYS_pidfd_open, program, 0));
  pollfd what[] = {{signals, POLLIN, 0}, {end, POLLIN, 0}};
  while (what[1].revents == 0) {
    what[0].revents = 0;
    if (::poll(what, 2, -1) < 0 && errno != EINTR)
      break;
    if (what[0].revents != 0)
      forward(signals, program);
  }
  siginfo_t out = {};
  ::waitid(P_PID, static_cast<id_t>(program), &out, WEXITED);
  ::close(end);
  return out;
}

int end_like(const siginfo_t& how) {
  if (how.si_code == CLD_EXITED)
    return how.si_status;
  // Only the program may leave a core.
  rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::signal(how.si_status, SIG_DFL);
  sigset_t just_this;
  ::sigemptyset(&just_this);
  ::sigaddset(&just_this, how.si_status);
  ::kill(::getpid(), how.si_status);
  ::sigprocmask(SIG_UNBLOCK, &just_this, nullptr);
  return 128 + how.si_status;
}

} // namespace vgpu::command
