// A program of two processes that communicate over a socket. Each is forked
// before its first call of CUDA, because a process that has used CUDA cannot
// fork.
#pragma once

#include "../check.hpp"

#include <cstring>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/// Is one process's end of the socket. A missing message ends the program.
class line {
public:
  explicit line(int fd) : fd_(fd) {}

  template <class T>
  void send(const T& x) const {
    EXPECT(::write(fd_, &x, sizeof(x)) == static_cast<ssize_t>(sizeof(x)));
  }
  template <class T>
  T receive() const {
    T out{};
    EXPECT(::read(fd_, &out, sizeof(out)) == static_cast<ssize_t>(sizeof(out)));
    return out;
  }
  /// Sends a descriptor, whose number differs in the other process.
  void send_file(int file) const {
    char what = 'f';
    iovec part{&what, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(file))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    auto* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(file));
    std::memcpy(CMSG_DATA(head), &file, sizeof(file));
    EXPECT(::sendmsg(fd_, &message, 0) == 1);
  }
  int receive_file() const {
    char what = 0;
    iovec part{&what, 1};
    int file = -1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(file))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    EXPECT(::recvmsg(fd_, &message, 0) == 1);
    auto* head = CMSG_FIRSTHDR(&message);
    EXPECT(head != nullptr && head->cmsg_type == SCM_RIGHTS);
    std::memcpy(&file, CMSG_DATA(head), sizeof(file));
    return file;
  }
  /// Waits until the other process calls this, too.
  void meet() const {
    send('.');
    EXPECT(receive<char>() == '.');
  }
  /// Waits until the other process has ended.
  void wait_for_end() const {
    char none = 0;
    EXPECT(::read(fd_, &none, 1) == 0);
  }

private:
  int fd_;
};

/// Runs `child` in a new process and `parent` in this one, each with its end of
/// a line. Returns whether both succeeded.
template <class Parent, class Child>
bool run_two(const Parent& parent, const Child& child) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
    return false;
  std::fflush(stdout);
  auto pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    child(line{ends[1]});
    std::fflush(stdout);
    std::exit(0);
  }
  ::close(ends[1]);
  parent(line{ends[0]});
  ::close(ends[0]);
  int status = 0;
  return pid > 0 && ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}
