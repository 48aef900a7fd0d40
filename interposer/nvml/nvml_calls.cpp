// The calls of libnvidia-ml.so.1 that are served. Monitors use them, and
// programs that count devices before they use them. They describe the vGPUs of
// the process's session.
#include "interposer/nvml/nvml_session.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <strings.h>
#include <time.h>

using namespace vgpu::nvml;

namespace {

/// Names the first driver of CUDA 13.0, the version that libcuda.so.1 reports.
constexpr std::string_view driver_version = "580.65.06";
constexpr std::string_view nvml_version = "13.580.65.06";

code give_text(std::string_view text, char* into, unsigned room) noexcept {
  if (into == nullptr)
    return code::invalid_argument;
  if (text.size() >= room)
    return code::insufficient_size;
  std::memcpy(into, text.data(), text.size());
  into[text.size()] = '\0';
  return code::success;
}

template <class T>
code give(T* into, T value) noexcept {
  if (into == nullptr)
    return code::invalid_argument;
  *into = value;
  return code::success;
}

using uuid_text = std::array<char, 48>;

uuid_text uuid_of(const nvml_device_facts& x) noexcept {
  uuid_text out{};
  auto* to = out.data() + std::snprintf(out.data(), 5, "GPU-");
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10)
      *to++ = '-';
    to += std::snprintf(to, 3, "%02x", x.uuid[i]);
  }
  return out;
}

void fill_bus_id(char* into, std::size_t room, const char* form,
                 const nvml_device_facts& x) noexcept {
  std::snprintf(into, room, form, static_cast<unsigned>(x.pci_domain) & 0xffffU,
                static_cast<unsigned>(x.pci_bus) & 0xffU,
                static_cast<unsigned>(x.pci_device) & 0xffU);
}

constexpr auto long_bus_id = "%08X:%02X:%02X.0";
constexpr auto short_bus_id = "%04X:%02X:%02X.0";

/// Finds the first device for which the predicate is true.
template <class Predicate>
code find_device(device** out, const Predicate& is_it) noexcept {
  if (!is_initialized())
    return code::uninitialized;
  if (out == nullptr)
    return code::invalid_argument;
  for (unsigned i = 0; i < count(); ++i) {
    nvml_device_facts x;
    if (facts_of(handle_of(i), x) == code::success && is_it(x))
      return give(out, handle_of(i));
  }
  return code::not_found;
}

} // namespace

// -- life
// -----------------------------------------------------------------------------

VGPU_NVML(nvmlInit_v2)() {
  return begin(false);
}
VGPU_NVML(nvmlInit)() {
  return begin(false);
}
VGPU_NVML(nvmlInitWithFlags)(unsigned flags) {
  constexpr unsigned no_gpus = 1, no_attach = 2;
  if ((flags & ~(no_gpus | no_attach)) != 0)
    return code::invalid_argument;
  return begin((flags & no_gpus) != 0);
}
VGPU_NVML(nvmlShutdown)() {
  return end();
}

extern "C" __attribute__((visibility("default"))) const char*
nvmlErrorString(code x) {
  switch (x) {
  case code::success:
    return "Success";
  case code::uninitialized:
    return "Uninitialized";
  case code::invalid_argument:
    return "Invalid Argument";
  case code::not_supported:
    return "Not Supported";
  case code::no_permission:
    return "Insufficient Permissions";
  case code::already_initialized:
    return "Already Initialized";
  case code::not_found:
    return "Not Found";
  case code::insufficient_size:
    return "Insufficient Size";
  case code::insufficient_power:
    return "Insufficient External Power";
  case code::driver_not_loaded:
    return "Driver Not Loaded";
  case code::timeout:
    return "Timeout";
  case code::irq_issue:
    return "Interrupt Request Issue";
  case code::library_not_found:
    return "NVML Shared Library Not Found";
  case code::function_not_found:
    return "Function Not Found";
  case code::corrupted_inforom:
    return "Corrupted infoROM";
  case code::gpu_is_lost:
    return "GPU is lost";
  case code::reset_required:
    return "GPU requires reset";
  case code::operating_system:
    return "GPU access blocked by the operating system";
  case code::lib_rm_version_mismatch:
    return "Driver/library version mismatch";
  case code::in_use:
    return "In use by another client";
  case code::memory:
    return "Insufficient Memory";
  case code::no_data:
    return "No data";
  case code::vgpu_ecc_not_supported:
    return "Not available while ECC is enabled";
  case code::insufficient_resources:
    return "Insufficient Resources";
  case code::freq_not_supported:
    return "Frequency Not Supported";
  case code::argument_version_mismatch:
    return "Argument version mismatch";
  case code::deprecated:
    return "Deprecated";
  case code::not_ready:
    return "Not ready";
  case code::gpu_not_found:
    return "GPU not found";
  case code::invalid_state:
    return "Invalid state";
  case code::unknown:
    break;
  }
  return "Unknown Error";
}

