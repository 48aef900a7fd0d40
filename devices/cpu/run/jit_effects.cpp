#include "devices/cpu/run/jit_effects.hpp"

#include "schema/base/cuda_fault.hpp"

#include <algorithm>

namespace vgpu::device::cpu {

namespace {

constexpr unsigned most_threads = 1024;
constexpr unsigned all_registers = 65536; // of a multiprocessor
constexpr unsigned most_registers = 255;
constexpr unsigned fewest_registers = 16;
constexpr unsigned most_level = 0x7fffffff; // a negative one is larger

/// Returns the registers that each of so many threads can have at one time.
unsigned registers_for(std::uint64_t threads) {
  auto warps = std::max<std::uint64_t>((threads + 31) / 32, 1);
  auto each = all_registers / (warps * 32) / 8 * 8;
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>(each, fewest_registers, most_registers));
}

bool overrides(const jit_settings& how) {
  return how.option(CU_JIT_OVERRIDE_DIRECTIVE_VALUES).value_or(0) != 0;
}

/// Returns the option, or 0 where a directive of the text comes first.
unsigned unless_said(unsigned directive, CUjit_option key,
                     const jit_settings& how) {
  return directive != 0 && !overrides(how) ? 0 : how.option(key).value_or(0);
}

std::string name_of(unsigned target) {
  return "sm_" + std::to_string(target);
}

} // namespace

result<unsigned> target_of(const jit_settings& how, unsigned capability) {
  auto asked = how.option(CU_JIT_TARGET);
  if (!asked)
    return capability;
  // The upper bits ask for features of a single architecture.
  auto target = *asked & 0xffff;
  if (target / 10 != capability / 10 || target > capability)
    return cuda_fault(CUDA_ERROR_INVALID_SOURCE,
                      "error   : code for " + name_of(target) +
                          " does not run on this device, which is " +
                          name_of(capability));
  return target;
}

status check_options(const jit_settings& how) {
  auto level = how.option(CU_JIT_OPTIMIZATION_LEVEL).value_or(0);
  if (level > most_level)
    return cuda_fault(CUDA_ERROR_INVALID_PTX,
                      "error   : no such level of optimisation");
  if (how.option(CU_JIT_NEW_SM3X_OPT))
    return cuda_fault(CUDA_ERROR_INVALID_PTX,
                      "error   : CU_JIT_NEW_SM3X_OPT is for other devices");
  return {};
}

unsigned block_threads(const ptx::function& kernel, const jit_settings& how) {
  auto product = [](const std::uint32_t(&x)[3]) {
    return static_cast<unsigned>(std::min<std::uint64_t>(
        most_threads, std::uint64_t{x[0]} * x[1] * x[2]));
  };
  auto limit = product(kernel.required_threads);
  if (limit == 0)
    limit =
        unless_said(kernel.max_threads[0], CU_JIT_MAX_THREADS_PER_BLOCK, how);
  if (limit == 0)
    limit = product(kernel.max_threads);
  return limit == 0 ? most_threads : std::min(most_threads, limit);
}

unsigned registers_of(const ptx::function& kernel, unsigned most_live,
                      const jit_settings& how) {
  // A kernel reports as many registers as a compiler would need at least, but
  // never more than let the largest allowed block run.
  auto cap = registers_for(block_threads(kernel, how));
  auto lower = [&](unsigned registers) {
    cap = std::min(cap, std::max(registers, fewest_registers));
  };
  auto most = unless_said(kernel.max_registers, CU_JIT_MAX_REGISTERS, how);
  auto threads =
      unless_said(kernel.max_registers, CU_JIT_THREADS_PER_BLOCK, how);
  auto blocks = unless_said(kernel.min_blocks, CU_JIT_MIN_CTA_PER_SM, how);
  auto block = how.option(CU_JIT_MAX_THREADS_PER_BLOCK).value_or(0);
  if (most != 0)
    lower(most);
  else if (kernel.max_registers != 0)
    lower(kernel.max_registers);
  if (threads != 0)
    lower(registers_for(threads));
  // The driver ignores it beside the two options above.
  if (blocks != 0 && block != 0 && most == 0 && threads == 0)
    lower(registers_for(std::uint64_t{blocks} * block));
  return std::clamp((most_live + 7) / 8 * 8, fewest_registers, cap);
}

std::string info_log(std::span<const kernel_info> kernels,
                     std::uint64_t global_bytes, unsigned target,
                     const jit_settings& how) {
  if (how.option(CU_JIT_LOG_VERBOSE).value_or(0) == 0)
    return {};
  const std::string info = "ptxas info    : ";
  auto out = info + std::to_string(global_bytes) + " bytes gmem\n";
  for (const auto& k : kernels) {
    auto value = [&](int key) { return std::to_string(k.attributes.at(key)); };
    out += info + "Compiling entry function '" + k.name + "' for '" +
           name_of(target) + "'\n";
    out += info + "Function properties for " + k.name + "\n    " +
           value(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) +
           " bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
    out += info + "Used " + value(CU_FUNC_ATTRIBUTE_NUM_REGS) + " registers, " +
           value(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) + " bytes smem\n";
  }
  return out;
}

std::string error_log(const std::string& errors) {
  return errors + "\nptxas fatal   : Ptx assembly aborted due to errors\n";
}

} // namespace vgpu::device::cpu
