#include "steady.hpp"

#include "bench_program.hpp"

#include <chrono>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace vgpu::bench {

namespace {

using clock = std::chrono::steady_clock;

/// Launches some kernels, and returns their number.
std::uint64_t launch_some(const program& p) {
  constexpr int batch = 1000;
  for (int i = 0; i < batch; ++i)
    p.launch();
  p.synchronise();
  return batch;
}

std::uint64_t copy_some(const program& p) {
  static std::vector<std::byte> host(program::memory_bytes, std::byte{1});
  check(::cuMemcpyHtoD(p.memory(), host.data(), host.size()), "cuMemcpyHtoD");
  check(::cuMemcpyDtoH(host.data(), p.memory(), host.size()), "cuMemcpyDtoH");
  return 2 * host.size();
}

void write_ballast(const program& p, unsigned mebibytes) {
  if (mebibytes == 0)
    return;
  CUdeviceptr at = 0;
  auto bytes = std::size_t{mebibytes} << 20;
  check(::cuMemAlloc(&at, bytes), "cuMemAlloc");
  check(::cuMemsetD32(at, 0x5eed, bytes / 4), "cuMemsetD32");
  p.synchronise();
}

} // namespace

int run_steadily(const char* what, int slices, unsigned mebibytes) {
  try {
    auto launches = std::string_view{what} == "launch";
    if (!launches && std::string_view{what} != "copy")
      throw std::invalid_argument{"launch or copy, not " + std::string{what}};
    auto& p = program::instance();
    write_ballast(p, mebibytes);
    const auto* before = "[";
    for (int i = 0; i < slices; ++i) {
      constexpr double seconds = 2;
      std::uint64_t units = 0;
      std::chrono::duration<double> took{0};
      for (auto began = clock::now(); took.count() < seconds;
           took = clock::now() - began)
        units += launches ? launch_some(p) : copy_some(p);
      std::cout << std::exchange(before, ", ")
                << static_cast<double>(units) / took.count();
    }
    std::cout << "]\n";
    return 0;
  } catch (const std::exception& x) {
    std::cerr << "vgpu_bench: " << x.what() << '\n';
    return 1;
  }
}

} // namespace vgpu::bench
