#include "interposer/nvml_bridge.hpp"

#include "interposer/peers.hpp"
#include "interposer/process.hpp"
#include "interposer/session.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::interposer {

namespace {

/// As guarded(), before cuInit too.
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
  return guarded_early([&] {
    auto code = process::open_session();
    if (code == CUDA_SUCCESS)
      *count =
          static_cast<unsigned>(process::the_session().leased_devices().size());
    return code;
  });
}

CUresult device_for_nvml(unsigned index, nvml_device_facts* out) noexcept {
  return guarded_early([&] {
    // In a child of a fork, what was opened before is not there any more.
    if (auto code = process::open_session(); code != CUDA_SUCCESS)
      return code;
    auto& session = process::the_session();
    const auto& all = session.leased_devices();
    if (index >= all.size())
      return CUDA_ERROR_INVALID_DEVICE;
    const auto& from = all[index];
    *out = {};
    std::memcpy(out->name, from.name.data(),
                std::min(from.name.size(), sizeof(out->name) - 1));
    std::copy(from.uuid.begin(), from.uuid.end(), out->uuid);
    out->total = std::min(session.quota(), from.total_memory);
    // Before cuInit nothing can have been allocated.
    if (process::now() == phase::running)
      out->used = session.used_of_leased(index);
    out->pci_domain = from.value_of(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
    out->pci_bus = from.value_of(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    out->pci_device = from.value_of(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
    out->major = from.value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    out->minor = from.value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    out->multiprocessors =
        from.value_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    out->core_khz = from.value_of(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    out->memory_khz = from.value_of(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    out->bus_bits = from.value_of(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    for (std::size_t i = 0; i < all.size() && i < 64; ++i)
      out->reaches |= std::uint64_t{can_reach(from, all[i])} << i;
    return CUDA_SUCCESS;
  });
}

} // namespace

const nvml_bridge& nvml_bridge_table() noexcept {
  static const nvml_bridge table{sizeof(nvml_bridge), &open_for_nvml,
                                 &device_for_nvml};
  return table;
}

} // namespace vgpu::interposer
