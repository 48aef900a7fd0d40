// Calls of functions by name or address, and calls of the system's functions.
#include "devices/cpu/lower/function_lowering.hpp"
#include "devices/cpu/lower/system_calls.hpp"

#include <algorithm>
#include <string_view>

namespace vgpu::device::cpu {

namespace {

/// Tells whether the function belongs to the device's own runtime
/// (libcudadevrt), with which kernels launch kernels, or to the driver's part
/// of it (CUDA 11: cnp...).
bool of_device_runtime(std::string_view name) {
  constexpr std::string_view beginnings[] = {"__cudaCDP", "__cuda_syscall_",
                                             "cuda", "cnp"};
  return std::ranges::any_of(beginnings,
                             [&](auto x) { return name.starts_with(x); });
}

std::size_t parameters_of(system_call x) {
  switch (x) {
  case system_call::assert_fail:
    return 5;
  case system_call::vprintf:
  case system_call::set_condition:
    return 2;
  default:
    return 1;
  }
}

} // namespace

param_slot function_lowering::call_param(const op& x) {
  if (x.is != kind::local ||
      fn_.variables[std::size_t(x.number)].where != ptx::space::param)
    fail("calls pass .param variables only");
  auto slot = param_slots_[std::size_t(x.number)];
  if (slot.bytes == 0)
    fail("a kernel's own parameters cannot be passed on");
  return slot;
}

void function_lowering::call() {
  auto& ops = now_->operands;
  auto site = call_site{};
  auto at = std::size_t{0};
  if (at < ops.size() && ops[at].is == kind::list) {
    for (auto& x : ops[at].elements)
      site.results.push_back(call_param(x));
    ++at;
  }
  if (at >= ops.size())
    fail("call lacks a function");
  auto& callee = ops[at++];
  if (at < ops.size() && ops[at].is == kind::list) {
    for (auto& x : ops[at].elements)
      site.arguments.push_back(call_param(x));
    ++at;
  }
  auto index = std::uint32_t(module_.out.calls.size());
  if (callee.is == kind::reg) {
    emit("call.indirect", {-1, source(callee, '8')}).what.extra = index;
    module_.out.calls.push_back(std::move(site));
    return;
  }
  if (callee.is != kind::symbol)
    fail("call lacks a function");
  auto found = module_.functions.find(callee.name);
  auto& from = module_.from;
  if (found != module_.functions.end() &&
      from.functions[std::size_t(found->second)].defined) {
    auto& f = from.functions[std::size_t(found->second)];
    if (f.entry)
      fail("kernel '" + f.name + "' cannot be called");
    if (f.parameters.size() != site.arguments.size() ||
        f.results.size() != site.results.size())
      fail("the call of '" + f.name + "' has the wrong parameters");
    site.callee = found->second;
    emit("call", {}).what.extra = index;
    module_.out.calls.push_back(std::move(site));
    return;
  }
  site.system = find_system_call(callee.name);
  auto wanted = parameters_of(site.system);
  if (site.system == system_call::none && of_device_runtime(callee.name))
    throw ptx::not_supported{now_->line,
                             fn_.name + ": it calls '" + callee.name +
                                 "', but the cpu device has no dynamic "
                                 "parallelism; launch from the host instead"};
  if (site.system == system_call::none && module_.is_part &&
      found != module_.functions.end())
    return; // another part has it
  if (site.system == system_call::none)
    fail("function '" + callee.name +
         "' is not defined in this module, and the cpu device provides none "
         "of that name");
  if (site.arguments.size() != wanted)
    fail("the call of '" + callee.name + "' has the wrong parameters");
  module_.out.uses_heap |=
      site.system == system_call::malloc || site.system == system_call::free;
  emit("call.system", {}).what.extra = index;
  module_.out.calls.push_back(std::move(site));
}

} // namespace vgpu::device::cpu
