#include "interposer/api/entry.hpp"

#include "interposer/exports/export_tables.hpp"

#include "interposer/api/driver_state.hpp"
#include "interposer/code/module.hpp"
#include "interposer/cupti/cupti_bridge.hpp"
#include "interposer/exports/integrity.hpp"
#include "interposer/nvml/nvml_bridge.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/stream_event.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include <pthread.h>
#include <unistd.h>

namespace vgpu::interposer {

namespace {

/// Fills a slot that the table must have but whose meaning is unknown.
template <int Table, int Slot>
CUresult unknown_slot() {
  if (logs(log_level::warn))
    log_line(log_level::warn, "export table " + std::to_string(Table) +
                                  ", slot " + std::to_string(Slot) +
                                  " was called; it does nothing");
  return CUDA_ERROR_NOT_SUPPORTED;
}

/// Holds its size in bytes in slot 0, and a function in every other slot.
template <int Table, std::size_t Slots>
struct table {
  std::array<const void*, Slots> slots;

  table() : table(std::make_index_sequence<Slots>{}) {
    slots[0] = reinterpret_cast<const void*>(Slots * sizeof(void*));
  }
  template <class F>
  table& set(std::size_t slot, F* function) {
    slots[slot] = reinterpret_cast<const void*>(function);
    return *this;
  }

private:
  template <std::size_t... I>
  explicit table(std::index_sequence<I...>)
      : slots{reinterpret_cast<const void*>(
            &unknown_slot<Table, static_cast<int>(I)>)...} {}
};

constexpr int runtime_id = 1, hooks_id = 2, tls_id = 3, checks_id = 4,
              integrity_id = 5, context_id = 6, module_table_id = 7,
              logger_id = 8, groups_id = 9;

// -- CUDART_INTERFACE
// --------------------------------------------------------------

CUresult primary_handle(CUcontext* out, CUdevice device) {
  return guarded([&] {
    if (out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || static_cast<std::size_t>(device) >=
                          process::the_session().devices().size())
      return CUDA_ERROR_INVALID_DEVICE;
    *out = contexts().primary(device).handle;
    return CUDA_SUCCESS;
  });
}

CUresult load_wrapper(CUmodule* out, const void* wrapper) {
  return cuModuleLoadData(out, wrapper);
}
CUresult load_wrapper_more(CUmodule* out, const void* wrapper, void*, void*,
                           unsigned) {
  return cuModuleLoadData(out, wrapper);
}
CUresult load_container(const void* container, CUmodule* out, void*, void*,
                        unsigned) {
  return cuModuleLoadData(out, container);
}
void forget_module(std::size_t) {}
CUresult load_compilers() {
  return CUDA_SUCCESS;
}

auto& runtime_table() {
  static auto& t = *new table<runtime_id, 13>;
  return t;
}

// -- TOOLS_RUNTIME_CALLBACK_HOOKS
// ----------------------------------------------------

// Each API function has one word, which is not 0 where a tool has subscribed to
// it.
std::array<std::uint32_t, 1024> subscribed{};
std::array<std::uint32_t, 64> subscribed_domains{};

void hook_words(void** words, std::size_t* count) {
  *words = subscribed.data();
  *count = subscribed.size();
}
void hook_domains(void** words, std::size_t* count) {
  *words = subscribed_domains.data();
  *count = subscribed_domains.size();
}
CUresult emit() {
  return CUDA_SUCCESS;
}

// -- the thread's and the context's state
// ----------------------------------------------

CUresult thread_context(CUcontext* out) {
  return cuCtxGetCurrent(out);
}

CUresult unwrap_context(CUcontext x, std::uint32_t* replaced,
                        CUcontext* replacement) {
  auto* known = contexts().find(x);
  auto green = known != nullptr && known->is_green();
  if (replaced != nullptr)
    *replaced = green ? 1 : 0;
  if (green && replacement != nullptr)
    *replacement = known->root.handle;
  return CUDA_SUCCESS;
}
std::uint32_t no_special_mode() {
  return 0;
}

context* chosen_context(CUcontext handle) noexcept {
  return handle == nullptr ? current_context() : contexts().find(handle);
}

CUresult storage_put(CUcontext handle, void* key, void* value,
                     context_storage::destructor at_end) {
  return guarded([&] {
    auto* x = chosen_context(handle);
    if (x == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    return x->storage.put(key, value, at_end) ? CUDA_SUCCESS
                                              : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult storage_delete(CUcontext handle, void* key) {
  return guarded([&] {
    auto* x = chosen_context(handle);
    if (x == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    return x->storage.remove(key) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult storage_get(void** value, CUcontext handle, void* key) {
  return guarded([&] {
    auto* x = chosen_context(handle);
    if (x == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    if (value == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return x->storage.get(key, *value) ? CUDA_SUCCESS
                                       : CUDA_ERROR_INVALID_HANDLE;
  });
}

std::array<const void*, 4> storage_table = {
    reinterpret_cast<const void*>(&storage_put),
    reinterpret_cast<const void*>(&storage_delete),
    reinterpret_cast<const void*>(&storage_get), nullptr};

// -- INTEGRITY_CHECK
// -----------------------------------------------------------------

CUresult prove_integrity(std::uint32_t version, std::uint64_t unix_seconds,
                         std::uint8_t* out);

auto& integrity_table() {
  static auto& t = []() -> auto& {
    auto& made = *new table<integrity_id, 3>;
    made.set(1, &prove_integrity);
    return made;
  }
  ();
  return t;
}

std::vector<integrity_device> reported_devices() {
  std::vector<integrity_device> out;
  for (const auto& d : process::the_session().devices()) {
    integrity_device x;
    x.uuid = d.uuid;
    x.pci_domain = d.value_of(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
    x.pci_bus = d.value_of(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    x.pci_device = d.value_of(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
    out.push_back(x);
  }
  return out;
}

CUresult prove_integrity(std::uint32_t version, std::uint64_t unix_seconds,
                         std::uint8_t* out) {
  return guarded([&] {
    if (out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto address = [](const auto& t) {
      return reinterpret_cast<std::uintptr_t>(t.slots.data());
    };
    integrity_subject subject{
        .driver_version = process::driver_version,
        .process = static_cast<std::uint32_t>(::getpid()),
        .thread = static_cast<std::uint32_t>(::pthread_self()),
        .runtime_table = address(runtime_table()),
        .integrity_table = address(integrity_table()),
        .check_function =
            reinterpret_cast<std::uintptr_t>(integrity_table().slots[1]),
        .devices = reported_devices()};
    auto answer = integrity_answer(subject, version, unix_seconds);
    std::memcpy(out, answer.data(), answer.size());
    return CUDA_SUCCESS;
  });
}

// -- tools
// -----------------------------------------------------------------------------

CUresult context_number(CUcontext handle, std::uint64_t* out) {
  unsigned long long id = 0;
  auto code = cuCtxGetId(handle, &id);
  if (code == CUDA_SUCCESS && out != nullptr)
    *out = id;
  return code;
}

/// Returns a stream's object by its handle or by the name of a default stream.
/// With flag 1, the legacy stream's name means the thread's own stream.
CUresult stream_object(CUcontext handle, CUstream name, const void** out,
                       std::uint32_t flags) {
  return guarded([&] {
    auto* x = chosen_context(handle);
    if (x == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    auto* s = find_stream(*x, name, (flags & 1U) != 0);
    if (s == nullptr || out == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    *out = s;
    return CUDA_SUCCESS;
  });
}

/// Gets the number of a stream's object. Each stream needs a different number,
/// because cuBLAS uses it to find the stream's part of its workspace.
CUresult stream_number(CUcontext, const void* object, std::uint64_t* out) {
  if (object == nullptr || out == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<const stream*>(object)->id;
  return CUDA_SUCCESS;
}

unsigned each_function(CUcontext, CUmodule handle,
                       void (*visit)(void* user, CUfunction f), void* user) {
  auto* m = modules().find(handle);
  if (m == nullptr || visit == nullptr)
    return 0;
  for (auto& f : m->functions)
    visit(user, f->handle);
  return static_cast<unsigned>(m->functions.size());
}

void discard_message(const char*, int, const char*, void*) {}

/// Refuses to give a map of the groups of multiprocessors. cuBLASLt calls this
/// without asking whether the table exists, and works without the map.
CUresult group_map(void** map, void** owner) {
  if (map != nullptr)
    *map = nullptr;
  if (owner != nullptr)
    *owner = nullptr;
  return CUDA_ERROR_NOT_SUPPORTED;
}

// -- by UUID
// -----------------------------------------------------------------------------

using uuid_bytes = std::array<std::uint8_t, 16>;

struct offer {
  uuid_bytes id;
  const void* address;
};

const auto& offers() {
  static const auto& all = *new std::array<offer, 10>{{
      {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39,
        0x12, 0xfd, 0x9d, 0xf9},
       runtime_table()
           .set(1, &load_wrapper)
           .set(2, &primary_handle)
           .set(6, &load_wrapper_more)
           .set(7, &forget_module)
           .set(8, &load_container)
           .set(12, &load_compilers)
           .slots.data()},
      {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00,
        0x20, 0x0c, 0x0a, 0x66},
       (new table<hooks_id, 7>)
           ->set(1, &emit)
           .set(2, &hook_words)
           .set(3, &emit)
           .set(4, &emit)
           .set(5, &emit)
           .set(6, &hook_domains)
           .slots.data()},
      {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7,
        0x8a, 0x3a, 0xec, 0xdc},
       (new table<tls_id, 4>)->set(2, &thread_context).slots.data()},
      {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3,
        0x55, 0xd8, 0x95, 0x93},
       storage_table.data()},
      {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5,
        0x00, 0x6d, 0xfa, 0x7e},
       (new table<checks_id, 4>)
           ->set(2, &unwrap_context)
           .set(3, &no_special_mode)
           .slots.data()},
      {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12,
        0x3c, 0x66, 0xe1, 0xf2},
       integrity_table().slots.data()},
      {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff,
        0x73, 0x24, 0xc8, 0xf2},
       (new table<context_id, 95>)
           ->set(4, &context_number)
           .set(39, &stream_number)
           .set(51, &stream_object)
           .slots.data()},
      {{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82,
        0xaf, 0xf1, 0x99, 0x1e},
       (new table<module_table_id, 16>)->set(7, &each_function).slots.data()},
      {{0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46,
        0x9e, 0x7c, 0x0d, 0xd9},
       (new table<logger_id, 3>)->set(1, &discard_message).slots.data()},
      {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1,
        0xe7, 0xdd, 0x8b, 0xca},
       (new table<groups_id, 17>)->set(4, &group_map).slots.data()},
  }};
  return all;
}

} // namespace

void say_unknown_table(const CUuuid* id) noexcept {
  std::array<char, 33> text{};
  for (std::size_t i = 0; id != nullptr && i < sizeof(id->bytes); ++i)
    std::snprintf(
        &text[2 * i], 3, "%02x",
        static_cast<unsigned>(static_cast<std::uint8_t>(id->bytes[i])));
  try {
    log_line(log_level::debug,
             std::string{"the program asked for the unknown export table "} +
                 text.data());
  } catch (const std::exception&) {
    // Memory is short, so the message is dropped.
  }
}

const void* export_table(const CUuuid& id) noexcept {
  if (std::memcmp(nvml_bridge_id.data(), id.bytes, nvml_bridge_id.size()) == 0)
    return &nvml_bridge_table();
  if (std::memcmp(cupti_bridge_id.data(), id.bytes, cupti_bridge_id.size()) ==
      0)
    return &cupti_bridge_table();
  for (const auto& x : offers())
    if (std::memcmp(x.id.data(), id.bytes, x.id.size()) == 0)
      return x.address;
  return nullptr;
}

} // namespace vgpu::interposer

CUresult CUDAAPI cuGetExportTable(const void** ppExportTable,
                                  const CUuuid* pExportTableId) {
  if (ppExportTable == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  // Functions of the tables may be called before cuInit.
  if (!vgpu::interposer::make_driver_state())
    return CUDA_ERROR_OUT_OF_MEMORY;
  *ppExportTable = pExportTableId == nullptr
                       ? nullptr
                       : vgpu::interposer::export_table(*pExportTableId);
  if (*ppExportTable != nullptr)
    return CUDA_SUCCESS;
  if (vgpu::interposer::logs(vgpu::interposer::log_level::debug))
    vgpu::interposer::say_unknown_table(pExportTableId);
  return CUDA_ERROR_INVALID_VALUE;
}
