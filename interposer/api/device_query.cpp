// Entry points by which the program queries its devices. The lease holds the
// answers.
#include "interposer/api/entry.hpp"

#include "interposer/context/device_resource.hpp"
#include "interposer/context/peers.hpp"
#include "interposer/session/session.hpp"
#include "schema/base/texture_description.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string>

using namespace vgpu::interposer;

namespace {

/// Runs `body` with the device's properties. Returns CUDA_ERROR_INVALID_DEVICE
/// where there is no such device.
template <class Body>
CUresult with_device(CUdevice dev, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    const auto& all = process::the_session().devices();
    if (dev < 0 || static_cast<std::size_t>(dev) >= all.size())
      return CUDA_ERROR_INVALID_DEVICE;
    return body(all[static_cast<std::size_t>(dev)]);
  });
}

std::string bus_id(const device_facts& d) {
  std::array<char, 16> text{};
  std::snprintf(
      text.data(), text.size(), "%04x:%02x:%02x.0",
      static_cast<unsigned>(d.value_of(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)) &
          0xffffU,
      static_cast<unsigned>(d.value_of(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)) & 0xffU,
      static_cast<unsigned>(d.value_of(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)) &
          0xffU);
  return text.data();
}

CUresult copy_text(const std::string& text, char* into, int size) {
  if (into == nullptr || size <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto n = std::min(text.size(), static_cast<std::size_t>(size) - 1);
  std::memcpy(into, text.data(), n);
  into[n] = '\0';
  return CUDA_SUCCESS;
}

struct bus_address {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
};

/// Reads domain:bus:device, domain:bus:device.function or bus:device.function,
/// in hexadecimal. Like the driver, it takes blanks before the text and none
/// after it, and no bus:device alone.
std::optional<bus_address> parse_bus_id(const char* text) {
  auto is_all = [&](int end) { return end > 0 && text[end] == '\0'; };
  bus_address x;
  unsigned function = 0;
  int end = 0;
  (void)std::sscanf(text, "%x:%x:%x%n", &x.domain, &x.bus, &x.device, &end);
  if (is_all(end))
    return x;
  end = 0;
  (void)std::sscanf(text, "%x:%x:%x.%x%n", &x.domain, &x.bus, &x.device,
                    &function, &end);
  if (is_all(end))
    return x;
  x.domain = 0;
  end = 0;
  (void)std::sscanf(text, "%x:%x.%x%n", &x.bus, &x.device, &function, &end);
  return is_all(end) ? std::optional{x} : std::nullopt;
}

CUresult get_uuid(CUuuid* uuid, CUdevice dev) noexcept {
  return with_device(dev, [&](const device_facts& d) {
    if (uuid == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(uuid->bytes, d.uuid.data(), d.uuid.size());
    return CUDA_SUCCESS;
  });
}

/// Reports that no atomic operation works beyond the device.
CUresult no_atomics(unsigned int* capabilities, unsigned int count) {
  if (capabilities == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  std::fill_n(capabilities, count, 0U);
  return CUDA_SUCCESS;
}

} // namespace

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  return guarded([&] {
    if (count == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(process::the_session().devices().size());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  return with_device(ordinal, [&](const device_facts&) {
    if (device == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetName(char* name, int len, CUdevice dev) {
  return with_device(
      dev, [&](const device_facts& d) { return copy_text(d.name, name, len); });
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  return get_uuid(uuid, dev);
}

extern "C" CUresult device_get_uuid_v1(CUuuid* uuid, CUdevice dev)
    VGPU_EXPORT_AS("cuDeviceGetUuid");
CUresult device_get_uuid_v1(CUuuid* uuid, CUdevice dev) {
  return get_uuid(uuid, dev);
}

CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice dev) {
  return with_device(dev, [&](const device_facts& d) {
    if (bytes == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    // A vGPU is as large as its quota.
    auto quota = process::the_session().quota();
    *bytes = quota != 0 ? std::min(quota, d.total_memory) : d.total_memory;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib,
                                      CUdevice dev) {
  return with_device(dev, [&](const device_facts& d) {
    auto value = d.attribute(attrib);
    if (pi == nullptr || !value)
      return CUDA_ERROR_INVALID_VALUE;
    *pi = *value;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  return with_device(dev, [&](const device_facts& d) {
    if (prop == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    prop->maxThreadsPerBlock =
        d.value_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    for (int i = 0; i < 3; ++i) {
      prop->maxThreadsDim[i] =
          d.value_of(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
      prop->maxGridSize[i] = d.value_of(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
    }
    prop->sharedMemPerBlock =
        d.value_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    prop->totalConstantMemory =
        d.value_of(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    prop->SIMDWidth = d.value_of(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    prop->memPitch = d.value_of(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    prop->regsPerBlock =
        d.value_of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    prop->clockRate = d.value_of(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    prop->textureAlign = d.value_of(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceComputeCapability(int* major, int* minor,
                                           CUdevice dev) {
  return with_device(dev, [&](const device_facts& d) {
    if (major == nullptr || minor == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *major = d.value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = d.value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  return with_device(dev, [&](const device_facts& d) {
    auto text = bus_id(d);
    auto code = copy_text(text, pciBusId, len);
    // Unlike a name that is cut, an id that is cut is an error.
    auto fits = len > static_cast<int>(text.size());
    return fits ? code : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  return guarded([&] {
    if (dev == nullptr || pciBusId == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto wanted = parse_bus_id(pciBusId);
    if (!wanted)
      return CUDA_ERROR_INVALID_VALUE;
    const auto& all = process::the_session().devices();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].value_of(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) ==
              static_cast<int>(wanted->domain) &&
          all[i].value_of(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) ==
              static_cast<int>(wanted->bus) &&
          all[i].value_of(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) ==
              static_cast<int>(wanted->device)) {
        *dev = static_cast<CUdevice>(i);
        return CUDA_SUCCESS;
      }
    return CUDA_ERROR_INVALID_DEVICE;
  });
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev,
                                       CUdevice peerDev) {
  return with_device(dev, [&](const device_facts& a) {
    return with_device(peerDev, [&](const device_facts& b) {
      if (canAccessPeer == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
      *canAccessPeer = can_reach(a, b) ? 1 : 0;
      return CUDA_SUCCESS;
    });
  });
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int* value,
                                         CUdevice_P2PAttribute attrib,
                                         CUdevice srcDevice,
                                         CUdevice dstDevice) {
  // A driver looks at the place first, then at the devices.
  if (value == nullptr)
    return guarded([] { return CUDA_ERROR_INVALID_VALUE; });
  return with_device(srcDevice, [&](const device_facts& a) {
    return with_device(dstDevice, [&](const device_facts& b) {
      if (srcDevice == dstDevice)
        return CUDA_ERROR_INVALID_DEVICE;
      if (attrib < 1 ||
          attrib > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
        return CUDA_ERROR_INVALID_VALUE;
      auto of_peers = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                      attrib == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
      *value = of_peers && can_reach(a, b) ? 1 : 0;
      return CUDA_SUCCESS;
    });
  });
}

CUresult CUDAAPI cuDeviceGetHostAtomicCapabilities(
    unsigned int* capabilities, const CUatomicOperation* operations,
    unsigned int count, CUdevice dev) {
  return with_device(dev, [&](const device_facts&) {
    return operations == nullptr ? CUDA_ERROR_INVALID_VALUE
                                 : no_atomics(capabilities, count);
  });
}

CUresult CUDAAPI cuDeviceGetP2PAtomicCapabilities(
    unsigned int* capabilities, const CUatomicOperation* operations,
    unsigned int count, CUdevice srcDevice, CUdevice dstDevice) {
  return with_device(srcDevice, [&](const device_facts&) {
    return with_device(dstDevice, [&](const device_facts&) {
      if (srcDevice == dstDevice)
        return CUDA_ERROR_INVALID_DEVICE;
      return operations == nullptr ? CUDA_ERROR_INVALID_VALUE
                                   : no_atomics(capabilities, count);
    });
  });
}

CUresult CUDAAPI cuDeviceGetTexture1DLinearMaxWidth(size_t* maxWidthInElements,
                                                    CUarray_format format,
                                                    unsigned numChannels,
                                                    CUdevice dev) {
  return with_device(dev, [&](const device_facts& d) {
    int number = 0;
    std::memcpy(&number, &format, sizeof(number)); // the program's own
    auto element =
        element_bytes(static_cast<std::uint32_t>(number), numChannels);
    if (maxWidthInElements == nullptr || element == 0)
      return CUDA_ERROR_INVALID_VALUE;
    // The attribute is that of the largest elements. Of smaller ones more fit
    // in as many bytes, up to four times the number.
    constexpr std::size_t largest = 16, most_times = 4;
    auto width = static_cast<std::size_t>(
        d.value_of(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH));
    *maxWidthInElements = width * std::min(largest / element, most_times);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType,
                                                CUdevice dev) {
  return with_device(dev, [&](const device_facts&) {
    if (pi == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pi = 0;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device,
                                        CUdevResource* resource,
                                        CUdevResourceType type) {
  return with_device(device, [&](const device_facts& d) {
    return tell(whole_device(device, d), type, resource);
  });
}

CUresult CUDAAPI cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget,
                                            CUflushGPUDirectRDMAWritesScope) {
  return in_context([](context&) { return CUDA_ERROR_NOT_SUPPORTED; });
}
