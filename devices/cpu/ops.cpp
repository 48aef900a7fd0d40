#include "devices/cpu/ops.hpp"

#include <cstdlib>
#include <unordered_map>

namespace vgpu::device::cpu {

namespace {

struct variant {
  std::string_view name;
  std::span<const op_entry> table;
};

variant choose() {
  auto has_v3 = __builtin_cpu_supports("avx2") != 0 &&
                __builtin_cpu_supports("fma") != 0 &&
                __builtin_cpu_supports("bmi2") != 0;
  // For comparing the variants on one machine.
  if (auto wanted = std::getenv("VGPU_CPU_LEVEL"))
    has_v3 = has_v3 && wanted[0] >= '3';
  if (has_v3)
    return {"x86-64-v3", x86_64_v3::table()};
  return {"x86-64-v2", x86_64_v2::table()};
}

const variant& chosen() {
  static const auto out = choose();
  return out;
}

} // namespace

const op_entry* find_op(std::string_view key) {
  static const auto index = [] {
    auto out = std::unordered_map<std::string_view, const op_entry*>{};
    for (auto& x : chosen().table)
      out.emplace(x.key, &x);
    return out;
  }();
  auto found = index.find(key);
  return found == index.end() ? nullptr : found->second;
}

std::string_view op_variant() {
  return chosen().name;
}

} // namespace vgpu::device::cpu
