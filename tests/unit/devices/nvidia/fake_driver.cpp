// A fake of NVIDIA's driver. It counts memory and executes streams when tests
// let it, and does nothing else. Tests use its C entry points fake_*.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr std::uint64_t granule = std::uint64_t{2} << 20;

std::mutex lock;
CUresult sticky = CUDA_SUCCESS;
std::uint64_t free_memory = std::uint64_t{1} << 40;
std::uint64_t created = 0; // bytes of all allocations
std::map<CUmemGenericAllocationHandle, std::uint64_t> allocations;
std::map<CUmemGenericAllocationHandle, int> imports; // handles imported of each
std::map<CUdeviceptr, std::uint64_t> mappings;
std::map<CUdeviceptr, std::set<int>> accesses; // devices by address
CUmemGenericAllocationHandle last_allocation = 0;

// The processes that others checkpoint, and the step that fails next.
std::map<int, CUprocessState> processes;
std::string failing_step;

/// An array of one level, with its own layout.
struct fake_array {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  std::vector<std::byte> bytes;
};
struct fake_mipmap {
  std::vector<CUarray> levels;
};
// Objects that exist until they are destroyed or the process ends.
std::map<fake_array*, std::unique_ptr<fake_array>> arrays;
std::map<fake_mipmap*, std::unique_ptr<fake_mipmap>> mipmaps;
// The values of texture and surface objects. The lowest free value is given
// next.
std::set<unsigned long long> objects;
unsigned long long first_object = 1;

struct fake_stream {
  std::deque<std::function<void()>> work;
  bool held = false;
};
struct fake_event {
  std::atomic<int> pending{0};
  std::uint64_t at = 0; // its latest record by the GPU's clock
  std::vector<fake_stream*> waited_for_in{};
};
fake_stream legacy;
// The GPU's clock. Only copies, delays and fake_pass() move it.
std::uint64_t clock_ns = 1'000'000'000;
std::uint64_t copies_take = 0;
std::uint64_t starts_take = 0;
// Never freed, because work may still refer to them.
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

/// The calls that a profiler is told of, and of the work that they enqueue.
struct fake_profiler_hooks {
  std::uint32_t (*entered)(std::uint32_t call);
  void (*left)(std::uint32_t call, std::uint32_t correlation, CUresult how);
  void (*executed)(std::uint32_t call, std::uint32_t correlation,
                   std::uint64_t began, std::uint64_t ended);
};
std::atomic<const fake_profiler_hooks*> profiler{nullptr};

