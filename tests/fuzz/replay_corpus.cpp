// Runs a fuzz target over its corpus, and over inputs made from it: the
// regression test of what a fuzzer once found, and a fuzzer where there is no
// libFuzzer.
#include "fuzz_target.hpp"
#include "mutator.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

using namespace vgpu::test;

namespace {

fuzz_input current; // for the report of a crash

std::vector<std::filesystem::path> files_of(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> files;
  for (auto& entry : std::filesystem::directory_iterator{dir})
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

fuzz_input read(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// In a block of its own size, so that a read past its end is found.
void run(const fuzz_input& input, std::size_t size) {
  fuzz_input exact(input.begin(), input.begin() + static_cast<long>(size));
  current.swap(exact);
  LLVMFuzzerTestOneInput(current.data(), current.size());
}

/// Leaves the input at which the target failed in a file.
void keep_input(int signal) {
  std::signal(signal, SIG_DFL);
  char path[] = "fuzz-found-XXXXXX";
  auto fd = ::mkstemp(path);
  if (fd >= 0 && ::write(fd, current.data(), current.size()) >= 0)
    std::fprintf(stderr, "the input is left in %s\n", path);
  std::raise(signal);
}

void report_crashes() {
  // A stack of its own, because the target may have used up the other.
  static std::vector<char> stack(1 << 16);
  stack_t other{};
  other.ss_sp = stack.data();
  other.ss_size = stack.size();
  ::sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_handler = keep_input;
  action.sa_flags = SA_ONSTACK;
  for (auto signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM})
    ::sigaction(signal, &action, nullptr);
}

/// Runs each file whole, and cut at some sixty places.
void replay(const std::vector<fuzz_input>& inputs) {
  for (auto& input : inputs) {
    auto step = std::max<std::size_t>(1, input.size() / 61);
    for (std::size_t size = 0; size < input.size(); size += step)
      run(input, size);
    run(input, input.size());
  }
}

/// Runs so many damaged inputs, and fewer where the time is over before.
std::uint64_t search(const std::vector<fuzz_input>& inputs, std::uint64_t count,
                     std::uint64_t first, std::chrono::seconds within) {
  mutator damaged{inputs};
  auto until = std::chrono::steady_clock::now() + within;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 64 == 0 && std::chrono::steady_clock::now() >= until)
      return i;
    auto input = damaged.make(first + i);
    run(input, input.size());
  }
  return count;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 5) {
    std::cerr << "usage: " << argv[0]
              << " CORPUS [DAMAGED_INPUTS [FIRST_SEED [SECONDS]]]\n";
    return 2;
  }
  auto number = [&](int i, std::uint64_t otherwise) {
    return i < argc ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  std::vector<fuzz_input> inputs;
  for (auto& file : files_of(argv[1]))
    inputs.push_back(read(file));
  if (inputs.empty()) {
    std::cerr << argv[0] << ": no file in " << argv[1] << '\n';
    return 1;
  }
  report_crashes();
  replay(inputs);
  auto done = search(inputs, number(2, 0), number(3, 1),
                     std::chrono::seconds{number(4, 86'400)});
  std::cout << inputs.size() << " files, " << done << " damaged inputs\n";
}
