// Runs each case in a process of its own and compares what it answers with
// what the real driver answered.
#include "truth_case.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace vgpu::test {

namespace {

constexpr auto usage =
    "usage: truth [--all] [--verbose] [CASE...]\n"
    "       truth --list\n"
    "\n"
    "Compares the driver that the dynamic linker finds as libcuda.so.1 with\n"
    "what the real one answers, case by case. Without CASE, all of them.\n"
    "\n"
    "  --all      cases that a replacement may answer later count as well:\n"
    "             for a run on the real driver\n"
    "  --verbose  prints the answers of cases that agree, too\n"
    "  --list     prints the names of the cases\n";

constexpr int time_limit_ms = 60'000;

std::vector<truth_case> all_cases() {
  std::vector<truth_case> result;
  for (auto part :
       {start_cases(), context_cases(), memory_cases(), module_cases(),
        launch_cases(), stream_cases(), texture_cases()})
    result.insert(result.end(), part.begin(), part.end());
  return result;
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(2);
}

std::string contents(int fd) {
  std::string result;
  char buffer[4096];
  ssize_t n = 0;
  ::lseek(fd, 0, SEEK_SET);
  while ((n = ::read(fd, buffer, sizeof buffer)) > 0)
    result.append(buffer, static_cast<size_t>(n));
  return result;
}

/// Waits for the child; false when it was killed for taking too long.
bool wait_for(pid_t child, int& status) {
  auto fd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  if (fd >= 0) {
    pollfd event{fd, POLLIN, 0};
    int ready = 0;
    while ((ready = ::poll(&event, 1, time_limit_ms)) < 0 && errno == EINTR) {
      // once more
    }
    ::close(fd);
    if (ready == 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return false;
    }
  }
  return ::waitpid(child, &status, 0) == child;
}

/// What the case answers in a fresh process. The answers travel in a file in
/// memory: a pipe would stay open in whatever a driver starts and leaves
/// behind.
std::string answer_of(const truth_case& c) {
  int out = ::memfd_create("truth", 0);
  if (out < 0)
    fail("memfd_create");
  std::fflush(nullptr);
  pid_t child = ::fork();
  if (child < 0)
    fail("fork");
  if (child == 0) {
    rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(out, STDOUT_FILENO);
    ::close(out);
    ::execl("/proc/self/exe", "truth", "--case", c.name, nullptr);
    ::_exit(127);
  }
  int status = 0;
  bool in_time = wait_for(child, status);
  auto result = contents(out);
  ::close(out);
  if (!in_time)
    result += " (did not end)";
  else if (WIFSIGNALED(status))
    result += " (signal " + std::to_string(WTERMSIG(status)) + ")";
  else if (WEXITSTATUS(status) != 0)
    result += " (exit code " + std::to_string(WEXITSTATUS(status)) + ")";
  return result;
}

bool is_number(const std::string& word) {
  return !word.empty() &&
         word.find_first_not_of("0123456789") == std::string::npos;
}

bool agrees(const std::string& expected, const std::string& answer) {
  std::istringstream left(expected), right(answer);
  std::string want, got;
  while (left >> want) {
    if (want == "(signal")
      return true; // where the real driver crashes, anything goes
    if (!(right >> got) || (want == "#" ? !is_number(got) : want != got))
      return false;
  }
  return !(right >> got);
}

int run_here(const std::string& name) {
  for (const auto& c : all_cases()) {
    if (name == c.name) {
      report answers;
      c.run(answers);
      return 0;
    }
  }
  std::fprintf(stderr, "truth: there is no case '%s'; see --list\n",
               name.c_str());
  return 2;
}

struct options {
  bool all = false;
  bool verbose = false;
  std::vector<std::string> names;
};

struct tally {
  int agreed = 0;
  int differed = 0;
  int later = 0;
};

void judge(const truth_case& c, const options& opts, tally& sum) {
  auto answer = answer_of(c);
  bool right = agrees(c.expected, answer);
  bool excused = !right && c.later && !opts.all;
  sum.agreed += right;
  sum.later += excused;
  sum.differed += !right && !excused;
  std::printf("%-6s %s",
              right     ? "agrees"
              : excused ? "later"
                        : "DIFFERS",
              c.name);
  if (c.later && !opts.all)
    std::printf(right ? " (no longer `later`)" : " (%s)", c.later);
  std::printf("\n");
  if (!right || opts.verbose)
    std::printf("    calls     %s\n    expected  %s\n    answered  %s\n",
                c.calls, c.expected, answer.c_str());
  std::fflush(stdout);
}

int compare(const options& opts) {
  tally sum;
  auto cases = all_cases();
  for (const auto& name : opts.names) {
    auto known = [&](const truth_case& c) { return name == c.name; };
    if (std::find_if(cases.begin(), cases.end(), known) == cases.end()) {
      std::fprintf(stderr, "truth: there is no case '%s'; see --list\n",
                   name.c_str());
      return 2;
    }
  }
  for (const auto& c : cases)
    if (opts.names.empty() || std::find(opts.names.begin(), opts.names.end(),
                                        c.name) != opts.names.end())
      judge(c, opts, sum);
  std::printf("%d agree, %d differ, %d later\n", sum.agreed, sum.differed,
              sum.later);
  return sum.differed == 0 ? 0 : 1;
}

} // namespace

} // namespace vgpu::test

int main(int argc, char** argv) {
  using namespace vgpu::test;
  options opts;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--case" && i + 1 < argc)
      return run_here(argv[i + 1]);
    if (word == "--help" || word == "-h") {
      std::fputs(usage, stdout);
      return 0;
    }
    if (word == "--list") {
      for (const auto& c : all_cases())
        std::puts(c.name);
      return 0;
    }
    if (word == "--all")
      opts.all = true;
    else if (word == "--verbose")
      opts.verbose = true;
    else if (word.starts_with("-")) {
      std::fprintf(stderr, "truth: there is no option '%s'\n%s", argv[i],
                   usage);
      return 2;
    } else
      opts.names.push_back(word);
  }
  return compare(opts);
}