/// Adds work of a call that a profiler may watch. The work takes some time to
/// start, which events before it see and a profiler does not.
CUresult add_watched(std::uint32_t call, CUstream to,
                     std::function<void()> what) {
  const auto* by = profiler.load();
  auto correlation = by != nullptr ? by->entered(call) : 0;
  auto out = add(to, [=, what = std::move(what)] {
    clock_ns += starts_take;
    auto began = clock_ns;
    what();
    if (by != nullptr)
      by->executed(call, correlation, began, clock_ns);
  });
  if (by != nullptr)
    by->left(call, correlation, out);
  return out;
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
  if (imports[x] > 0)
    return --imports[x], CUDA_SUCCESS;
  created -= allocations[x];
  allocations.erase(x);
  return CUDA_SUCCESS;
}
/// Like the driver, maps whole allocations only.
CUresult map(CUdeviceptr at, std::size_t bytes, std::size_t offset,
             CUmemGenericAllocationHandle of, unsigned long long) {
  std::lock_guard guard{lock};
  if (offset != 0 || allocations.at(of) != bytes)
    return CUDA_ERROR_NOT_SUPPORTED;
  for (auto& [begin, size] : mappings)
    if (at < begin + size && begin < at + bytes)
      return CUDA_ERROR_INVALID_VALUE;
  mappings[at] = bytes;
  return CUDA_SUCCESS;
}
/// The descriptor's file holds the number of the allocation.
CUresult export_memory(void* out, CUmemGenericAllocationHandle x,
                       CUmemAllocationHandleType type, unsigned long long) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  auto file = ::memfd_create("fake", MFD_CLOEXEC);
  if (::pwrite(file, &x, sizeof(x), 0) != sizeof(x))
    std::abort();
  std::memcpy(out, &file, sizeof(file));
  return CUDA_SUCCESS;
}
CUresult import_memory(CUmemGenericAllocationHandle* out, void* file,
                       CUmemAllocationHandleType) {
  std::lock_guard guard{lock};
  if (::pread(static_cast<int>(reinterpret_cast<std::intptr_t>(file)), out,
              sizeof(*out), 0) != sizeof(*out) ||
      !allocations.contains(*out))
    return CUDA_ERROR_INVALID_VALUE;
  ++imports[*out];
  return CUDA_SUCCESS;
}
CUresult can_access(int* out, CUdevice from, CUdevice to) {
  return *out = from != to, CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr at, std::size_t, const CUmemAccessDesc* x,
                    std::size_t count) {
  std::lock_guard guard{lock};
  auto& allowed = accesses[at];
  for (const auto& each : std::span{x, count})
    if (each.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
      allowed.insert(each.location.id);
    else
      allowed.erase(each.location.id);
  return CUDA_SUCCESS;
}
/// Like the driver, unmaps only what was mapped in one piece.
CUresult unmap(CUdeviceptr at, std::size_t bytes) {
  std::lock_guard guard{lock};
  auto i = mappings.find(at);
  if (i == mappings.end() || i->second != bytes)
    std::abort();
  mappings.erase(i);
  return CUDA_SUCCESS;
}

// The sizes of the parts to link.
std::vector<std::size_t> linked;
// The number of texts among them.
std::uint64_t linked_texts = 0;

/// Holds the options of the latest compilation.
std::map<int, std::uint64_t> compiled_with;

/// Notes a compiler's options, and writes its logs.
void note_options(unsigned count, const CUjit_option* options, void** values,
                  const char* says) {
  std::lock_guard guard{lock};
  compiled_with.clear();
  for (unsigned i = 0; i < count; ++i) {
    compiled_with[options[i]] = reinterpret_cast<std::uintptr_t>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER ||
        options[i] == CU_JIT_INFO_LOG_BUFFER)
      std::strcpy(static_cast<char*>(values[i]), says);
  }
}

CUresult link_create(unsigned count, CUjit_option* options, void** values,
                     CUlinkState*) {
  note_options(count, options, values, "");
  return CUDA_SUCCESS;
}
CUresult link_add(CUlinkState, CUjitInputType type, void* data,
                  std::size_t bytes, const char*, unsigned, CUjit_option*,
                  void**) {
  std::lock_guard guard{lock};
  if (type == CU_JIT_INPUT_PTX) {
    auto text = static_cast<const char*>(data);
    if (bytes == 0 || text[bytes - 1] != '\0')
      return CUDA_ERROR_INVALID_VALUE;
    ++linked_texts;
  }
  linked.push_back(type == CU_JIT_INPUT_FATBINARY ? bytes : 0);
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
/// A wait whose value is not there holds its stream. fake_hold(0) tries again.
template <class Word>
CUresult wait_for_word(CUstream in, CUdeviceptr at, Word value, unsigned how) {
  return add(in, [=] {
    auto now = reinterpret_cast<std::atomic<Word>*>(at)->load();
    auto& stream = of(in);
    if (how == CU_STREAM_WAIT_VALUE_EQ
            ? now == value
            : static_cast<std::make_signed_t<Word>>(now - value) >= 0)
      return;
    stream.held = true;
  });
}
CUresult wait_value(CUstream in, CUdeviceptr at, cuuint32_t value,
                    unsigned how) {
  return wait_for_word<std::uint32_t>(in, at, value, how);
}
CUresult wait_value_64(CUstream in, CUdeviceptr at, cuuint64_t value,
                       unsigned how) {
  return wait_for_word<std::uint64_t>(in, at, value, how);
}
CUresult event_create(CUevent* out, unsigned) {
  std::lock_guard guard{lock};
  *out = reinterpret_cast<CUevent>(&events.emplace_back());
  return CUDA_SUCCESS;
}
CUresult event_record(CUevent x, CUstream in) {
  auto* e = reinterpret_cast<fake_event*>(x);
  ++e->pending;
  return add(in, [e] {
    e->at = clock_ns;
    if (--e->pending != 0)
      return;
    for (auto* waits : std::exchange(e->waited_for_in, {})) {
      waits->held = false;
      run(*waits);
    }
  });
}
CUresult wait_event(CUstream in, CUevent x, unsigned) {
  auto* e = reinterpret_cast<fake_event*>(x);
  return add(in, [e, in] {
    if (e->pending == 0)
      return;
    of(in).held = true;
    e->waited_for_in.push_back(&of(in));
  });
}
/// The name is the event's address, as there is one process.
CUresult event_name(CUipcEventHandle* out, CUevent x) {
  std::memset(out, 0, sizeof(*out));
  std::memcpy(out, &x, sizeof(x));
  return CUDA_SUCCESS;
}
CUresult event_by_name(CUevent* out, CUipcEventHandle name) {
  std::lock_guard guard{lock};
  std::memcpy(out, &name, sizeof(*out));
  for (auto& x : events)
    if (*out == reinterpret_cast<CUevent>(&x))
      return CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult event_query(CUevent x) {
  std::lock_guard guard{lock};
  if (sticky != CUDA_SUCCESS)
    return sticky;
  return reinterpret_cast<fake_event*>(x)->pending == 0 ? CUDA_SUCCESS
                                                        : CUDA_ERROR_NOT_READY;
}
/// Like the driver, returns a negative time if the second was recorded first.
CUresult elapsed(float* ms, CUevent from, CUevent to) {
  std::lock_guard guard{lock};
  if (sticky != CUDA_SUCCESS)
    return sticky;
  auto& a = *reinterpret_cast<fake_event*>(from);
  auto& b = *reinterpret_cast<fake_event*>(to);
  if (a.pending != 0 || b.pending != 0)
    return CUDA_ERROR_NOT_READY;
  if (a.at == 0 || b.at == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  *ms = static_cast<float>(static_cast<std::int64_t>(b.at - a.at)) / 1e6f;
  return CUDA_SUCCESS;
}
/// The device has no memory, so a copy to it only takes time.
CUresult copy_in(CUdeviceptr, const void*, std::size_t, CUstream in) {
  return add_watched(277, in, [] { clock_ns += copies_take; });
}
CUresult copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
              CUstream in) {
  return add_watched(306, in, [=] {
    clock_ns += copies_take;
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from),
                 bytes);
  });
}

