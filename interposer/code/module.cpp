#include "interposer/code/module.hpp"

#include "interposer/code/code_part.hpp"
#include "interposer/code/module_facts.hpp"
#include "interposer/context/context_part.hpp"
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

/// Returns the fault of a refused call about code. The answer says how long the
/// device's own message is.
fault refused(CUresult why, std::span<const std::byte> words) {
  return cuda_fault(
      why, words.empty()
               ? "the worker refused the image"
               : std::string{reinterpret_cast<const char*>(words.data()),
                             words.size()});
}

/// Asks the worker for a module's facts, with a larger buffer each time until
/// they fit. `held` is locked from the request on. Before that, functions are
/// awaited that may allocate.
result<std::vector<std::byte>>
fetch_facts(module_id wire, const call::digest& image, std::uint8_t device,
            std::span<const std::byte> how, held_promises& held) {
  auto& s = here();
  std::uint64_t room = std::uint64_t{1} << 20;
  for (bool loaded = false;; loaded = true) {
    auto range = s.arena().take(room);
    call::arena_range to{range.offset(), room};
    auto asked =
        loaded ? s.begin(call::module_facts{{wire}, to}, device)
               : host_calls().append_alone([&] {
                   held = s.space(device).hold_promises();
                   return s.begin(call::module_load{{wire}, image, to, how},
                                  device);
                 });
    auto got = s.finish(asked);
    if (got.result != CUDA_SUCCESS)
      return refused(got.result,
                     range.bytes().first(std::min(got.value, room)));
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

/// Loads a module in the worker, and counts its variables. Returns the
/// compiler's information. Nothing is promised meanwhile, because the worker
/// may need all that is left.
result<std::string> load_in_worker(module& x, const call::digest& image,
                                   std::span<const std::byte> how) {
  auto device = x.owner.device_index();
  held_promises held;
  auto facts = fetch_facts(x.wire, image, device, how, held);
  if (!facts)
    return facts.why();
  auto said = read_module_facts(*facts, x);
  if (said)
    count_variables(x, here().space(device));
  return said;
}

/// Gives the program handles of the functions, and the variables' addresses.
void show(module& x) {
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
}

void publish(module& x) {
  show(x);
  publish_managed(x);
}

/// Takes back what show() gives.
void hide(module& x) {
  for (auto& f : x.functions)
    functions().remove(f->handle);
  for (auto& [name, g] : x.globals)
    (void)here().space(x.owner.device_index()).take(g.address);
}

/// Unloads a module that is hidden.
void unload_hidden(module& x) {
  for (auto& [name, g] : x.globals) {
    if (g.managed)
      managed().remove(g.address);
  }
  host_calls().append_alone([&] {
    return here().send(call::module_unload{{x.wire}}, x.owner.device_index());
  });
  // The log tells the worker of the end before anything gets the room. The
  // heap outlives its module.
  auto& space = here().space(x.owner.device_index());
  for (auto& [name, g] : x.globals)
    if (name != device_heap_name)
      space.remove_variables(g.bytes);
}

void retire(module& x) {
  hide(x);
  unload_hidden(x);
}

/// Tells whether the module's managed variables stay when its context ends.
/// They belong to the library, and the program may use them at any time.
bool outlives_context(const module& x) {
  return x.of != nullptr && x.owner.primary &&
         std::any_of(x.globals.begin(), x.globals.end(),
                     [](const auto& each) { return each.second.managed; });
}

std::atomic<unsigned>& modules_left(const module& on_device_of) {
  return context_part::get().modules_left.at(on_device_of.owner.device_index());
}

/// Keeps a module whose context has ended, for the next context of its device.
void park(std::unique_ptr<module> x) {
  hide(*x);
  // The program's next look at the variables waits for no work.
  (void)here().synchronise(x->owner.device_index());
  modules_left(*x).fetch_add(1);
  auto& of = *x->of;
  std::lock_guard guard{of.mutex};
  of.parked[x->owner.device] = std::move(x);
}

/// Brings a parked module back in place of one that was just loaded. Everything
/// but its managed variables is as in the new one.
module* renew(module& fresh, std::unique_ptr<module> parked) {
  auto& s = here();
  auto device = fresh.owner.device_index();
  modules_left(*parked).fetch_sub(1);
  for (const auto& [name, from] : fresh.globals) {
    auto to = parked->globals.find(name);
    if (from.managed || from.bytes == 0 || to == parked->globals.end() ||
        to->second.address == from.address)
      continue;
    s.send(call::copy{{legacy_stream},
                      {to->second.address, 0, 0},
                      {from.address, 0, 0},
                      {from.bytes, 1, 1}},
           device);
  }
  for (const auto& [name, from] : fresh.by_name) {
    auto to = parked->by_name.find(name);
    if (to == parked->by_name.end())
      continue;
    for (std::size_t key = 0; key < function::attribute_limit; ++key) {
      auto value = from->attributes[key].load();
      if (to->second->attributes[key].exchange(value) != value)
        s.send(call::kernel_attribute{{parked->wire},
                                      to->second->index,
                                      static_cast<std::uint32_t>(key),
                                      static_cast<std::uint32_t>(value)},
               device);
    }
  }
  // The next synchronisation returns an error of the copies.
  (void)s.synchronise(device);
  if (auto gone = modules().remove(fresh.handle); gone)
    retire(*gone);
  show(*parked);
  auto* x = parked.get();
  x->handle = to_handle<CUmodule>(modules().add(std::move(parked)));
  return x;
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
  auto loaded = load_module(in, of.image, &of, of.settings);
  if (!loaded)
    return loaded;
  auto* x = *loaded;
  if (in.primary)
    if (auto parked = of.parked.extract(in.device); parked)
      x = renew(*x, std::move(parked.mapped()));
  of.instances.emplace(&in, x);
  return x;
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
                            library* of, const jit_settings& how,
                            std::string* log) {
  auto made = std::make_unique<module>(in);
  made->wire = next_module();
  made->of = of;
  std::vector<std::byte> copy;
  if (managed_memory::exists() && locate(address_of(image)).in) [[unlikely]] {
    copy.assign(image.begin(), image.end());
    image = copy;
  }
  auto digest = here().publish_image(image);
  auto said = load_in_worker(*made, digest, encode(how));
  if (!said)
    return said.why();
  if (log != nullptr)
    *log = std::move(*said);
  publish(*made);
  auto* x = made.get();
  x->handle = to_handle<CUmodule>(modules().add(std::move(made)));
  return x;
}

result<std::string> check_part(context& in, std::span<const std::byte> image,
                               const jit_settings& how) {
  auto& s = here();
  auto digest = s.publish_image(image);
  auto options = encode(how);
  constexpr std::uint64_t room = std::uint64_t{64} << 10;
  auto range = s.arena().take(room);
  auto asked = host_calls().append_alone([&] {
    return s.begin(call::part_check{digest, {range.offset(), room}, options},
                   in.device_index());
  });
  auto got = s.finish(asked);
  auto words = range.bytes().first(std::min(got.value, room));
  if (got.result != CUDA_SUCCESS)
    return refused(got.result, words);
  return std::string{reinterpret_cast<const char*>(words.data()), words.size()};
}

result<jit_settings> settings_of(const image_view& image,
                                 const jit_settings& of_call) {
  auto out = decode_jit_settings(image.settings);
  if (!out)
    return cuda_fault(CUDA_ERROR_INVALID_IMAGE, out.why().what);
  for (auto [key, value] : of_call.options)
    out->options.insert_or_assign(key, value);
  out->symbols.insert(out->symbols.end(), of_call.symbols.begin(),
                      of_call.symbols.end());
  return out;
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
  for (auto& [device, x] : gone->parked) {
    modules_left(*x).fetch_sub(1);
    unload_hidden(*x);
  }
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
    if (outlives_context(*x))
      park(std::move(x));
    else
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
