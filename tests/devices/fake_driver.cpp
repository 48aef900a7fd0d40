// A stand-in for NVIDIA's driver: memory is counted, streams run when they are
// told to, and nothing else is pretended. Its own C entry points (fake_*) are
// for the tests.
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>

namespace {

constexpr std::uint64_t granule = std::uint64_t{2} << 20;

std::mutex lock;
CUresult sticky = CUDA_SUCCESS;
std::uint64_t free_memory = std::uint64_t{1} << 40;
std::uint64_t created = 0; // bytes that exist
std::map<CUmemGenericAllocationHandle, std::uint64_t> allocations;
std::map<CUdeviceptr, std::uint64_t> mappings;
CUmemGenericAllocationHandle last_allocation = 0;

struct fake_stream {
  std::deque<std::function<void()>> work;
  bool held = false;
};
struct fake_event {
  std::atomic<int> pending{0};
};
fake_stream legacy;
// Never given back: some work may still name them.
std::deque<fake_stream> streams;
std::deque<fake_event> events;

fake_stream& of(CUstream x) {
  return x == CU_STREAM_LEGACY ? legacy : *reinterpret_cast<fake_stream*>(x);
}

void run(fake_stream& x) {
  while (!x.held && !x.work.empty()) {
    auto next = std::move(x.work.front());
    x.work.pop_front();
    next();
  }
}

CUresult add(CUstream to, std::function<void()> what) {
  std::lock_guard guard{lock};
  if (sticky != CUDA_SUCCESS)
    return sticky;
  of(to).work.push_back(std::move(what));
  run(of(to));
  return CUDA_SUCCESS;
}

// -- the driver's entry points ------------------------------------------------

CUresult init(unsigned) {
  return CUDA_SUCCESS;
}
CUresult version(int* x) {
  return *x = 13000, CUDA_SUCCESS;
}
CUresult error_name(CUresult, const char** x) {
  *x = "a fake error";
  return CUDA_SUCCESS;
}
CUresult device_count(int* x) {
  return *x = 1, CUDA_SUCCESS;
}
CUresult device(CUdevice* out, int ordinal) {
  *out = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult device_name(char* to, int size, CUdevice) {
  std::snprintf(to, static_cast<std::size_t>(size), "Fake GPU 9000");
  return CUDA_SUCCESS;
}
CUresult uuid(CUuuid* to, CUdevice) {
  for (int i = 0; i < 16; ++i)
    to->bytes[i] = static_cast<char>(0xF0 + i);
  return CUDA_SUCCESS;
}
CUresult total(std::size_t* x, CUdevice) {
  return *x = std::size_t{1} << 40, CUDA_SUCCESS;
}
CUresult attribute(int* x, CUdevice_attribute which, CUdevice) {
  *x = static_cast<int>(which) + 1;
  return which % 10 == 7 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult retain(CUcontext* out, CUdevice) {
  *out = reinterpret_cast<CUcontext>(std::uintptr_t{0xC0});
  return CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* out, std::size_t, std::size_t, CUdeviceptr at,
                 unsigned long long) {
  return *out = at, CUDA_SUCCESS;
}
CUresult create(CUmemGenericAllocationHandle* out, std::size_t bytes,
                const CUmemAllocationProp*, unsigned long long) {
  std::lock_guard guard{lock};
  if (bytes > free_memory - created)
    return CUDA_ERROR_OUT_OF_MEMORY;
  created += bytes;
  allocations[*out = ++last_allocation] = bytes;
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle x) {
  std::lock_guard guard{lock};
  created -= allocations[x];
  allocations.erase(x);
  return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr at, std::size_t bytes, std::size_t,
             CUmemGenericAllocationHandle, unsigned long long) {
  std::lock_guard guard{lock};
  for (auto& [begin, size] : mappings)
    if (at < begin + size && begin < at + bytes)
      return CUDA_ERROR_INVALID_VALUE;
  mappings[at] = bytes;
  return CUDA_SUCCESS;
}
/// As the driver: only what was mapped in one piece.
CUresult unmap(CUdeviceptr at, std::size_t bytes) {
  std::lock_guard guard{lock};
  auto i = mappings.find(at);
  if (i == mappings.end() || i->second != bytes)
    std::abort();
  mappings.erase(i);
  return CUDA_SUCCESS;
}

CUresult stream_create(CUstream* out, unsigned, int) {
  std::lock_guard guard{lock};
  *out = reinterpret_cast<CUstream>(&streams.emplace_back());
  return CUDA_SUCCESS;
}
CUresult stream_query(CUstream x) {
  std::lock_guard guard{lock};
  if (sticky != CUDA_SUCCESS)
    return sticky;
  return of(x).work.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult write_value(CUstream in, CUdeviceptr at, cuuint32_t value, unsigned) {
  return add(in, [=] {
    reinterpret_cast<std::atomic<std::uint32_t>*>(at)->store(value);
  });
}
/// What waits holds its stream; fake_let_go() looks again.
CUresult wait_value(CUstream in, CUdeviceptr at, cuuint32_t value, unsigned) {
  return add(in, [=] {
    auto* word = reinterpret_cast<std::atomic<std::uint32_t>*>(at);
    auto& stream = of(in);
    if (static_cast<std::int32_t>(word->load() - value) >= 0)
      return;
    stream.held = true;
  });
}
CUresult event_create(CUevent* out, unsigned) {
  std::lock_guard guard{lock};
  *out = reinterpret_cast<CUevent>(&events.emplace_back());
  return CUDA_SUCCESS;
}
CUresult event_record(CUevent x, CUstream in) {
  auto* e = reinterpret_cast<fake_event*>(x);
  ++e->pending;
  return add(in, [e] { --e->pending; });
}
CUresult event_query(CUevent x) {
  std::lock_guard guard{lock};
  if (sticky != CUDA_SUCCESS)
    return sticky;
  return reinterpret_cast<fake_event*>(x)->pending == 0 ? CUDA_SUCCESS
                                                        : CUDA_ERROR_NOT_READY;
}
CUresult copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
              CUstream in) {
  return add(in, [=] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from),
                 bytes);
  });
}

