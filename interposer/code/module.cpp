#include "interposer/code/module.hpp"

#include "interposer/code/code_part.hpp"
#include "interposer/code/module_facts.hpp"
#include "interposer/memory/managed.hpp"
#include "interposer/memory/memory.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/stream/host_call.hpp"
#include "schema/base/cuda_fault.hpp"

#include <algorithm>

namespace vgpu::interposer {

namespace {

device_address address_of(std::span<const std::byte> x) noexcept {
  return reinterpret_cast<std::uintptr_t>(x.data());
}

module_id next_module() noexcept {
  return {code_part::get().last_module.fetch_add(1) + 1};
}

using held_promises = std::unique_lock<std::shared_mutex>;

/// Asks the worker for a module's facts, with a larger buffer each time until
/// they fit. `held` is locked from the request on. Before that, functions are
/// awaited that may allocate.
result<std::vector<std::byte>> fetch_facts(module_id wire,
                                           const call::digest& image,
                                           std::uint8_t device,
                                           held_promises& held) {
  auto& s = here();
  std::uint64_t room = std::uint64_t{1} << 20;
  for (bool loaded = false;; loaded = true) {
    auto range = s.arena().take(room);
    call::arena_range to{range.offset(), room};
    auto asked =
        loaded ? s.begin(call::module_facts{{wire}, to}, device)
               : host_calls().append_alone([&] {
                   held = s.space(device).hold_promises();
                   return s.begin(call::module_load{{wire}, image, to}, device);
                 });
    auto got = s.finish(asked);
    if (got.result != CUDA_SUCCESS) {
      // The answer says how long the device's own message is.
      auto words = range.bytes().first(std::min(got.value, room));
      return cuda_fault(
          got.result,
          words.empty()
              ? "the worker refused the image"
              : std::string{reinterpret_cast<const char*>(words.data()),
                            words.size()});
    }
    if (got.value <= room) {
      auto bytes = range.bytes().first(got.value);
      return std::vector<std::byte>{bytes.begin(), bytes.end()};
    }
    if (loaded || got.value > arena_bytes / 2)
      return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                        "a module's facts do not fit the reply arena");
    room = got.value;
  }
}

/// Adds the module's managed variables. The device's driver chose their
/// addresses. Where this process cannot use an address, the program gets an
/// error when it asks for the variable.
void publish_managed(module& x) {
  std::vector<managed_memory::piece> pieces;
  for (auto& [name, g] : x.globals)
    if (g.managed)
      pieces.push_back({g.address, g.bytes});
  if (pieces.empty())
    return;
  auto reachable = managed().add_variables(pieces, x.owner.device_index());
  if (!reachable)
    log_line(log_level::warn,
             "a module's managed variables lie at addresses that this process "
             "already uses; load the module before other libraries");
  for (auto& [name, g] : x.globals)
    g.reachable = g.managed && reachable;
}

/// Counts a module's variables. Only the worker knew the sizes, and it has
/// checked the quota.
void count_variables(const module& x, address_space& space) {
  for (auto& [name, g] : x.globals)
    if (name == device_heap_name)
      space.set_heap(g.bytes);
    else
      space.add_variables(g.bytes);
}

/// Loads a module in the worker, and counts its variables. Nothing is promised
/// meanwhile, because the worker may need all that is left.
status load_in_worker(module& x, const call::digest& image) {
  auto device = x.owner.device_index();
  held_promises held;
  auto facts = fetch_facts(x.wire, image, device, held);
  if (!facts)
    return facts.why();
  if (auto ok = read_module_facts(*facts, x); !ok)
    return ok;
  count_variables(x, here().space(device));
  return {};
}

void publish(module& x) {
  for (auto& f : x.functions) {
    f->in = &x;
    x.by_name.emplace(f->name, f.get());
    auto reference = std::make_unique<function_reference>();
    reference->to = f.get();
    f->handle = to_handle<CUfunction>(functions().add(std::move(reference)));
  }
  auto& space = here().space(x.owner.device_index());
  for (auto& [name, g] : x.globals) {
    space.adopt({.address = g.address,
                 .bytes = g.bytes,
                 .kind = memory_kind::global,
                 .context = x.owner.id.load(),
                 .managed = g.managed});
  }
  publish_managed(x);
}

void retire(module& x) {
  auto& space = here().space(x.owner.device_index());
  for (auto& f : x.functions)
    functions().remove(f->handle);
  for (auto& [name, g] : x.globals) {
    if (g.managed)
      managed().remove(g.address);
    (void)space.take(g.address);
  }
  host_calls().append_alone([&] {
    return here().send(call::module_unload{{x.wire}}, x.owner.device_index());
  });
  // The log tells the worker of the end before anything gets the room. The
  // heap outlives its module.
  for (auto& [name, g] : x.globals)
    if (name != device_heap_name)
      space.remove_variables(g.bytes);
}

/// Removes a module from its library's lists.
void forget_instance(module& x) {
  if (x.of == nullptr)
    return;
  std::lock_guard guard{x.of->mutex};
  x.of->instances.erase(&x.owner);
  if (x.owner.primary)
    for (auto& k : x.of->kernels)
      k->on_device[x.owner.device_index()].store(nullptr);
}

result<module*> instance_locked(library& of, context& in) {
  if (auto known = of.instances.find(&in); known != of.instances.end())
    return known->second;
  if (of.broken != CUDA_SUCCESS)
    return cuda_fault(of.broken, "the library's image is invalid");
  auto loaded = load_module(in, of.image, &of);
  if (loaded)
    of.instances.emplace(&in, *loaded);
  return loaded;
}

void list_kernels(library& of, const module& from) {
  if (!of.kernels.empty())
    return;
  for (const auto& f : from.functions) {
    auto k = std::make_unique<kernel>();
    k->of = &of;
    k->index = f->index;
    k->name = f->name;
    auto reference = std::make_unique<kernel_reference>();
    reference->to = k.get();
    k->handle = to_handle<CUkernel>(kernels().add(std::move(reference)));
    of.by_name.emplace(k->name, k.get());
    of.kernels.push_back(std::move(k));
  }
}

} // namespace

