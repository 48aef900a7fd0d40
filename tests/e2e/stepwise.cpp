// Keeps a program from running ahead of the script that follows its output.
//
//   stepwise write COMMAND...   runs COMMAND, whose output goes to a pipe
//   stepwise read               reads that pipe on standard input
//
// The writing side puts its standard output, a pipe, into packet mode with room
// for one packet (pipe(7), pipe2(2): O_DIRECT; fcntl(2): F_SETPIPE_SZ), so that
// COMMAND waits in its next write(2) until the packet before was read. The
// reading side passes on a line, and waits for a byte on descriptor 3 before it
// passes on the next one. So COMMAND is at most two writes ahead of the script,
// however busy the machine is.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace {

constexpr int steps = 3;

int fail(const char* what) {
  std::fprintf(stderr, "stepwise: %s: %s\n", what, std::strerror(errno));
  return 125;
}

int run(char** command) {
  auto flags = ::fcntl(STDOUT_FILENO, F_GETFL);
  if (flags < 0 || ::fcntl(STDOUT_FILENO, F_SETFL, flags | O_DIRECT) < 0)
    return fail("packet mode of the standard output");
  if (::fcntl(STDOUT_FILENO, F_SETPIPE_SZ, ::sysconf(_SC_PAGESIZE)) < 0)
    return fail("size of the standard output's pipe");
  ::execvp(command[0], command);
  return fail(command[0]);
}

bool write_all(std::string_view text) {
  while (!text.empty()) {
    auto n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// Returns false when the script has ended.
bool wait_for_step() {
  for (;;) {
    pollfd both[] = {{steps, POLLIN, 0}, {STDOUT_FILENO, 0, 0}};
    if (::poll(both, 2, -1) < 0) {
      if (errno == EINTR)
        continue;
      return false;
    }
    if (both[1].revents != 0)
      return false;
    char byte = 0;
    if (both[0].revents != 0)
      return ::read(steps, &byte, 1) == 1;
  }
}

/// Passes `text` on, and waits at the end of each line.
bool pass_on(std::string_view text) {
  while (!text.empty()) {
    auto end = text.find('\n');
    auto line = text.substr(0, end == text.npos ? end : end + 1);
    if (!write_all(line) || (line.back() == '\n' && !wait_for_step()))
      return false;
    text.remove_prefix(line.size());
  }
  return true;
}

int follow() {
  std::vector<char> packet(1 << 16);
  for (;;) {
    auto n = ::read(STDIN_FILENO, packet.data(), packet.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return fail("standard input");
    if (n == 0)
      return 0;
    if (!pass_on({packet.data(), static_cast<std::size_t>(n)}))
      return 0;
  }
}

} // namespace

int main(int argc, char** argv) {
  std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "write" && argc > 2)
    return run(argv + 2);
  if (mode == "read" && argc == 2)
    return follow();
  std::fputs("usage: stepwise write COMMAND... | stepwise read\n", stderr);
  return 125;
}
