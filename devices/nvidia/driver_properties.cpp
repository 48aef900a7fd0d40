#include "devices/nvidia/driver_properties.hpp"

#include "devices/nvidia/nvidia_device.hpp"
#include "schema/base/cuda_fault.hpp"

#include <charconv>
#include <cstring>
#include <iomanip>
#include <mutex>
#include <span>
#include <sstream>

namespace vgpu::device {

namespace nvidia {

namespace {

/// These attributes hold only for a program on the device's own host. The
/// kernels of a program on another host cannot reach that program's memory.
constexpr CUdevice_attribute not_ours[] = {
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
};

/// These attributes announce calls that a vGPU refuses. A program that asks
/// first then takes its other way.
constexpr CUdevice_attribute not_served[] = {
    CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
};

void set_to_zero(properties& x, std::span<const CUdevice_attribute> which) {
  for (auto i : which)
    if (auto at = x.attributes.find(i); at != x.attributes.end())
      at->second = 0;
}

} // namespace

result<driver_ptr> started_driver() {
  static std::mutex mutex;
  static driver_ptr started;
  std::lock_guard guard{mutex};
  if (started)
    return started;
  auto path = find_driver();
  if (!path)
    return path.why();
  auto api = open_driver(*path);
  if (!api)
    return api;
  if (auto code = (*api)->cuInit(0); code != CUDA_SUCCESS)
    return (*api)->failed(code, "NVIDIA driver " + *path + ": cuInit");
  started = *api;
  return started;
}

result<properties> properties_of(const driver& api, CUdevice device) {
  properties out;
  char name[256] = {};
  CUuuid uuid = {};
  std::size_t memory = 0;
  auto code = api.cuDeviceGetName(name, sizeof name - 1, device);
  if (code == CUDA_SUCCESS)
    code = api.cuDeviceGetUuid(&uuid, device);
  if (code == CUDA_SUCCESS)
    code = api.cuDeviceTotalMem(&memory, device);
  if (code != CUDA_SUCCESS)
    return api.failed(code, "cannot read the properties of NVIDIA device " +
                                std::to_string(device));
  out.name = name;
  std::memcpy(out.uuid.data(), uuid.bytes, out.uuid.size());
  out.total_memory = memory;
  for (auto i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; ++i) {
    auto value = 0;
    if (api.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(i),
                                 device) == CUDA_SUCCESS)
      out.attributes[i] = value;
  }
  set_to_zero(out, not_ours);
  set_to_zero(out, not_served);
  if (auto pools = out.attributes.find(
          CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
      pools != out.attributes.end())
    pools->second &= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return out;
}

} // namespace nvidia

bool nvidia_driver_present() {
  return nvidia::find_driver().ok();
}

result<std::vector<properties>> nvidia_properties() {
  auto api = nvidia::started_driver();
  if (!api)
    return api.why();
  auto count = 0;
  if (auto code = (*api)->cuDeviceGetCount(&count); code != CUDA_SUCCESS)
    return (*api)->failed(code, "cuDeviceGetCount");
  std::vector<properties> out;
  for (auto i = 0; i < count; ++i) {
    CUdevice device = 0;
    if (auto code = (*api)->cuDeviceGet(&device, i); code != CUDA_SUCCESS)
      return (*api)->failed(code, "cuDeviceGet");
    auto one = nvidia::properties_of(**api, device);
    if (!one)
      return one.why();
    out.push_back(std::move(*one));
  }
  return out;
}

// -- as text ------------------------------------------------------------------

// The format has one line for a device, `device MEMORY UUID NAME`, followed by
// one line for each attribute, `attribute KEY VALUE`.

std::string write_properties(const std::vector<properties>& all) {
  std::ostringstream out;
  for (auto& x : all) {
    out << "device " << x.total_memory << ' ' << std::hex << std::setfill('0');
    for (auto byte : x.uuid)
      out << std::setw(2) << static_cast<unsigned>(byte);
    out << std::dec << ' ' << x.name << '\n';
    for (auto& [key, value] : x.attributes)
      out << "attribute " << key << ' ' << value << '\n';
  }
  return out.str();
}

namespace {

bool read_uuid(const std::string& text, properties& to) {
  if (text.size() != 2 * to.uuid.size())
    return false;
  for (std::size_t i = 0; i < to.uuid.size(); ++i) {
    unsigned char byte = 0;
    auto* at = text.data() + 2 * i;
    auto [end, error] = std::from_chars(at, at + 2, byte, 16);
    if (error != std::errc{} || end != at + 2)
      return false;
    to.uuid[i] = std::byte{byte};
  }
  return true;
}

} // namespace

result<std::vector<properties>> read_properties(const std::string& text) {
  std::vector<properties> out;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in{line};
    std::string word;
    std::string uuid;
    auto key = 0;
    auto value = 0;
    in >> word;
    if (word == "device") {
      auto& x = out.emplace_back();
      if (in >> x.total_memory >> uuid >> std::ws && std::getline(in, x.name) &&
          read_uuid(uuid, x))
        continue;
    } else if (word == "attribute" && !out.empty() && in >> key >> value) {
      out.back().attributes[key] = value;
      continue;
    }
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "not a description of GPUs: '" + line + "'");
  }
  return out;
}

} // namespace vgpu::device
