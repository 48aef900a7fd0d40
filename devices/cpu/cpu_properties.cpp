// The properties of a cpu pGPU. They are those of an H100-class device where
// the cpu device behaves like one, and otherwise its own.
#include "devices/cpu/cpu_device.hpp"
#include "schema/base/processors.hpp"

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

namespace vgpu::device {

namespace {

std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  auto out = 0xcbf29ce484222325ull ^ (seed * 0x9e3779b97f4a7c15ull);
  for (auto c : text)
    out = (out ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return out ^ (out >> 31);
}

/// Returns a name of the host that is the same at every start.
std::string host_name() {
  auto out = std::string{};
  std::getline(std::ifstream{"/etc/machine-id"}, out);
  if (out.empty())
    std::getline(std::ifstream{"/etc/hostname"}, out);
  return out;
}

std::map<int, int> attributes_of(const cpu_options& options) {
  // These attributes have the values of compute capability 9.0. The keys are
  // numbers of CUdevice_attribute (cuda.h).
  auto out = std::map<int, int>{
      {1, 1024},        {2, 1024},    {3, 1024},  {4, 64},    {5, 2147483647},
      {6, 65535},       {7, 65535},   {8, 49152}, {9, 65536}, {10, 32},
      {11, 2147483647}, {12, 65536},  {14, 512},  {15, 1},    {18, 0},
      {20, 0},          {31, 1},      {34, 0},    {35, 0},    {39, 2048},
      {40, 3},          {41, 1},      {78, 1},    {79, 1},    {80, 1},
      {81, 233472},     {82, 65536},  {84, 0},    {86, 0},    {87, 2},
      {90, 1},          {97, 232448}, {98, 0},    {106, 32},  {111, 1024},
      {115, 1},         {122, 1},     {123, 1},   {131, -1},
  };
  // These are the largest dimensions of textures.
  for (auto [name, value] : {std::pair{21, 131072},
                             {22, 131072},
                             {23, 65536},
                             {24, 16384},
                             {25, 16384},
                             {26, 16384},
                             {27, 32768},
                             {28, 32768},
                             {29, 2048},
                             {42, 32768},
                             {43, 2048},
                             {44, 1},
                             {45, 32768},
                             {46, 32768},
                             {47, 8192},
                             {48, 8192},
                             {49, 32768},
                             {51, 32},
                             {52, 32768},
                             {53, 32768},
                             {54, 2046},
                             {55, 32768},
                             {56, 131072},
                             {57, 65536},
                             {58, 16384},
                             {59, 16384},
                             {60, 16384},
                             {61, 32768},
                             {62, 2048},
                             {63, 32768},
                             {64, 32768},
                             {65, 2048},
                             {66, 32768},
                             {67, 32768},
                             {68, 2046},
                             {69, 268435456},
                             {70, 131072},
                             {71, 65000},
                             {72, 2097120},
                             {73, 32768},
                             {74, 32768},
                             {77, 32768}})
    out[name] = value;
  // Whatever the device does not have, such as tensor maps and multicast, is 0.
  for (auto i = 1; i <= 147; ++i)
    out.try_emplace(i, 0);
  out[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] =
      static_cast<int>(options.capability / 10);
  out[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] =
      static_cast<int>(options.capability % 10);
  out[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] =
      static_cast<int>(options.threads);
  out[CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1000000;
  out[CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 1600000;
  out[CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 128;
  out[CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] = 1 << 20;
  // A hint about this cache changes nothing here. Programs that give hints only
  // where a device takes them work as on a GPU.
  out[CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE] = 1 << 20;
  out[CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE] = 1 << 27;
  out[CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY] = 1;
  out[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] = 1 + options.ordinal;
  out[CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED] = 1;
  out[CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 1;
  out[CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH] = 1;
  out[CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1;
  // The devices of a session lie in one process and reach each other's memory.
  out[CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD] = 1;
  out[CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID] = 1;
  out[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1;
  out[CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1;
  out[CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1;
  out[CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED] = 1;
  out[CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED] = 1;
  out[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] = 1;
  out[CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] =
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  out[CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED] = 1;
  out[CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED] = 1;
  return out;
}

} // namespace

properties cpu_properties(const cpu_options& wanted) {
  auto options = wanted;
  if (options.threads == 0)
    options.threads = own_processors();
  auto out = properties{};
  out.name = "vGPU CPU device";
  // The capability is part of the name, because a session moves between pGPUs
  // of one name and cannot change its capability.
  if (options.capability != cpu_options{}.capability)
    out.name += " " + std::to_string(options.capability / 10) + "." +
                std::to_string(options.capability % 10);
  auto host = host_name();
  auto seed = static_cast<std::uint64_t>(options.ordinal);
  auto high = hash(host + "/vgpu-cpu", 2 * seed);
  auto low = hash(host + "/vgpu-cpu", 2 * seed + 1);
  std::memcpy(out.uuid.data(), &high, sizeof high);
  std::memcpy(out.uuid.data() + sizeof high, &low, sizeof low);
  out.total_memory = options.memory;
  out.attributes = attributes_of(options);
  return out;
}

} // namespace vgpu::device
