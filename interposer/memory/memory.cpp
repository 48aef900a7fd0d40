#include "interposer/memory/memory.hpp"

#include "interposer/memory/late_copies.hpp"
#include "interposer/memory/managed.hpp"
#include "interposer/memory/managed_advice.hpp"
#include "interposer/memory/memory_part.hpp"
#include "interposer/memory/pinned_writes.hpp"
#include "interposer/memory/pool.hpp"
#include "interposer/memory/registered_memory.hpp"
#include "interposer/memory/sharing.hpp"
#include "interposer/memory/synchronous_memory.hpp"
#include "interposer/memory/virtual_memory.hpp"
#include "interposer/memory/zero_copy.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "schema/base/round_up.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>

namespace vgpu::interposer {

namespace {

/// Allocates, and tries again after freed ranges are settled. Where the quota
/// is short, `spare` returns memory that nothing uses.
template <class Spare>
CUresult allocate_in(address_space& space, std::uint8_t device,
                     allocation& what, const Spare& spare) {
  auto refusal = space.allocate(what);
  if (refusal == address_space::refusal::quota) [[unlikely]] {
    spare();
    refusal = space.allocate(what);
  }
  if (refusal == address_space::refusal::addresses ||
      (refusal == address_space::refusal::quota && space.awaits(what))) {
    auto& s = here();
    auto position = s.tail();
    auto code =
        on_occasion<occasion::room>([&] { return s.synchronise(device); });
    if (code != CUDA_SUCCESS)
      return code;
    space.settle(position);
    refusal = space.allocate(what);
  }
  return refusal == address_space::refusal::none ? CUDA_SUCCESS
                                                 : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult allocate_in_host(std::uint8_t device, allocation& what) {
  return allocate_in(here().host_space(), device, what, [] {});
}

/// Allocates from the device, after a recount of the memory that other
/// processes have. Precondition: the thread holds a promise of the space.
CUresult allocate_in_device(context& in, allocation& what) {
  auto device = in.device_index();
  sharing().recount(device, what.bytes);
  return allocate_in(here().space(device), device, what,
                     [&] { make_room(device, what.bytes); });
}

/// Releases device memory. Its range becomes free once all work in the log is
/// done.
void release_device(const allocation& what, std::uint8_t device) {
  auto& s = here();
  synchronous().forget(what.address);
  if (what.managed) {
    managed().remove(what.address);
    given_advice().forget(what.address, what.bytes);
  }
  auto was_lent = sharing().forget(what.address);
  auto call = s.send(call::mem_free{what.address, what.bytes}, device);
  if (was_lent) [[unlikely]]
    sharing().leave(device, round_up(what.bytes, granule_bytes));
  s.space(device).retire(what, call.value);
  // Waits, so that no other process can open the memory once this returns.
  // Pooled memory is freed in stream order, so there the program itself must
  // have stopped the others before.
  if (was_lent && what.kind != memory_kind::pooled) [[unlikely]]
    (void)on_occasion<occasion::sharing>([&] { return s.synchronise(device); });
}

/// Releases pinned memory that no work uses any more.
void release_unused(const allocation& what) {
  auto& s = here();
  synchronous().forget(what.address);
  auto call = s.send(call::host_free{what.address, what.bytes}, what.device);
  if (what.kind == memory_kind::registered)
    (void)s.area().show_own(what.address, what.bytes);
  else
    s.forget_pages(what.address, what.bytes);
  zero_copy().freed(what.address);
  s.host_space().retire(what, call.value);
  s.host_space().settle(call.value);
}

/// Releases pinned memory. Precondition: wait_for_devices() has returned.
void release_pinned(const allocation& what) {
  writes_under_way().wait_for(what.address, what.bytes);
  release_unused(what);
}

bool begins(const address_space& in, device_address at, memory_kind kind) {
  auto known = in.find(at);
  return known && known->address == at && known->kind == kind;
}

CUresult free_host(device_address at, memory_kind kind) {
  auto& space = here().host_space();
  auto what = begins(space, at, kind) ? space.take(at) : std::nullopt;
  if (!what)
    return CUDA_ERROR_INVALID_VALUE;
  wait_for_devices();
  release_pinned(*what);
  return CUDA_SUCCESS;
}

} // namespace

void make_room(std::uint8_t device, std::uint64_t bytes) {
  release_reserves(device);
  virtual_memories().collect();
  sharing().recount(device, bytes);
}

CUresult allocate(context& in, std::uint64_t bytes, memory_kind kind,
                  std::uint64_t pool, CUdeviceptr& out) {
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  allocation what{
      .bytes = bytes, .kind = kind, .context = in.id.load(), .pool = pool};
  auto device = in.device_index();
  auto promise = here().space(device).begin_promise();
  auto code = allocate_in_device(in, what);
  if (code != CUDA_SUCCESS)
    return code;
  here().send(call::mem_alloc{what.address, bytes}, device);
  out = what.address;
  return CUDA_SUCCESS;
}

CUresult allocate_addresses(context& in, std::uint64_t bytes, memory_kind kind,
                            device_address& out) {
  allocation what{.bytes = bytes, .kind = kind, .context = in.id.load()};
  auto code = allocate_in_device(in, what);
  out = what.address;
  return code;
}

CUresult allocate_managed(context& in, std::uint64_t bytes, unsigned flags,
                          CUdeviceptr& out) {
  allocation what{.bytes = bytes,
                  .kind = memory_kind::managed,
                  .context = in.id.load(),
                  .flags = flags,
                  .managed = true};
  auto device = in.device_index();
  {
    auto promise = here().space(device).begin_promise();
    if (auto code = allocate_in_device(in, what); code != CUDA_SUCCESS)
      return code;
    here().send(call::mem_alloc{what.address, bytes}, device);
  }
  if (auto code = managed().add_allocation({what.address, bytes}, device);
      code != CUDA_SUCCESS) {
    (void)free_device(what.address);
    return code;
  }
  out = what.address;
  return CUDA_SUCCESS;
}

bool is_managed(device_address at, std::uint64_t bytes) {
  auto found = locate(at);
  return found.in && found.in->managed && found.in->holds(at, bytes);
}

CUresult free_device(device_address at, bool in_order) {
  auto& s = here();
  session_part::get().before_release.run();
  auto device = s.device_of(at);
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  auto& space = s.space(*device);
  auto known = space.find(at);
  if (!known || known->address != at || known->kind == memory_kind::global ||
      known->kind == memory_kind::array)
    return CUDA_ERROR_INVALID_VALUE;
  if (known->kind == memory_kind::imported)
    return on_occasion<occasion::sharing>(
        [&] { return sharing().close(at, shared_things::by::pool); });
  if (known->kind == memory_kind::graph)
    return memory_part::get().of_graphs.free(at);
  auto what = space.take(at);
  if (!what)
    return CUDA_ERROR_INVALID_VALUE;
  if (in_order)
    left_pool(*what);
  release_device(*what, *device);
  return CUDA_SUCCESS;
}

CUresult allocate_pinned(context& in, std::uint64_t bytes, unsigned flags,
                         void*& out) {
  if (bytes == 0) {
    out = nullptr;
    return CUDA_SUCCESS;
  }
  allocation what{.bytes = bytes,
                  .kind = memory_kind::pinned,
                  .context = in.id.load(),
                  .flags = flags,
                  .device = in.device_index()};
  auto code = allocate_in_host(what.device, what);
  if (code != CUDA_SUCCESS)
    return code;
  begin_pinned(what);
  late_copies().prepare(in);
  out = reinterpret_cast<void*>(what.address); // NOLINT: the fixed window
  return CUDA_SUCCESS;
}

void begin_pinned(const allocation& what) {
  here().send(call::host_alloc{what.address, what.bytes}, what.device);
  zero_copy_memory::allocated();
}

CUresult free_pinned(const void* at) {
  return free_host(reinterpret_cast<std::uintptr_t>(at), memory_kind::pinned);
}

CUresult allocate_placed_host(std::uint8_t device, std::uint64_t bytes,
                              device_address& out) {
  allocation what{
      .bytes = bytes, .kind = memory_kind::mapped, .device = device};
  auto code = allocate_in_host(device, what);
  if (code != CUDA_SUCCESS)
    return code;
  begin_pinned(what);
  out = what.address;
  return CUDA_SUCCESS;
}

CUresult allocate_pooled_host(context& in, std::uint64_t bytes,
                              std::uint64_t pool, CUdeviceptr& out) {
  allocation what{.bytes = bytes,
                  .kind = memory_kind::pooled,
                  .context = in.id.load(),
                  .pool = pool,
                  .device = in.device_index()};
  if (auto code = allocate_in_host(what.device, what); code != CUDA_SUCCESS)
    return code;
  begin_pinned(what);
  late_copies().prepare(in);
  out = what.address;
  return CUDA_SUCCESS;
}

void end_pinned(const allocation& what) {
  release_unused(what);
}

CUresult free_pooled_host(device_address at) {
  return on_occasion<occasion::host_memory>(
      [&] { return free_host(at, memory_kind::pooled); });
}

void free_placed_host(device_address at) {
  if (auto what = here().host_space().take(at); what)
    release_unused(*what);
}

CUresult allocate_host_addresses(context& in, allocation& what) {
  return allocate_in_host(in.device_index(), what);
}

void give_up_host_addresses(const allocation& what) {
  auto& s = here();
  (void)s.area().show_own(what.address, what.bytes);
  if (auto mine = s.host_space().take(what.address); mine)
    s.host_space().retire(*mine, 0);
}

bool is_shown(device_address at) {
  return begins(here().host_space(), at, memory_kind::registered);
}

CUresult free_shown(device_address at) {
  return free_host(at, memory_kind::registered);
}

void wait_for_devices() {
  late_copies().wait_for_none();
  for (std::size_t d = 0; d < here().devices().size(); ++d)
    here().synchronise(static_cast<std::uint8_t>(d));
}

void free_all(context& of) {
  auto& s = here();
  auto id = of.id.load();
  sharing().close_all(id);
  for (auto& x : s.space(of.device_index()).take_all(id)) {
    left_pool(x);
    release_device(x, of.device_index());
  }
  trim_pools_after_wait();
  memory_part::get().of_graphs.discard(id);
  registered().remove_all(id);
  auto pinned = s.host_space().take_all(id);
  if (!pinned.empty())
    wait_for_devices();
  for (auto& x : pinned) {
    left_pool(x);
    release_pinned(x);
  }
}

located locate_planned(device_address at) {
  auto found = locate(at);
  if (found.where == place::device && !found.in)
    found.in = memory_part::get().of_graphs.planned(at);
  return found;
}

located locate(device_address at) {
  auto& s = here();
  if (auto device = s.device_of(at); device) {
    auto known = s.space(*device).find(at);
    if (!known)
      known = virtual_memories().find(at);
    auto where = known && known->host != 0 ? place::pinned : place::device;
    return {where, *device, known};
  }
  if (s.is_pinned(at))
    return {place::pinned, 0, s.host_space().find(at)};
  // A device's driver chose the addresses of modules' variables.
  for (std::size_t d = 0; d < s.devices().size(); ++d) {
    auto device = static_cast<std::uint8_t>(d);
    if (auto known = s.space(device).find_beyond(at); known)
      return {place::device, device, known};
  }
  return {};
}

} // namespace vgpu::interposer