// -- the system
// -----------------------------------------------------------------------------

VGPU_NVML(nvmlSystemGetDriverVersion)(char* version, unsigned length) {
  return is_initialized() ? give_text(driver_version, version, length)
                          : code::uninitialized;
}
VGPU_NVML(nvmlSystemGetNVMLVersion)(char* version, unsigned length) {
  return give_text(nvml_version, version, length);
}
VGPU_NVML(nvmlSystemGetCudaDriverVersion)(int* version) {
  return give(version, cuda_13_0);
}
VGPU_NVML(nvmlSystemGetCudaDriverVersion_v2)(int* version) {
  return give(version, cuda_13_0);
}
VGPU_NVML(nvmlSystemGetProcessName)(unsigned pid, char* name, unsigned length) {
  if (!is_initialized())
    return code::uninitialized;
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
  auto* file = std::fopen(path, "re");
  if (file == nullptr)
    return code::not_found;
  char text[1024];
  auto got = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[got] = '\0';
  // The text ends after the first argument.
  return give_text(text, name, length);
}

// -- finding devices
// -----------------------------------------------------------------------------

VGPU_NVML(nvmlDeviceGetCount_v2)(unsigned* out) {
  return is_initialized() ? give(out, count()) : code::uninitialized;
}
VGPU_NVML(nvmlDeviceGetCount)(unsigned* out) {
  return nvmlDeviceGetCount_v2(out);
}

VGPU_NVML(nvmlDeviceGetHandleByIndex_v2)(unsigned index, device** out) {
  if (!is_initialized())
    return code::uninitialized;
  auto* found = handle_of(index);
  return found == nullptr ? code::invalid_argument : give(out, found);
}
VGPU_NVML(nvmlDeviceGetHandleByIndex)(unsigned index, device** out) {
  return nvmlDeviceGetHandleByIndex_v2(index, out);
}

VGPU_NVML(nvmlDeviceGetHandleByUUID)(const char* uuid, device** out) {
  if (uuid == nullptr)
    return code::invalid_argument;
  return find_device(
      out, [&](auto& x) { return ::strcasecmp(uuid, uuid_of(x).data()) == 0; });
}

VGPU_NVML(nvmlDeviceGetHandleByPciBusId_v2)(const char* id, device** out) {
  unsigned domain = 0, bus = 0, slot = 0;
  if (id == nullptr)
    return code::invalid_argument;
  if (std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (std::sscanf(id, "%x:%x", &bus, &slot) != 2)
      return code::invalid_argument;
  }
  return find_device(out, [&](auto& x) {
    return static_cast<unsigned>(x.pci_domain) == domain &&
           static_cast<unsigned>(x.pci_bus) == bus &&
           static_cast<unsigned>(x.pci_device) == slot;
  });
}
VGPU_NVML(nvmlDeviceGetHandleByPciBusId)(const char* id, device** out) {
  return nvmlDeviceGetHandleByPciBusId_v2(id, out);
}

// -- properties
// -----------------------------------------------------------------------------

VGPU_NVML(nvmlDeviceGetIndex)(device* of, unsigned* out) {
  return with_device(of, [&](auto&) { return give(out, index_of(of)); });
}
VGPU_NVML(nvmlDeviceGetMinorNumber)(device* of, unsigned* out) {
  return with_device(of, [&](auto&) { return give(out, index_of(of)); });
}
VGPU_NVML(nvmlDeviceGetName)(device* of, char* name, unsigned length) {
  return with_device(of,
                     [&](auto& x) { return give_text(x.name, name, length); });
}
VGPU_NVML(nvmlDeviceGetUUID)(device* of, char* uuid, unsigned length) {
  return with_device(
      of, [&](auto& x) { return give_text(uuid_of(x).data(), uuid, length); });
}
VGPU_NVML(nvmlDeviceGetCudaComputeCapability)
(device* of, int* major, int* minor) {
  return with_device(of, [&](auto& x) {
    if (major == nullptr || minor == nullptr)
      return code::invalid_argument;
    *major = x.major;
    *minor = x.minor;
    return code::success;
  });
}
VGPU_NVML(nvmlDeviceGetP2PStatus)
(device* from, device* to, unsigned of, p2p_status* out) {
  return with_device(from, [&](auto& x) {
    return with_device(to, [&](auto&) {
      if (of > static_cast<unsigned>(p2p_caps::pci))
        return code::invalid_argument;
      auto links = of == static_cast<unsigned>(p2p_caps::nvlink) ||
                   of == static_cast<unsigned>(p2p_caps::pci);
      auto reached = from == to || (!links && (x.reaches >> index_of(to) & 1));
      return give(out, reached ? p2p_status::ok : p2p_status::not_supported);
    });
  });
}
VGPU_NVML(nvmlDeviceGetArchitecture)(device* of, unsigned* out) {
  // The values are NVML_DEVICE_ARCH_*, by compute capability.
  return with_device(of, [&](auto& x) {
    unsigned arch = 0xffffffff;
    if (x.major == 7)
      arch = x.minor >= 5 ? 6 : 5; // Turing, Volta
    else if (x.major == 8)
      arch = x.minor == 9 ? 8 : 7; // Ada, Ampere
    else if (x.major >= 9)
      arch = x.major == 9 ? 9 : 10; // Hopper, Blackwell
    return give(out, arch);
  });
}