// -- arrays

constexpr std::size_t fake_element = 4;

std::size_t rows_of(const CUDA_ARRAY3D_DESCRIPTOR& x) {
  return x.Height == 0 ? 1 : x.Height;
}
std::size_t slices_of(const CUDA_ARRAY3D_DESCRIPTOR& x) {
  return x.Depth == 0 ? 1 : x.Depth;
}

CUarray new_array(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  auto made = std::make_unique<fake_array>(fake_array{shape, {}});
  made->bytes.resize(shape.Width * fake_element * rows_of(shape) *
                     slices_of(shape));
  auto* x = made.get();
  arrays.emplace(x, std::move(made));
  return reinterpret_cast<CUarray>(x);
}
CUresult array_create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  std::lock_guard guard{lock};
  return *out = new_array(*shape), CUDA_SUCCESS;
}
void drop_array(CUarray x) {
  if (arrays.erase(reinterpret_cast<fake_array*>(x)) != 1)
    std::abort();
}
CUresult array_destroy(CUarray x) {
  std::lock_guard guard{lock};
  return drop_array(x), CUDA_SUCCESS;
}
CUresult mipmap_create(CUmipmappedArray* out,
                       const CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned levels) {
  std::lock_guard guard{lock};
  auto made = std::make_unique<fake_mipmap>();
  auto* x = made.get();
  mipmaps.emplace(x, std::move(made));
  for (unsigned l = 0; l < levels; ++l) {
    auto level = *shape;
    level.Width = std::max<std::size_t>(1, shape->Width >> l);
    level.Height = std::max<std::size_t>(1, shape->Height >> l);
    x->levels.push_back(new_array(level));
  }
  return *out = reinterpret_cast<CUmipmappedArray>(x), CUDA_SUCCESS;
}
CUresult mipmap_destroy(CUmipmappedArray x) {
  std::lock_guard guard{lock};
  auto* gone = reinterpret_cast<fake_mipmap*>(x);
  for (auto level : gone->levels)
    drop_array(level);
  mipmaps.erase(gone);
  return CUDA_SUCCESS;
}
CUresult mipmap_level(CUarray* out, CUmipmappedArray x, unsigned level) {
  *out = reinterpret_cast<fake_mipmap*>(x)->levels.at(level);
  return CUDA_SUCCESS;
}

