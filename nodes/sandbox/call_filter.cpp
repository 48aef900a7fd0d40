#include "nodes/sandbox/call_filter.hpp"

#ifdef VGPU_SECCOMP
#include "nodes/sandbox/sanitizers.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#endif

namespace vgpu {

#ifndef VGPU_SECCOMP

void restrict_system_calls(const sandbox_needs&, sandbox_report& report) {
  report.lacks("seccomp", "this release was built without libseccomp");
}

#else

namespace {

/// Gives the calls of a worker of the cpu device. They are those that its
/// libraries were seen to make, and their siblings, between which a C library
/// may choose. Calls that take a path are limited by file_rights.hpp.
constexpr std::string_view calls_of_cpu_device = R"(
# Memory.
brk madvise membarrier memfd_create mincore mmap mprotect mremap msync munmap
get_mempolicy
# Threads, and the helper of a dry run.
arch_prctl execve exit exit_group futex get_robust_list getcpu gettid prctl
rseq sched_get_priority_max sched_get_priority_min sched_getaffinity
sched_getparam sched_getscheduler sched_setaffinity sched_setscheduler
sched_yield set_robust_list set_tid_address wait4 waitid getpriority
setpriority
# Signals of this process to itself; kill and tgkill have filters.
restart_syscall rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn
rt_sigsuspend rt_sigtimedwait sigaltstack signalfd4
# Time.
clock_getres clock_gettime clock_nanosleep gettimeofday nanosleep time
timerfd_create timerfd_gettime timerfd_settime
# Descriptors and their readiness.
close close_range dup dup2 dup3 epoll_create1 epoll_ctl epoll_pwait
epoll_pwait2 epoll_wait eventfd2 pipe2 poll ppoll pselect6 select
# Files.
access faccessat faccessat2 fadvise64 fallocate fdatasync flock fstat fstatfs
fsync ftruncate getcwd getdents64 lseek newfstatat open openat pread64 preadv
pwrite64 pwritev read readlink readlinkat readv stat lstat statfs statx umask
unlink unlinkat write writev
# Sockets that are open, and new ones between workers; socket has a filter.
accept4 bind connect getpeername getsockname getsockopt listen recvfrom
recvmmsg recvmsg sendmmsg sendmsg sendto setsockopt shutdown socketpair
# Questions about this process and its host.
getegid geteuid getgid getgroups getpgid getpgrp getpid getppid getrandom
getresgid getresuid getrlimit getrusage getsid getuid prlimit64 setrlimit
sysinfo times uname
)";

/// Gives the calls that a worker with NVIDIA's driver may not make, because
/// they serve to reach other processes, the host's configuration, or parts of
/// the kernel that no worker needs. The driver itself needs ioctl, mmap and
/// open on /dev/nvidia*, and whatever its release makes of poll, eventfd,
/// memfd_create and clone.
constexpr std::string_view calls_of_attackers = R"(
# Other processes.
process_madvise process_mrelease pidfd_send_signal rt_sigqueueinfo
rt_tgsigqueueinfo tkill migrate_pages move_pages
# Namespaces and mounts.
setns unshare mount umount2 move_mount open_tree fsopen fsconfig fsmount
fspick mount_setattr pivot_root chroot mknod mknodat name_to_handle_at
open_by_handle_at
# The kernel and the host.
init_module finit_module delete_module kexec_load kexec_file_load reboot
swapon swapoff acct quotactl quotactl_fd nfsservctl syslog sethostname
setdomainname settimeofday clock_settime clock_adjtime adjtimex iopl ioperm
lookup_dcookie vhangup uselib _sysctl ustat sysfs
# Parts of the kernel that were often attacked.
bpf perf_event_open userfaultfd io_uring_setup io_uring_enter
io_uring_register fanotify_init fanotify_mark keyctl add_key request_key
modify_ldt vmsplice
# Objects that other users of the host can name.
mq_open mq_unlink mq_timedsend mq_timedreceive msgget msgsnd msgrcv msgctl
semget semop semctl semtimedop shmget shmat shmctl shmdt
# Another identity.
setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid
setgroups capset personality
)";

/// Gives the calls that reach into another process. NVIDIA's driver may need
/// them in the helper that checkpoints its worker, so they are left to a worker
/// that can reach no process but itself and its helpers (file_rights.hpp).
constexpr std::string_view calls_of_tracers =
    "ptrace process_vm_writev pidfd_getfd kcmp";

/// Builds a filter. A rule that the kernel's headers do not know is left out,
/// because the kernel does not have such a call either.
class filter {
public:
  explicit filter(std::uint32_t otherwise)
      : context_(::seccomp_init(otherwise), &::seccomp_release) {
    if (!context_)
      error_ = -ENOMEM;
    if (error_ == 0)
      note(::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_TSYNC, 1));
    // By default, older kernels slow down all memory reads of a process with a
    // filter (speculative store bypass). A worker executes a session's
    // instructions by itself and has nothing in memory that is not the
    // session's. Kernels and libraries without these two do without.
    (void)::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_SSB, 1);
    (void)::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  }

  template <class... Tests>
  void rule(std::uint32_t action, const char* name, Tests... tests) {
    auto number = ::seccomp_syscall_resolve_name(name);
    if (error_ != 0 || number == __NR_SCMP_ERROR)
      return;
    note(::seccomp_rule_add(context_.get(), action, number, sizeof...(tests),
                            tests...));
  }
  /// Adds a rule for each name of a list, in which `#` begins a comment.
  void rules(std::uint32_t action, std::string_view names) {
    std::istringstream lines{std::string{names}};
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words{line.substr(0, line.find('#'))};
      for (std::string x; words >> x;)
        rule(action, x.c_str());
    }
  }
  /// Returns 0, or a negative error.
  int load() { return error_ != 0 ? error_ : ::seccomp_load(context_.get()); }