// The calls below report properties that do not change.
VGPU_NVML(nvmlDeviceGetMaxClockInfo)(device* of, unsigned kind, unsigned* mhz) {
  return with_device(of, [&](auto& x) {
    if (kind > static_cast<unsigned>(clock_kind::video))
      return code::invalid_argument;
    auto khz = kind == static_cast<unsigned>(clock_kind::memory)  ? x.memory_khz
               : kind == static_cast<unsigned>(clock_kind::video) ? 0
                                                                  : x.core_khz;
    return khz == 0 ? code::not_supported
                    : give(mhz, static_cast<unsigned>(khz) / 1000);
  });
}
VGPU_NVML(nvmlDeviceGetMemoryBusWidth)(device* of, unsigned* bits) {
  return with_device(of, [&](auto& x) {
    return x.bus_bits == 0 ? code::not_supported
                           : give(bits, static_cast<unsigned>(x.bus_bits));
  });
}
VGPU_NVML(nvmlDeviceGetNumGpuCores)(device* of, unsigned* out) {
  // Each multiprocessor has 64 cores on Volta, Turing and the first Ampere, and
  // 128 on later GPUs (CUDA C++ Programming Guide, "Compute Capabilities").
  return with_device(of, [&](auto& x) {
    auto each = x.major < 8 || (x.major == 8 && x.minor == 0) ? 64U : 128U;
    return give(out, each * static_cast<unsigned>(x.multiprocessors));
  });
}

namespace {

void fill_place(auto& out, const nvml_device_facts& x) noexcept {
  out.domain = static_cast<unsigned>(x.pci_domain);
  out.bus = static_cast<unsigned>(x.pci_bus);
  out.device = static_cast<unsigned>(x.pci_device);
  // The vendor's id is unknown.
  out.device_id = 0;
}

/// Returns a device's bus address. `fill` writes the fields that differ between
/// the versions of the struct.
code give_place(device* of, auto* out, auto fill) noexcept {
  return with_device(of, [&](auto& x) {
    if (out == nullptr)
      return code::invalid_argument;
    fill(x);
    fill_place(*out, x);
    return code::success;
  });
}

} // namespace

VGPU_NVML(nvmlDeviceGetPciInfo_v3)(device* of, pci_info* out) {
  return give_place(of, out, [&](auto& x) {
    *out = {};
    fill_bus_id(out->legacy_id, sizeof out->legacy_id, short_bus_id, x);
    fill_bus_id(out->id, sizeof out->id, long_bus_id, x);
  });
}
VGPU_NVML(nvmlDeviceGetPciInfo_v2)(device* of, pci_info_v2* out) {
  return give_place(of, out, [&](auto& x) {
    *out = {};
    fill_bus_id(out->id, sizeof out->id, short_bus_id, x);
  });
}
/// Fills only the fields of the struct's first version.
VGPU_NVML(nvmlDeviceGetPciInfo)(device* of, pci_info_v2* out) {
  return give_place(of, out, [&](auto& x) {
    fill_bus_id(out->id, sizeof out->id, short_bus_id, x);
  });
}

