// Enters a worker's sandbox, and then does what an attacker who has taken a
// worker would do. Prints a line for each attempt: `refused NAME` or
// `done NAME`, and of what a worker needs `works NAME` or `fails NAME`.
#include "nodes/sandbox/sandbox.hpp"
#include "nodes/sandbox/sanitizers.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

namespace {

void attempt(const char* name, bool done) {
  std::printf("%s %s\n", done ? "done" : "refused", name);
}

void need(const char* name, bool works) {
  std::printf("%s %s\n", works ? "works" : "fails", name);
}

bool opens(const std::string& path, int how) {
  auto fd = ::open(path.c_str(), how | O_CLOEXEC, 0600);
  if (fd >= 0)
    ::close(fd);
  return fd >= 0;
}

// -- other processes ----------------------------------------------------------

bool asks_kernel_to_signal(pid_t whom) {
  int ends[2];
  return ::pipe2(ends, O_CLOEXEC) == 0 && ::fcntl(ends[0], F_SETOWN, whom) == 0;
}

void reach_processes(pid_t sibling) {
  attempt("trace", ::ptrace(PTRACE_SEIZE, sibling, nullptr, nullptr) == 0);
  char byte = 0;
  iovec to{&byte, 1};
  iovec from{&byte, 1};
  attempt("read-memory", ::process_vm_readv(sibling, &to, 1, &from, 1, 0) == 1);
  attempt("write-memory",
          ::process_vm_writev(sibling, &to, 1, &from, 1, 0) == 1);
  auto of = "/proc/" + std::to_string(sibling);
  attempt("open-memory", opens(of + "/mem", O_RDWR));
  attempt("open-environment", opens(of + "/environ", O_RDONLY));
  attempt("signal", ::kill(sibling, SIGWINCH) == 0);
  attempt("signal-thread",
          ::syscall(SYS_tgkill, sibling, sibling, SIGWINCH) == 0);
  attempt("signal-by-tkill", ::syscall(SYS_tkill, sibling, SIGWINCH) == 0);
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  attempt("queue-signal",
          ::syscall(SYS_rt_sigqueueinfo, sibling, SIGWINCH, &info) == 0);
  auto process = ::syscall(SYS_pidfd_open, sibling, 0);
  attempt("signal-by-pidfd",
          process >= 0 && ::syscall(SYS_pidfd_send_signal, process, SIGWINCH,
                                    nullptr, 0) == 0);
  attempt("signal-by-owner", asks_kernel_to_signal(sibling));
}

// -- files and sockets --------------------------------------------------------

void reach_files(const std::string& secret) {
  attempt("read-file", opens(secret, O_RDONLY));
  attempt("write-file", opens(secret, O_WRONLY));
  attempt("make-file", opens(secret + ".new", O_WRONLY | O_CREAT));
  attempt("remove-file", ::unlink(secret.c_str()) == 0);
  attempt("read-passwords", opens("/etc/passwd", O_RDONLY));
}

bool connects(int kind, const sockaddr* to, socklen_t size) {
  auto fd = ::socket(to->sa_family, kind | SOCK_CLOEXEC, 0);
  auto done = fd >= 0 && ::connect(fd, to, size) == 0;
  if (fd >= 0)
    ::close(fd);
  return done;
}

/// Connects to an abstract socket at which another worker serves packets.
void reach_worker(const std::string& name) {
  sockaddr_un there{};
  there.sun_family = AF_UNIX;
  name.copy(there.sun_path + 1, sizeof there.sun_path - 1);
  auto size = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  attempt("connect-to-worker",
          connects(SOCK_SEQPACKET, reinterpret_cast<sockaddr*>(&there),
                   static_cast<socklen_t>(size)));
}

void reach_sockets(const std::string& path, int port) {
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  std::strncpy(local.sun_path, path.c_str(), sizeof local.sun_path - 1);
  attempt(
      "connect-to-service",
      connects(SOCK_STREAM, reinterpret_cast<sockaddr*>(&local), sizeof local));
  sockaddr_in remote{};
  remote.sin_family = AF_INET;
  remote.sin_port = htons(static_cast<std::uint16_t>(port));
  remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  attempt("connect-out",
          connects(SOCK_STREAM, reinterpret_cast<sockaddr*>(&remote),
                   sizeof remote));
  attempt("send-out", ::socket(AF_INET, SOCK_DGRAM, 0) >= 0);
  attempt("open-netlink", ::socket(AF_NETLINK, SOCK_RAW, 0) >= 0);
}

// -- the host -----------------------------------------------------------------

bool forks() {
  auto child = ::fork();
  if (child == 0)
    ::_exit(0);
  return child > 0 && ::waitpid(child, nullptr, 0) == child;
}

bool status_says(const std::string& line) {
  std::ifstream in{"/proc/self/status"};
  for (std::string x; std::getline(in, x);)
    if (x == line)
      return true;
  return false;
}

void reach_host() {
  attempt("unshare", ::unshare(CLONE_NEWUSER) == 0);
  attempt("mount", ::mount("none", "/mnt", "tmpfs", 0, nullptr) == 0);
  attempt("load-bpf", ::syscall(SYS_bpf, 0, nullptr, 0) >= 0 || errno != EPERM);
  attempt("watch-counters",
          ::syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0) >= 0 ||
              errno != EPERM);
  attempt("keep-keys",
          ::syscall(SYS_keyctl, 0, 0, 0, 0, 0) >= 0 || errno != EPERM);
  attempt("hold-capabilities", !status_says("CapEff:\t0000000000000000") ||
                                   !status_says("CapPrm:\t0000000000000000"));
  attempt("gain-privileges", ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
  rlimit cores{};
  ::getrlimit(RLIMIT_CORE, &cores);
  attempt("dump-core", cores.rlim_max > 1);
}

// -- what a worker needs ------------------------------------------------------

void check_needs() {
  auto ran = false;
  std::thread{[&] { ran = true; }}.join();
  need("threads", ran);
  auto memory = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  need("shared-memory", memory >= 0 && ::ftruncate(memory, 4096) == 0 &&
                            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                                   MAP_SHARED, memory, 0) != MAP_FAILED);
  auto again = "/proc/self/fd/" + std::to_string(memory);
  need("own-memory-again", opens(again, O_RDWR));
  need("seals", ::fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  need("eventfd", ::eventfd(0, EFD_CLOEXEC) >= 0);
  need("socket-of-workers",
       ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) >=
           0);
  char byte = 1;
  char got = 0;
  iovec to{&got, 1};
  iovec from{&byte, 1};
  need("own-memory-read",
       ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == 1);
  char program[] = "/bin/true";
  char* const arguments[] = {program, nullptr};
  pid_t child = 0;
  auto status = -1;
  need("helper", ::posix_spawn(&child, program, nullptr, nullptr, arguments,
                               environ) == 0 &&
                     ::waitpid(child, &status, 0) == child && status == 0);
  need("time-zone", opens("/etc/localtime", O_RDONLY) || errno == ENOENT);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: sandbox_attacker cpu|nvidia SIBLING FILE "
                         "SOCKET PORT ABSTRACT-SOCKET\n");
    return 2;
  }
  vgpu::sandbox_needs needs;
  needs.nvidia = std::string{argv[1]} == "nvidia";
  needs.connected_by_node = true;
  vgpu::sandbox_report report;
  vgpu::enter_sandbox(needs, report);
  vgpu::seal_sandbox(needs, report);
  std::printf("sandbox %s\n", report.text().c_str());
  reach_processes(std::atoi(argv[2]));
  reach_files(argv[3]);
  reach_sockets(argv[4], std::atoi(argv[5]));
  reach_worker(argv[6]);
  // What NVIDIA's driver and sanitizers do with processes is not known.
  if (!needs.nvidia && !vgpu::is_sanitized())
    attempt("fork", forks());
  reach_host();
  check_needs();
  std::fflush(stdout);
  ::_exit(0);
}