private:
  void note(int code) {
    if (error_ == 0)
      error_ = code;
  }

  std::unique_ptr<void, void (*)(scmp_filter_ctx)> context_;
  int error_ = 0;
};

constexpr auto refused = SCMP_ACT_ERRNO(EPERM);
constexpr auto unknown = SCMP_ACT_ERRNO(ENOSYS);

/// Permits what differs by argument.
void permit_by_argument(filter& to) {
  auto self = static_cast<scmp_datum_t>(::getpid());
  // New threads, and a helper, which executes a program at once.
  constexpr scmp_datum_t kinds = CLONE_THREAD | CLONE_VM | CLONE_VFORK;
  to.rule(SCMP_ACT_ALLOW, "clone",
          SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | CLONE_VM,
                  CLONE_THREAD | CLONE_VM));
  to.rule(SCMP_ACT_ALLOW, "clone",
          SCMP_A0(SCMP_CMP_MASKED_EQ,
                  kinds | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                      CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                      CLONE_NEWCGROUP,
                  CLONE_VM | CLONE_VFORK));
  // Signal 0 asks whether the recorder of a shared event lives.
  to.rule(SCMP_ACT_ALLOW, "kill", SCMP_A0(SCMP_CMP_EQ, self));
  to.rule(SCMP_ACT_ALLOW, "kill", SCMP_A1(SCMP_CMP_EQ, 0));
  to.rule(SCMP_ACT_ALLOW, "tgkill", SCMP_A0(SCMP_CMP_EQ, self));
  to.rule(SCMP_ACT_ALLOW, "process_vm_readv", SCMP_A0(SCMP_CMP_EQ, self));
  // Workers lend to each other over sockets that keep messages apart. The
  // sockets of managers, nodes and the host's services are streams.
  constexpr scmp_datum_t type = ~scmp_datum_t{SOCK_CLOEXEC | SOCK_NONBLOCK};
  to.rule(SCMP_ACT_ALLOW, "socket", SCMP_A0(SCMP_CMP_EQ, AF_UNIX),
          SCMP_A1(SCMP_CMP_MASKED_EQ, type & 0xffffffff, SOCK_SEQPACKET));
  for (scmp_datum_t x :
       {F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW,
        F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_DUPFD_CLOEXEC, F_SETPIPE_SZ,
        F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS})
    to.rule(SCMP_ACT_ALLOW, "fcntl", SCMP_A1(SCMP_CMP_EQ, x));
  // SIOCOUTQ says how much of a packet socket its reader has not read.
  for (scmp_datum_t x : {FIONREAD, FIONBIO, TCGETS, SIOCOUTQ})
    to.rule(SCMP_ACT_ALLOW, "ioctl", SCMP_A1(SCMP_CMP_EQ, x));
}

int permit_cpu_device() {
  filter out{unknown};
  out.rules(SCMP_ACT_ALLOW, calls_of_cpu_device);
  permit_by_argument(out);
  // A caller should learn that these are refused, not that they are missing.
  // The C library falls back to clone where clone3, whose arguments no filter
  // can see, is missing.
  out.rules(refused, calls_of_attackers);
  out.rules(refused, calls_of_tracers);
  return out.load();
}

int refuse_attacks(bool may_trace) {
  filter out{SCMP_ACT_ALLOW};
  out.rules(refused, calls_of_attackers);
  auto self = static_cast<scmp_datum_t>(::getpid());
  if (!may_trace) {
    out.rules(refused, calls_of_tracers);
    out.rule(refused, "process_vm_readv", SCMP_A0(SCMP_CMP_NE, self));
  }
  out.rule(refused, "tgkill", SCMP_A0(SCMP_CMP_NE, self));
  out.rule(refused, "kill", SCMP_A0(SCMP_CMP_NE, self),
           SCMP_A1(SCMP_CMP_NE, 0));
  out.rule(refused, "socket", SCMP_A0(SCMP_CMP_NE, AF_UNIX));
  // These make the kernel send any signal to any process of the user.
  for (scmp_datum_t x : {F_SETOWN, F_SETOWN_EX, F_SETSIG})
    out.rule(refused, "fcntl", SCMP_A1(SCMP_CMP_EQ, x));
  // TIOCSTI types into the terminal from which the node was started.
  out.rule(refused, "ioctl", SCMP_A1(SCMP_CMP_EQ, TIOCSTI));
  return out.load();
}

} // namespace

void restrict_system_calls(const sandbox_needs& needs, sandbox_report& report) {
  auto code = needs.nvidia || is_sanitized()
                  ? refuse_attacks(report.gives("files"))
                  : permit_cpu_device();
  if (code == 0)
    report.has("seccomp");
  else
    report.lacks("seccomp", std::strerror(-code));
}

#endif

} // namespace vgpu
