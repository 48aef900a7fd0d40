// Runs a fuzz target over its corpus: the regression test of what the fuzzer
// once found.
#include "fuzz_target.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> files;
  for (auto& entry : std::filesystem::directory_iterator{dir})
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<char> read(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// In a block of its own size, so that a read past its end is found.
void run(const std::vector<char>& input, std::size_t size) {
  std::vector<std::uint8_t> exact(input.begin(),
                                  input.begin() + static_cast<long>(size));
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " CORPUS\n";
    return 2;
  }
  auto files = files_of(argv[1]);
  if (files.empty()) {
    std::cerr << argv[0] << ": no file in " << argv[1] << '\n';
    return 1;
  }
  // Each file whole, and cut at some sixty places.
  for (auto& file : files) {
    auto input = read(file);
    auto step = std::max<std::size_t>(1, input.size() / 61);
    for (std::size_t size = 0; size < input.size(); size += step)
      run(input, size);
    run(input, input.size());
  }
  std::cout << files.size() << " files\n";
}
