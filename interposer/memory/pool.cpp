#include "interposer/memory/pool.hpp"

#include "interposer/memory/memory.hpp"
#include "interposer/memory/memory_part.hpp"
#include "interposer/memory/sharing.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "schema/base/cuda_fault.hpp"

#include <memory>
#include <mutex>

namespace vgpu::interposer {

handle_table<pool>& pools() noexcept {
  return memory_part::get().pools.all;
}

pool& default_pool(int device) {
  auto& part = memory_part::get().pools;
  auto& place = part.defaults.at(static_cast<std::size_t>(device));
  if (auto* known = place.load(); known != nullptr)
    return *known;
  std::lock_guard guard{part.making};
  if (auto* known = place.load(); known != nullptr)
    return *known;
  auto made = std::make_unique<pool>(device);
  auto* x = made.get();
  x->is_default = true;
  x->handle = pools().add(std::move(made));
  place.store(x);
  return *x;
}

pool& current_pool(int device) {
  auto* chosen = memory_part::get()
                     .pools.currents.at(static_cast<std::size_t>(device))
                     .load();
  return chosen != nullptr ? *chosen : default_pool(device);
}

void set_current_pool(int device, pool& to) {
  memory_part::get()
      .pools.currents.at(static_cast<std::size_t>(device))
      .store(&to);
}

CUresult allocate_from(context& in, pool& from, std::size_t bytes,
                       CUdeviceptr& out) {
  auto code = allocate(in, bytes, memory_kind::pooled, from.handle, out);
  if (code != CUDA_SUCCESS)
    return code;
  auto now = from.used.fetch_add(bytes) + bytes;
  for (auto high = from.used_high.load(); high < now;)
    if (from.used_high.compare_exchange_weak(high, now))
      break;
  return CUDA_SUCCESS;
}

/// Makes a descriptor of the pool. The other end need not be kept, because a
/// pool holds no memory.
CUresult export_pool(const pool& what, int& file) {
  if (what.key == 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto made = make_descriptor(
      {.kind = share_descriptor::of_pool,
       .what = {sharing().own(), what.handle, what.key},
       .device = here().devices()[static_cast<std::size_t>(what.device)].uuid});
  if (!made)
    return cuda_code(made.why());
  file = made->given.release();
  return CUDA_SUCCESS;
}

CUresult import_pool(int file, CUmemoryPool& out) {
  auto says = read_descriptor(file, share_descriptor::of_pool);
  if (!says)
    return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<pool>(device_named(says->device));
  auto& x = *made;
  x.key = says->what.serial;
  x.imported = true;
  x.handle = pools().add(std::move(made));
  out = to_handle<CUmemoryPool>(x.handle);
  return CUDA_SUCCESS;
}

void left_pool(const allocation& what) {
  if (what.pool == 0)
    return;
  if (auto* owner = pools().find(what.pool); owner != nullptr)
    owner->used.fetch_sub(what.bytes);
}

} // namespace vgpu::interposer