// The calls below report the modes of every vGPU.
VGPU_NVML(nvmlDeviceGetComputeMode)(device* of, int* out) {
  // 0 is the default mode.
  return with_device(of, [&](auto&) { return give(out, 0); });
}
VGPU_NVML(nvmlDeviceGetPersistenceMode)(device* of, int* out) {
  // 1 means enabled.
  return with_device(of, [&](auto&) { return give(out, 1); });
}
VGPU_NVML(nvmlDeviceGetDisplayMode)(device* of, int* out) {
  return with_device(of, [&](auto&) { return give(out, 0); });
}
VGPU_NVML(nvmlDeviceGetDisplayActive)(device* of, int* out) {
  return with_device(of, [&](auto&) { return give(out, 0); });
}

// -- memory and processes
// -----------------------------------------------------------------------------

VGPU_NVML(nvmlDeviceGetMemoryInfo)(device* of, memory* out) {
  return with_device(of, [&](auto& x) {
    return give(out, memory{x.total, x.total - x.used, x.used});
  });
}
VGPU_NVML(nvmlDeviceGetMemoryInfo_v2)(device* of, memory_v2* out) {
  return with_device(of, [&](auto& x) {
    if (out == nullptr)
      return code::invalid_argument;
    if (out->version != version_of(sizeof *out, 2))
      return code::argument_version_mismatch;
    *out = {out->version, x.total, 0, x.total - x.used, x.used};
    return code::success;
  });
}

namespace {

using processes = std::vector<vgpu::interposer::nvml_process>;

/// Calls `body` with the processes on a device.
template <class Body>
code with_processes(device* of, const Body& body) noexcept {
  if (!is_initialized())
    return code::uninitialized;
  processes all;
  auto good = processes_of(of, all);
  return good == code::success ? body(all) : good;
}

/// Checks that `have` entries fit. `room` holds the size of the caller's array,
/// and receives the number of entries.
code make_room(std::size_t have, unsigned* room, const void* into) noexcept {
  if (room == nullptr || (*room != 0 && into == nullptr))
    return code::invalid_argument;
  auto fits = have <= *room;
  *room = static_cast<unsigned>(have);
  return fits ? code::success : code::insufficient_size;
}

template <class Info>
code give_processes(device* of, unsigned* room, Info* out) noexcept {
  return with_processes(of, [&](const processes& all) {
    if (auto no = make_room(all.size(), room, out); no != code::success)
      return no;
    for (const auto& x : all) {
      *out = {};
      out->pid = x.pid;
      out->used_bytes = x.used;
      if constexpr (requires { out->gpu_instance; })
        out->gpu_instance = out->compute_instance = no_instance;
      ++out;
    }
    return code::success;
  });
}

code give_no_processes(device* of, unsigned* room) noexcept {
  return with_device(of, [&](auto&) { return give(room, 0U); });
}

} // namespace

// -- utilization
// -----------------------------------------------------------------------------

VGPU_NVML(nvmlDeviceGetUtilizationRates)(device* of, utilization* out) {
  // The use of the memory's bandwidth is not measured, and the struct has no
  // value for that.
  return with_device(of, [&](auto& x) {
    return give(out, utilization{x.busy, 0});
  });
}
/// Returns one present sample of each process. Older samples are not kept.
VGPU_NVML(nvmlDeviceGetProcessUtilization)
(device* of, process_utilization* out, unsigned* room, unsigned long long) {
  return with_processes(of, [&](const processes& all) {
    if (auto no = make_room(all.size(), room, out); no != code::success)
      return no;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    auto at = static_cast<unsigned long long>(now.tv_sec) * 1'000'000 +
              static_cast<unsigned long long>(now.tv_nsec) / 1'000;
    for (const auto& x : all)
      *out++ = {x.pid, at, x.busy, 0, 0, 0};
    return code::success;
  });
}

VGPU_NVML(nvmlDeviceGetComputeRunningProcesses)
(device* of, unsigned* room, process_info_v1* out) {
  return give_processes(of, room, out);
}
VGPU_NVML(nvmlDeviceGetComputeRunningProcesses_v2)
(device* of, unsigned* room, process_info* out) {
  return give_processes(of, room, out);
}
VGPU_NVML(nvmlDeviceGetComputeRunningProcesses_v3)
(device* of, unsigned* room, process_info* out) {
  return give_processes(of, room, out);
}
VGPU_NVML(nvmlDeviceGetGraphicsRunningProcesses)
(device* of, unsigned* room, process_info_v1*) {
  return give_no_processes(of, room);
}
VGPU_NVML(nvmlDeviceGetGraphicsRunningProcesses_v2)
(device* of, unsigned* room, process_info*) {
  return give_no_processes(of, room);
}
VGPU_NVML(nvmlDeviceGetGraphicsRunningProcesses_v3)
(device* of, unsigned* room, process_info*) {
  return give_no_processes(of, room);
}