/// All that needs no answer.
CUresult nothing() {
  return CUDA_SUCCESS;
}
CUresult refuse() {
  return CUDA_ERROR_NOT_SUPPORTED;
}

void* find(std::string_view name) {
  using entry = std::pair<std::string_view, void*>;
  auto as = [](auto* f) { return reinterpret_cast<void*>(f); };
  static const entry known[] = {
      {"cuInit", as(&init)},
      {"cuDriverGetVersion", as(&version)},
      {"cuGetErrorName", as(&error_name)},
      {"cuDeviceGetCount", as(&device_count)},
      {"cuDeviceGet", as(&device)},
      {"cuDeviceGetName", as(&device_name)},
      {"cuDeviceGetUuid", as(&uuid)},
      {"cuDeviceTotalMem", as(&total)},
      {"cuDeviceGetAttribute", as(&attribute)},
      {"cuDevicePrimaryCtxRetain", as(&retain)},
      {"cuMemAddressReserve", as(&reserve)},
      {"cuMemCreate", as(&create)},
      {"cuMemRelease", as(&release)},
      {"cuMemMap", as(&map)},
      {"cuMemUnmap", as(&unmap)},
      {"cuStreamCreateWithPriority", as(&stream_create)},
      {"cuStreamQuery", as(&stream_query)},
      {"cuStreamWriteValue32", as(&write_value)},
      {"cuStreamWaitValue32", as(&wait_value)},
      {"cuEventCreate", as(&event_create)},
      {"cuEventRecord", as(&event_record)},
      {"cuEventQuery", as(&event_query)},
      {"cuMemcpyAsync", as(&copy)},
      {"cuModuleLoadDataEx", as(&refuse)},
      {"cuLibraryLoadData", as(&refuse)},
  };
  for (auto& [key, function] : known)
    if (key == name)
      return function;
  return as(&nothing);
}

} // namespace

extern "C" {

CUresult cuGetProcAddress_v2(const char* name, void** out, int, cuuint64_t,
                             CUdriverProcAddressQueryResult*) {
  *out = find(name);
  return CUDA_SUCCESS;
}

/// As when nothing was ever done, but for streams and events.
void fake_reset() {
  std::lock_guard guard{lock};
  sticky = CUDA_SUCCESS;
  free_memory = std::uint64_t{1} << 40;
  created = 0;
  allocations.clear();
  mappings.clear();
  legacy.held = false;
  legacy.work.clear();
}
/// The legacy stream does nothing from now on, or what it has and all to come.
void fake_hold(int hold) {
  std::lock_guard guard{lock};
  legacy.held = hold != 0;
  run(legacy);
}
/// From now on all calls fail, as after a fault of a kernel.
void fake_fail(int code) {
  std::lock_guard guard{lock};
  sticky = static_cast<CUresult>(code);
}
void fake_memory(std::uint64_t bytes) {
  std::lock_guard guard{lock};
  free_memory = bytes;
}
std::uint64_t fake_created() {
  std::lock_guard guard{lock};
  return created;
}
}
