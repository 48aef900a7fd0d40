// Closes a part of the executor. VGPU_PART() returns its table `ops`.
} // namespace

std::span<const op_entry> VGPU_PART() {
  return ops;
}

} // namespace vgpu::device::cpu::VGPU_LEVEL

#pragma GCC pop_options