/// Returns where a row of one end begins, or null if the box leaves an array.
std::byte* row_of(CUmemorytype type, const void* host, CUdeviceptr device,
                  CUarray array, std::size_t x, std::size_t y, std::size_t z,
                  std::size_t pitch, std::size_t height, std::size_t width) {
  if (type != CU_MEMORYTYPE_ARRAY) {
    auto base = type == CU_MEMORYTYPE_HOST
                    ? reinterpret_cast<std::uintptr_t>(host)
                    : std::uintptr_t{device};
    return reinterpret_cast<std::byte*>(base + x + (z * height + y) * pitch);
  }
  auto* a = reinterpret_cast<fake_array*>(array);
  auto row = a->shape.Width * fake_element;
  if (!arrays.contains(a) || x + width > row || y >= rows_of(a->shape) ||
      z >= slices_of(a->shape))
    return nullptr;
  return a->bytes.data() + x + (z * rows_of(a->shape) + y) * row;
}

CUresult copy_3d(const CUDA_MEMCPY3D* what, CUstream in) {
  return add(in, [c = *what] {
    for (std::size_t z = 0; z < c.Depth; ++z)
      for (std::size_t y = 0; y < c.Height; ++y) {
        auto* to = row_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray,
                          c.dstXInBytes, c.dstY + y, c.dstZ + z, c.dstPitch,
                          c.dstHeight, c.WidthInBytes);
        auto* from = row_of(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray,
                            c.srcXInBytes, c.srcY + y, c.srcZ + z, c.srcPitch,
                            c.srcHeight, c.WidthInBytes);
        if (to == nullptr || from == nullptr)
          std::abort();
        std::memmove(to, from, c.WidthInBytes);
      }
  });
}

CUresult new_object(unsigned long long* out) {
  std::lock_guard guard{lock};
  *out = first_object;
  while (!objects.insert(*out).second)
    ++*out;
  return CUDA_SUCCESS;
}
CUresult texture_create(CUtexObject* out, const CUDA_RESOURCE_DESC* what,
                        const CUDA_TEXTURE_DESC*,
                        const CUDA_RESOURCE_VIEW_DESC*) {
  if (what->resType == CU_RESOURCE_TYPE_ARRAY &&
      !arrays.contains(reinterpret_cast<fake_array*>(what->res.array.hArray)))
    return CUDA_ERROR_INVALID_HANDLE;
  return new_object(out);
}
CUresult surface_create(CUsurfObject* out, const CUDA_RESOURCE_DESC*) {
  return new_object(out);
}
CUresult object_destroy(unsigned long long x) {
  std::lock_guard guard{lock};
  return objects.erase(x) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// -- tensor maps, which hold their arguments one after the other

/// Appends values.
struct map_writer {
  std::uint64_t* at;
  template <class... Ts>
  void add(Ts... values) {
    ((*at++ = static_cast<std::uint64_t>(values)), ...);
  }
  template <class T>
  void add_all(const T* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      add(values[i]);
  }
};
CUresult process_state(int pid, CUprocessState* state) {
  std::lock_guard guard{lock};
  if (failing_step == "state")
    return CUDA_ERROR_NOT_PERMITTED;
  *state = processes[pid];
  return CUDA_SUCCESS;
}
CUresult process_step(const char* name, int pid, CUprocessState from,
                      CUprocessState to) {
  std::lock_guard guard{lock};
  if (processes[pid] != from)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (failing_step == name)
    return CUDA_ERROR_NOT_READY;
  processes[pid] = to;
  return CUDA_SUCCESS;
}
CUresult process_lock(int pid, CUcheckpointLockArgs* how) {
  // Without a limit it might wait for ever, so it must have one.
  if (how == nullptr || how->timeoutMs == 0)
    return CUDA_ERROR_INVALID_VALUE;
  return process_step("lock", pid, CU_PROCESS_STATE_RUNNING,
                      CU_PROCESS_STATE_LOCKED);
}
CUresult process_checkpoint(int pid, CUcheckpointCheckpointArgs*) {
  return process_step("checkpoint", pid, CU_PROCESS_STATE_LOCKED,
                      CU_PROCESS_STATE_CHECKPOINTED);
}
CUresult process_restore(int pid, CUcheckpointRestoreArgs*) {
  return process_step("restore", pid, CU_PROCESS_STATE_CHECKPOINTED,
                      CU_PROCESS_STATE_LOCKED);
}
CUresult process_unlock(int pid, CUcheckpointUnlockArgs*) {
  return process_step("unlock", pid, CU_PROCESS_STATE_LOCKED,
                      CU_PROCESS_STATE_RUNNING);
}

CUresult map_tiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                   void* at, const cuuint64_t* sizes, const cuuint64_t* strides,
                   const cuuint32_t* box, const cuuint32_t* steps,
                   CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                   CUtensorMapL2promotion promotion,
                   CUtensorMapFloatOOBfill fill) {
  if (rank != 2)
    return CUDA_ERROR_INVALID_VALUE;
  map_writer to{out->opaque};
  to.add(1, type, reinterpret_cast<std::uintptr_t>(at));
  to.add_all(sizes, rank);
  to.add_all(strides, rank - 1);
  to.add_all(box, rank);
  to.add_all(steps, rank);
  to.add(interleave, swizzle, promotion, fill);
  return CUDA_SUCCESS;
}
CUresult map_im2col(CUtensorMap* out, CUtensorMapDataType, cuuint32_t rank,
                    void*, const cuuint64_t*, const cuuint64_t* strides,
                    const int* lower, const int* upper, cuuint32_t channels,
                    cuuint32_t pixels, const cuuint32_t*, CUtensorMapInterleave,
                    CUtensorMapSwizzle, CUtensorMapL2promotion,
                    CUtensorMapFloatOOBfill) {
  map_writer to{out->opaque};
  to.add(2);
  to.add_all(strides, rank - 1);
  to.add_all(lower, rank - 2);
  to.add_all(upper, rank - 2);
  to.add(channels, pixels);
  return CUDA_SUCCESS;
}
CUresult map_wide(CUtensorMap* out, CUtensorMapDataType, cuuint32_t, void*,
                  const cuuint64_t*, const cuuint64_t*, int lower, int upper,
                  cuuint32_t, cuuint32_t, const cuuint32_t*,
                  CUtensorMapInterleave, CUtensorMapIm2ColWideMode mode,
                  CUtensorMapSwizzle, CUtensorMapL2promotion,
                  CUtensorMapFloatOOBfill) {
  map_writer{out->opaque}.add(3, lower, upper, mode);
  return CUDA_SUCCESS;
}
CUresult map_moved(CUtensorMap* map, void* at) {
  map_writer{map->opaque + 15}.add(reinterpret_cast<std::uintptr_t>(at));
  return CUDA_SUCCESS;
}

