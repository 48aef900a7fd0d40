#include "nodes/support/overcommit_option.hpp"

namespace vgpu {

namespace {

constexpr double least_memory = 1, most_memory = 16;
constexpr double least_part = 0.01, most_part = 0.5;

} // namespace

void describe_overcommit(CLI::App& app, overcommit& to) {
  app.add_option("--overcommit", to.memory,
                 "how much GPU memory may be promised, as a multiple of what "
                 "exists; above 1, vGPUs swap: a vGPU that is swapped out has "
                 "its memory on its program's host")
      ->check(CLI::Range(least_memory, most_memory))
      ->capture_default_str();
  app.add_option(
         "--swap-part", to.swap_part,
         "largest fraction of its time that a vGPU may then spend on swapping "
         "out and in; the time between two swaps is as long as that requires")
      ->check(CLI::Range(least_part, most_part))
      ->capture_default_str();
}

policy::swapping_options swapping_of(const overcommit& x) {
  policy::swapping_options out;
  out.promised = x.memory;
  out.swapped_part = x.swap_part;
  return out;
}

std::vector<std::string> arguments_of(const overcommit& x) {
  std::vector<std::string> out;
  const overcommit usual;
  if (x.memory != usual.memory)
    out.insert(out.end(), {"--overcommit", std::to_string(x.memory)});
  if (x.swap_part != usual.swap_part)
    out.insert(out.end(), {"--swap-part", std::to_string(x.swap_part)});
  return out;
}

} // namespace vgpu
