// The program vgpu_bench, which README.md describes.
#include "first_call.hpp"
#include "ping_pong.hpp"
#include "steady.hpp"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string_view>

int main(int argc, char** argv) {
  using namespace vgpu::bench;
  if (argc == 3 && std::string_view{argv[1]} == "--echo")
    echo(argv[2]);
  if (argc == 2 && std::string_view{argv[1]} == "--first-call")
    return print_first_call();
  if (argc == 5 && std::string_view{argv[1]} == "--steady")
    return run_steadily(argv[2], std::atoi(argv[3]),
                        static_cast<unsigned>(std::atoi(argv[4])));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
