// Closes a part of the executor, whose table `ops` VGPU_PART() gives.
} // namespace

std::span<const op_entry> VGPU_PART() {
  return ops;
}

} // namespace vgpu::device::cpu::VGPU_LEVEL

#pragma GCC pop_options