// -- a kernel that reads a launch's parameters

std::uint64_t base_of_conditions = 0;

CUresult load(CUmodule* out, const void* image, unsigned count,
              CUjit_option* options, void** values) {
  const auto* text = static_cast<const char*>(image);
  auto says = text != nullptr && std::strstr(text, "talkative") != nullptr;
  note_options(count, options, values, says ? "the driver's words" : "");
  if (text == nullptr || (std::strstr(text, "base_of_conditions") == nullptr &&
                          std::strstr(text, "delay") == nullptr))
    return CUDA_ERROR_NOT_SUPPORTED;
  auto has_kernel = std::strstr(text, "with a kernel") != nullptr;
  *out = reinterpret_cast<CUmodule>(std::uintptr_t{has_kernel ? 0xD1u : 0xD0u});
  return CUDA_SUCCESS;
}
/// Lists a kernel only where a text says so.
CUresult count_kernels(unsigned* out, CUmodule in) {
  *out = reinterpret_cast<std::uintptr_t>(in) == 0xD1 ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult no_parameter() {
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult kernels_of(CUfunction* out, unsigned, CUmodule) {
  *out = reinterpret_cast<CUfunction>(std::uintptr_t{0xD8});
  return CUDA_SUCCESS;
}
CUresult kernel_of(CUfunction* out, CUmodule module, const char*) {
  return kernels_of(out, 1, module);
}
CUresult launch(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, unsigned, CUstream in, void** parameters, void**) {
  // The kernel without parameters is the delay.
  if (parameters == nullptr)
    return add_watched(307, in, [] { clock_ns += 1'000'000; });
  auto* to = *static_cast<void**>(parameters[0]);
  return add(in, [to] {
    std::memcpy(to, &base_of_conditions, sizeof base_of_conditions);
  });
}

// -- limits and windows

std::map<CUlimit, std::size_t> limits;
CUaccessPolicyWindow window{};

CUresult get_limit(std::size_t* out, CUlimit which) {
  std::lock_guard guard{lock};
  *out = limits.contains(which) ? limits[which] : 77;
  return CUDA_SUCCESS;
}
/// Refuses another heap of more than a GiB, as if one was in use.
CUresult set_limit(CUlimit which, std::size_t value) {
  std::lock_guard guard{lock};
  if (which == CU_LIMIT_MALLOC_HEAP_SIZE && value > std::size_t{1} << 30)
    return CUDA_ERROR_INVALID_VALUE;
  limits[which] = value;
  return CUDA_SUCCESS;
}
CUresult stream_attribute(CUstream, CUstreamAttrID which,
                          const CUstreamAttrValue* value) {
  std::lock_guard guard{lock};
  if (which == CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW)
    window = value->accessPolicyWindow;
  return CUDA_SUCCESS;
}

/// Stands for all functions that need no answer.
/// Counts the attributes of the latest launch, and refuses more than one.
unsigned launched_with = 0;
CUresult launch_ex(const CUlaunchConfig* config, CUfunction, void**, void**) {
  launched_with = config->numAttrs;
  if (config->numAttrs <= 1)
    return add_watched(652, config->hStream, [] {});
  if (const auto* by = profiler.load(); by != nullptr)
    by->left(652, by->entered(652), CUDA_ERROR_INVALID_VALUE);
  return CUDA_ERROR_INVALID_VALUE;
}

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
      {"cuMemSetAccess", as(&set_access)},
      {"cuMemExportToShareableHandle", as(&export_memory)},
      {"cuMemImportFromShareableHandle", as(&import_memory)},
      {"cuDeviceCanAccessPeer", as(&can_access)},
      {"cuMemUnmap", as(&unmap)},
      {"cuStreamCreateWithPriority", as(&stream_create)},
      {"cuStreamQuery", as(&stream_query)},
      {"cuCtxGetLimit", as(&get_limit)},
      {"cuCtxSetLimit", as(&set_limit)},
      {"cuStreamSetAttribute", as(&stream_attribute)},
      {"cuStreamWriteValue32", as(&write_value)},
      {"cuStreamWaitValue32", as(&wait_value)},
      {"cuStreamWaitValue64", as(&wait_value_64)},
      {"cuEventCreate", as(&event_create)},
      {"cuEventRecord", as(&event_record)},
      {"cuEventQuery", as(&event_query)},
      {"cuEventElapsedTime", as(&elapsed)},
      {"cuStreamWaitEvent", as(&wait_event)},
      {"cuIpcGetEventHandle", as(&event_name)},
      {"cuIpcOpenEventHandle", as(&event_by_name)},
      {"cuMemcpyAsync", as(&copy)},
      {"cuMemcpyHtoDAsync", as(&copy_in)},
      {"cuMemcpy3DAsync", as(&copy_3d)},
      {"cuArray3DCreate", as(&array_create)},
      {"cuArrayDestroy", as(&array_destroy)},
      {"cuMipmappedArrayCreate", as(&mipmap_create)},
      {"cuMipmappedArrayDestroy", as(&mipmap_destroy)},
      {"cuMipmappedArrayGetLevel", as(&mipmap_level)},
      {"cuTexObjectCreate", as(&texture_create)},
      {"cuTexObjectDestroy", as(&object_destroy)},
      {"cuSurfObjectCreate", as(&surface_create)},
      {"cuSurfObjectDestroy", as(&object_destroy)},
      {"cuLinkAddData", as(&link_add)},
      {"cuTensorMapEncodeTiled", as(&map_tiled)},
      {"cuTensorMapEncodeIm2col", as(&map_im2col)},
      {"cuTensorMapEncodeIm2colWide", as(&map_wide)},
      {"cuTensorMapReplaceAddress", as(&map_moved)},
      {"cuCheckpointProcessGetState", as(&process_state)},
      {"cuCheckpointProcessLock", as(&process_lock)},
      {"cuCheckpointProcessCheckpoint", as(&process_checkpoint)},
      {"cuCheckpointProcessRestore", as(&process_restore)},
      {"cuCheckpointProcessUnlock", as(&process_unlock)},
      {"cuModuleLoadDataEx", as(&load)},
      {"cuModuleEnumerateFunctions", as(&kernels_of)},
      {"cuModuleGetFunction", as(&kernel_of)},
      {"cuModuleGetFunctionCount", as(&count_kernels)},
      {"cuFuncGetParamInfo", as(&no_parameter)},
      {"cuLaunchKernel", as(&launch)},
      {"cuLaunchKernelEx", as(&launch_ex)},
      {"cuLinkCreate", as(&link_create)},
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

/// Sets the address of the graph's values that launches get.
void fake_base_of_conditions(std::uint64_t x) {
  base_of_conditions = x;
}

/// Resets everything except streams and events.
void fake_reset() {
  std::lock_guard guard{lock};
  base_of_conditions = 0;
  sticky = CUDA_SUCCESS;
  copies_take = 0;
  starts_take = 0;
  profiler = nullptr;
  free_memory = std::uint64_t{1} << 40;
  created = 0;
  allocations.clear();
  imports.clear();
  mappings.clear();
  limits.clear();
  objects.clear();
  first_object = 1;
  legacy.held = false;
  legacy.work.clear();
}
/// Returns a limit, or 0 where none was set.
std::uint64_t fake_limit(int which) {
  std::lock_guard guard{lock};
  auto found = limits.find(static_cast<CUlimit>(which));
  return found == limits.end() ? 0 : found->second;
}
/// Returns the bytes of the latest window.
std::uint64_t fake_window(void** base, float* ratio) {
  std::lock_guard guard{lock};
  *base = window.base_ptr;
  *ratio = window.hitRatio;
  return window.num_bytes;
}
/// Lets time pass by the GPU's clock while nothing runs.
void fake_pass(std::uint64_t ns) {
  std::lock_guard guard{lock};
  clock_ns += ns;
}
/// Sets how long each copy takes from now on.
void fake_copies_take(std::uint64_t ns) {
  std::lock_guard guard{lock};
  copies_take = ns;
}
/// Sets how long it takes from now on until a copy or a kernel starts.
void fake_starts_take(std::uint64_t ns) {
  std::lock_guard guard{lock};
  starts_take = ns;
}
/// Tells this profiler of calls and their work from now on.
void fake_profile(const void* hooks) {
  profiler = static_cast<const fake_profiler_hooks*>(hooks);
}
/// Returns the time by the GPU's clock.
std::uint64_t fake_now() {
  std::lock_guard guard{lock};
  return clock_ns;
}
/// Returns the number of events that were made. Pools reuse theirs.
std::uint64_t fake_events() {
  std::lock_guard guard{lock};
  return events.size();
}
/// Sets the first value of later objects.
void fake_first_object(unsigned long long x) {
  std::lock_guard guard{lock};
  first_object = x;
}
std::uint64_t fake_objects() {
  std::lock_guard guard{lock};
  return objects.size();
}
std::uint64_t fake_arrays() {
  std::lock_guard guard{lock};
  return arrays.size();
}
/// Stops the legacy stream, or runs its work again.
void fake_hold(int hold) {
  std::lock_guard guard{lock};
  legacy.held = hold != 0;
  run(legacy);
}
/// Makes all later calls fail, as after a kernel's fault.
void fake_fail(int code) {
  std::lock_guard guard{lock};
  sticky = static_cast<CUresult>(code);
}
void fake_memory(std::uint64_t bytes) {
  std::lock_guard guard{lock};
  free_memory = bytes;
}
/// Returns how many parts were to be linked, and their bytes.
std::uint64_t fake_linked(std::uint64_t* bytes) {
  std::lock_guard guard{lock};
  *bytes = 0;
  for (auto x : linked)
    *bytes += x;
  return linked.size();
}
/// Returns the value of an option of the latest compilation, or 0.
std::uint64_t fake_compiled_with(int option) {
  std::lock_guard guard{lock};
  return compiled_with[option];
}
unsigned fake_launched_with() {
  return launched_with;
}
std::uint64_t fake_linked_texts() {
  std::lock_guard guard{lock};
  return linked_texts;
}
/// Returns whether the device may use the memory at the address.
int fake_access(CUdeviceptr at, int device) {
  std::lock_guard guard{lock};
  return accesses[at].contains(device);
}
/// Sets the state of a process, and which step of its checkpoint fails.
void fake_process(int pid, int state, const char* failing) {
  std::lock_guard guard{lock};
  processes[pid] = static_cast<CUprocessState>(state);
  failing_step = failing;
}
int fake_process_state(int pid) {
  std::lock_guard guard{lock};
  return processes[pid];
}
std::uint64_t fake_created() {
  std::lock_guard guard{lock};
  return created;
}
}
