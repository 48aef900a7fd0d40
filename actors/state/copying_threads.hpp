// The threads with which a worker copies contents of a state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace vgpu {

/// Runs a function on a few threads, and waits at its end until it has returned
/// on all of them. The program has most of the processors.
class copying_threads {
public:
  /// Runs it on at most `most` threads, and on one at least if `most` is not 0.
  copying_threads(std::size_t most, const std::function<void()>& run) {
    constexpr std::size_t at_most = 6;
    std::size_t usual = std::thread::hardware_concurrency() / 4;
    for (auto i = std::min(std::clamp<std::size_t>(usual, 1, at_most), most);
         i != 0; --i)
      threads_.emplace_back(run);
  }

private:
  std::vector<std::jthread> threads_;
};

} // namespace vgpu
