#include "interposer/nvml/nvml_bridge.hpp"

#include "interposer/context/peers.hpp"
#include "interposer/nvml/nvml_part.hpp"
#include "interposer/session/process.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::interposer {

namespace {

nvml_view& the_view() noexcept {
  return nvml_part::get().view;
}

/// Runs a body as guarded() does, but before cuInit too.
template <class Body>
CUresult guarded_early(const Body& body) noexcept {
  try {
    return body();
  } catch (const std::exception& e) {
    report_exception(e.what());
    return CUDA_ERROR_UNKNOWN;
  }
}

CUresult open_for_nvml(unsigned* count) noexcept {
  return guarded_early([&] { return the_view().count(*count); });
}

void describe(nvml_device_facts& out, const device_facts& from) {
  std::memcpy(out.name, from.name.data(),
              std::min(from.name.size(), sizeof(out.name) - 1));
  std::copy(from.uuid.begin(), from.uuid.end(), out.uuid);
  out.pci_domain = from.value_of(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  out.pci_bus = from.value_of(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  out.pci_device = from.value_of(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  out.major = from.value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  out.minor = from.value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  out.multiprocessors = from.value_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  out.core_khz = from.value_of(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  out.memory_khz = from.value_of(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  out.bus_bits = from.value_of(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
}

CUresult device_for_nvml(unsigned index, nvml_device_facts* out) noexcept {
  return guarded_early([&] {
    viewed_device it;
    if (auto code = the_view().device(index, it); code != CUDA_SUCCESS)
      return code;
    *out = {};
    describe(*out, it.facts);
    out->total = it.total;
    out->used = std::min(it.used, it.total);
    out->busy = it.busy;
    viewed_device other;
    for (unsigned i = 0; i < 64 && the_view().device(i, other) == CUDA_SUCCESS;
         ++i)
      out->reaches |= std::uint64_t{can_reach(it.facts, other.facts)} << i;
    return CUDA_SUCCESS;
  });
}

CUresult processes_for_nvml(unsigned index, nvml_process* out,
                            unsigned* count) noexcept {
  return guarded_early([&] {
    std::vector<viewed_process> all;
    if (auto code = the_view().processes(index, all); code != CUDA_SUCCESS)
      return code;
    auto room = *count;
    *count = 0;
    // A program that has allocated nothing does not count as a device's
    // process.
    for (const auto& x : all)
      if (x.used != 0 && (*count)++ < room)
        *out++ = {x.pid, x.busy, x.used};
    return CUDA_SUCCESS;
  });
}

} // namespace

const nvml_bridge& nvml_bridge_table() noexcept {
  static const nvml_bridge table{sizeof(nvml_bridge), &open_for_nvml,
                                 &device_for_nvml, &processes_for_nvml};
  return table;
}

} // namespace vgpu::interposer
