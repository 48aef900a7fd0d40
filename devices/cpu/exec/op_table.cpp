#include "devices/cpu/lower/op_table.hpp"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <unordered_map>

namespace vgpu::device::cpu {

// The parts of the executor (exec/) that are compiled for every level.
#define VGPU_PARTS(PART)                                                       \
  PART(integer_ops)                                                            \
  PART(float_ops)                                                              \
  PART(convert_ops)                                                            \
  PART(load_ops)                                                               \
  PART(store_ops)                                                              \
  PART(memory_ops)                                                             \
  PART(atomic_ops)                                                             \
  PART(exchange_ops)                                                           \
  PART(control_ops)
// The parts whose instructions are too rare for that.
#define VGPU_PLAIN_PARTS(PART)                                                 \
  PART(async_ops)                                                              \
  PART(matrix_ops)                                                             \
  PART(rare_ops)                                                               \
  PART(texture_ops)                                                            \
  PART(video_ops)

#define VGPU_DECLARE(name) std::span<const op_entry> name();
namespace x86_64_v2 {
VGPU_PARTS(VGPU_DECLARE)
}
namespace x86_64_v3 {
VGPU_PARTS(VGPU_DECLARE)
}
namespace plain {
VGPU_PLAIN_PARTS(VGPU_DECLARE)
}
#undef VGPU_DECLARE

namespace {

struct variant {
  std::string_view name;
  std::vector<std::span<const op_entry>> tables;
};

#define VGPU_V2(name) x86_64_v2::name(),
#define VGPU_V3(name) x86_64_v3::name(),
#define VGPU_PLAIN(name) plain::name(),

variant choose() {
  auto has_v3 = __builtin_cpu_supports("avx2") != 0 &&
                __builtin_cpu_supports("fma") != 0 &&
                __builtin_cpu_supports("bmi2") != 0;
  // VGPU_CPU_LEVEL chooses a level, so that the variants can be compared on one
  // machine.
  if (auto wanted = std::getenv("VGPU_CPU_LEVEL"))
    has_v3 = has_v3 && wanted[0] >= '3';
  if (has_v3)
    return {"x86-64-v3", {VGPU_PARTS(VGPU_V3) VGPU_PLAIN_PARTS(VGPU_PLAIN)}};
  return {"x86-64-v2", {VGPU_PARTS(VGPU_V2) VGPU_PLAIN_PARTS(VGPU_PLAIN)}};
}

const variant& chosen() {
  static const auto out = choose();
  return out;
}

const std::unordered_map<std::string_view, const op_entry*>& op_index() {
  static const auto index = [] {
    auto out = std::unordered_map<std::string_view, const op_entry*>{};
    for (auto& table : chosen().tables)
      for (auto& x : table)
        out.emplace(x.key, &x);
    return out;
  }();
  return index;
}

} // namespace

const op_entry* find_op(std::string_view key) {
  auto& index = op_index();
  auto found = index.find(key);
  return found == index.end() ? nullptr : found->second;
}

std::vector<std::string_view> op_keys() {
  auto out = std::vector<std::string_view>{};
  for (auto& x : op_index())
    out.push_back(x.first);
  std::sort(out.begin(), out.end());
  return out;
}

std::string_view op_variant() {
  return chosen().name;
}

} // namespace vgpu::device::cpu
