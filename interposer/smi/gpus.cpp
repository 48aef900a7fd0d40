#include "interposer/smi/gpus.hpp"

#include "interposer/nvml/nvml_abi.hpp"

#include <array>
#include <fstream>

#include <dlfcn.h>

namespace vgpu::smi {

namespace {

using nvml::code;

/// Names exit codes of nvidia-smi.
constexpr int driver_not_loaded = 9, library_not_found = 12, other = 255;

/// Represents the opened library, whose functions are called by name.
class library {
public:
  library() : handle_(::dlopen("libnvidia-ml.so.1", RTLD_NOW)) {}

  bool is_open() const noexcept { return handle_ != nullptr; }

  /// Calls a function. Returns `function_not_found` where the library lacks it.
  template <class... Arguments>
  code call(const char* name, Arguments... x) const noexcept {
    using function = code (*)(Arguments...);
    auto* found = reinterpret_cast<function>(::dlsym(handle_, name));
    return found == nullptr ? code::function_not_found : found(x...);
  }

  std::string describe(code x) const {
    using function = const char* (*)(code);
    auto* found =
        reinterpret_cast<function>(::dlsym(handle_, "nvmlErrorString"));
    return found == nullptr ? "the library gives no reason" : found(x);
  }

private:
  // Never closed, because the library does not support unloading
  void* handle_;
};

const library& the_library() {
  static const library x;
  return x;
}

template <class... Arguments>
code ask(const char* name, Arguments... x) {
  return the_library().call(name, x...);
}

/// Returns a text that a call writes.
template <class... Arguments>
std::string text_of(const char* name, Arguments... x) {
  std::array<char, 256> out{};
  auto good = ask(name, x..., out.data(), unsigned{out.size()});
  return good == code::success ? out.data() : "";
}

/// Returns a number that a call writes, or nothing where the call fails.
template <class... Arguments>
std::optional<unsigned> number_of(const char* name, Arguments... x) {
  unsigned out = 0;
  if (ask(name, x..., &out) != code::success)
    return std::nullopt;
  return out;
}

/// Returns the first word of a process's command line, or nothing where it is
/// another user's.
std::string command_of(unsigned pid) {
  std::ifstream in{"/proc/" + std::to_string(pid) + "/cmdline"};
  std::string out;
  std::getline(in, out, '\0');
  return out;
}

std::vector<gpu_process> processes_of(nvml::device* of) {
  constexpr auto function = "nvmlDeviceGetComputeRunningProcesses_v3";
  std::vector<nvml::process_info> found(64);
  auto room = static_cast<unsigned>(found.size());
  auto good = ask(function, of, &room, found.data());
  while (good == code::insufficient_size && room > found.size()) {
    // Further processes may start meanwhile.
    found.resize(room + std::size_t{16});
    room = static_cast<unsigned>(found.size());
    good = ask(function, of, &room, found.data());
  }
  std::vector<gpu_process> out;
  for (unsigned i = 0; good == code::success && i < room; ++i)
    out.push_back(
        {found[i].pid, command_of(found[i].pid), found[i].used_bytes});
  return out;
}

gpu describe(unsigned index, nvml::device* of) {
  gpu out;
  out.index = index;
  out.name = text_of("nvmlDeviceGetName", of);
  out.uuid = text_of("nvmlDeviceGetUUID", of);
  nvml::pci_info place{};
  if (ask("nvmlDeviceGetPciInfo_v3", of, &place) == code::success)
    out.bus_id = place.id;
  nvml::memory memory{};
  if (ask("nvmlDeviceGetMemoryInfo", of, &memory) == code::success) {
    out.total_bytes = memory.total;
    out.used_bytes = memory.used;
    out.free_bytes = memory.free;
  }
  ask("nvmlDeviceGetCudaComputeCapability", of, &out.major, &out.minor);
  nvml::utilization busy{};
  if (ask("nvmlDeviceGetUtilizationRates", of, &busy) == code::success)
    out.busy_percent = busy.gpu;
  auto clock = [of](nvml::clock_kind x) {
    return number_of("nvmlDeviceGetMaxClockInfo", of, static_cast<unsigned>(x));
  };
  out.core_mhz_at_most = clock(nvml::clock_kind::sm);
  out.memory_mhz_at_most = clock(nvml::clock_kind::memory);
  out.processes = processes_of(of);
  return out;
}

std::optional<failure> begin() {
  if (!the_library().is_open())
    return failure{"libnvidia-ml.so.1 cannot be loaded; it should be in the "
                   "parent of this program's folder",
                   library_not_found};
  auto good = ask("nvmlInit_v2");
  if (good == code::success)
    return std::nullopt;
  auto none = good == code::driver_not_loaded;
  return failure{"no vGPU is to be had: " + the_library().describe(good) +
                     (none ? "; run with VGPU_LOG=error to see why" : ""),
                 none ? driver_not_loaded : other};
}

} // namespace

std::variant<snapshot, failure> take_snapshot() {
  if (auto why = begin())
    return *why;
  snapshot out;
  out.driver_version = text_of("nvmlSystemGetDriverVersion");
  ask("nvmlSystemGetCudaDriverVersion_v2", &out.cuda_version);
  auto count = number_of("nvmlDeviceGetCount_v2").value_or(0);
  for (unsigned i = 0; i < count; ++i)
    if (nvml::device* of = nullptr;
        ask("nvmlDeviceGetHandleByIndex_v2", i, &of) == code::success)
      out.gpus.push_back(describe(i, of));
  ask("nvmlShutdown");
  return out;
}

} // namespace vgpu::smi