handle_table<module>& modules() noexcept {
  return code_part::get().modules;
}
handle_table<library>& libraries() noexcept {
  return code_part::get().libraries;
}
handle_table<function_reference>& functions() noexcept {
  return code_part::get().functions;
}
handle_table<kernel_reference>& kernels() noexcept {
  return code_part::get().kernels;
}

result<module*> load_module(context& in, std::span<const std::byte> image,
                            library* of) {
  auto made = std::make_unique<module>(in);
  made->wire = next_module();
  made->of = of;
  std::vector<std::byte> copy;
  if (managed_memory::exists() && locate(address_of(image)).in) [[unlikely]] {
    copy.assign(image.begin(), image.end());
    image = copy;
  }
  auto digest = here().publish_image(image);
  if (auto ok = load_in_worker(*made, digest); !ok)
    return ok.why();
  publish(*made);
  auto* x = made.get();
  x->handle = to_handle<CUmodule>(modules().add(std::move(made)));
  return x;
}

CUresult unload_module(CUmodule handle) {
  session_part::get().before_release.run();
  auto* known = modules().find(handle);
  if (known == nullptr || known->of != nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  if (auto gone = modules().remove(handle); gone)
    retire(*gone);
  return CUDA_SUCCESS;
}

CUresult unload_library(CUlibrary handle) {
  session_part::get().before_release.run();
  auto gone = libraries().remove(handle);
  if (!gone)
    return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard guard{gone->mutex};
  for (auto& [in, instance] : gone->instances)
    if (auto x = modules().remove(instance->handle); x)
      retire(*x);
  for (auto& k : gone->kernels)
    kernels().remove(k->handle);
  return CUDA_SUCCESS;
}

void unload_all(context& of) {
  std::vector<CUmodule> gone;
  modules().each([&](std::uint64_t, module& x) {
    if (&x.owner == &of)
      gone.push_back(x.handle);
  });
  for (auto handle : gone) {
    auto x = modules().remove(handle);
    if (!x)
      continue;
    forget_instance(*x);
    retire(*x);
  }
}

result<module*> instance(library& of, context& in) {
  std::lock_guard guard{of.mutex};
  auto got =
      on_occasion<occasion::first_use>([&] { return instance_locked(of, in); });
  if (got)
    list_kernels(of, **got);
  return got;
}

result<module*> any_instance(library& of) {
  {
    std::lock_guard guard{of.mutex};
    if (!of.instances.empty())
      return of.instances.begin()->second;
  }
  auto* in = current_context();
  if (in == nullptr || !in->active.load())
    in = &contexts().primary(in == nullptr ? 0 : in->device);
  return instance(of, *in);
}

CUresult know_kernels(library& of) {
  {
    std::lock_guard guard{of.mutex};
    if (!of.kernels.empty())
      return CUDA_SUCCESS;
  }
  auto got = any_instance(of);
  return got ? CUDA_SUCCESS : cuda_code(got.why());
}

kernel* find_kernel(CUkernel handle) noexcept {
  auto* reference = kernels().find(handle);
  return reference == nullptr ? nullptr : reference->to;
}

function* find_function(CUfunction handle, context& in, CUresult& why) {
  why = CUDA_ERROR_INVALID_HANDLE;
  if (auto* reference = functions().find(handle); reference != nullptr)
    return reference->to;
  auto* reference = kernels().find(handle);
  if (reference == nullptr)
    return nullptr;
  auto& k = *reference->to;
  auto& cached = k.on_device[in.device_index() % k.on_device.size()];
  if (in.primary)
    if (auto* known = cached.load(std::memory_order_acquire); known != nullptr)
      return known;
  auto got = instance(*k.of, in);
  if (!got) {
    why = cuda_code(got.why());
    return nullptr;
  }
  auto* f = (*got)->functions.at(k.index).get();
  if (in.primary)
    cached.store(f, std::memory_order_release);
  return f;
}

CUresult get_attribute(const function& x, int attribute, int& value) {
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  value = x.attribute(attribute);
  return CUDA_SUCCESS;
}

CUresult set_attribute(function& x, int attribute, int value) {
  const auto& device =
      here().devices().at(static_cast<std::size_t>(x.in->owner.device));
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
    auto most =
        device.value_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    if (value < 0 ||
        value > most - x.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES))
      return CUDA_ERROR_INVALID_VALUE;
    break;
  }
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    if (value < -1 || value > 100)
      return CUDA_ERROR_INVALID_VALUE;
    break;
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    value = value != 0 ? 1 : 0;
    break;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    // Cluster sizes that the compiler set cannot be changed.
    if (value < 0 ||
        x.attribute(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    break;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    if (value < 0)
      return CUDA_ERROR_INVALID_VALUE;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto& kept = x.attributes[static_cast<std::size_t>(attribute)];
  if (kept.exchange(value) != value)
    here().send(call::kernel_attribute{{x.in->wire},
                                       x.index,
                                       static_cast<std::uint32_t>(attribute),
                                       static_cast<std::uint32_t>(value)},
                x.in->owner.device_index());
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer
