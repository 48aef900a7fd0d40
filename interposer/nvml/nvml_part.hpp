// The part of the driver's state that belongs to nvml/.
#pragma once

#include "interposer/nvml/nvml_view.hpp"
#include "interposer/session/state_part.hpp"

namespace vgpu::interposer {

/// Owns the view that NVML has of devices. It works before cuInit.
struct nvml_part : state_part<nvml_part> {
  nvml_view view;
};

} // namespace vgpu::interposer
