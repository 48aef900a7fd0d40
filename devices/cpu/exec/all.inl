namespace vgpu::device::cpu::VGPU_LEVEL {

// Internal to each level: the same names mean differently compiled code.
namespace {

#include "devices/cpu/exec/core.inl"

#include "devices/cpu/exec/integer.inl"

#include "devices/cpu/exec/float.inl"

#include "devices/cpu/exec/convert.inl"

#include "devices/cpu/exec/memory.inl"

#include "devices/cpu/exec/atomic.inl"

#include "devices/cpu/exec/exchange.inl"

#include "devices/cpu/exec/control.inl"

} // namespace

std::span<const op_entry> table() {
  static const auto all = [] {
    auto out = std::vector<op_entry>{};
    auto add = [&](std::span<const op_entry> x) {
      out.insert(out.end(), x.begin(), x.end());
    };
    add(integer_ops);
    add(float_ops);
    add(convert_ops);
    add(memory_ops);
    add(atomic_ops);
    add(exchange_ops);
    add(control_ops);
    return out;
  }();
  return all;
}

} // namespace vgpu::device::cpu::VGPU_LEVEL
