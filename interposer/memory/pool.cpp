#include "interposer/memory/pool.hpp"

#include "interposer/memory/memory.hpp"
#include "interposer/memory/memory_part.hpp"
#include "interposer/memory/sharing.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "schema/base/cuda_fault.hpp"
#include "schema/base/round_up.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace vgpu::interposer {

namespace {

address_space& space_of(const pool& x) {
  return here().space(static_cast<std::uint8_t>(x.device));
}

/// Calls `f` with each pool. No pool ends meanwhile.
template <class F>
void each_pool(const F& f) {
  auto& part = memory_part::get().pools;
  std::shared_lock guard{part.ending};
  part.all.each([&](std::uint64_t, pool& x) { f(x); });
}

} // namespace

// -- what a pool holds
// ------------------------------------------------------------

/// More than any device has; rounding it up does not overflow.
constexpr auto most_room = std::uint64_t{1} << 62;

void pool_book::use(std::uint64_t bytes) noexcept {
  used_ += bytes;
  used_high_ = std::max(used_high_, used_);
  reserved_ = std::max(reserved_, round_up(used_, granule_bytes));
  reserved_high_ = std::max(reserved_high_, reserved_);
}

bool pool_book::has_room(std::uint64_t bytes,
                         std::uint64_t most) const noexcept {
  auto room = round_up(std::min(most, most_room), granule_bytes);
  return used_ <= room && bytes <= room - used_;
}

void pool_book::trim(std::uint64_t keep) noexcept {
  auto most = keep >= reserved_ ? reserved_ : round_up(keep, granule_bytes);
  reserved_ = std::max(most, round_up(used_, granule_bytes));
}

std::uint64_t pool_book::idle() const noexcept {
  return reserved_ - round_up(used_, granule_bytes);
}

pool::~pool() {
  change([](pool_book& x) { x.trim(0); });
}

void pool::set_threshold(std::uint64_t bytes) {
  std::lock_guard guard{mutex_};
  threshold_ = bytes;
  count();
}

std::uint64_t pool::threshold() const {
  std::lock_guard guard{mutex_};
  return threshold_;
}

void pool::trim(std::uint64_t keep) {
  change([&](pool_book& x) { x.trim(keep); });
}

void pool::waited() {
  std::lock_guard guard{mutex_};
  if (!armed_)
    return;
  book_.trim(threshold_);
  count();
}

pool_book pool::book() const {
  std::lock_guard guard{mutex_};
  return book_;
}

void pool::count() {
  auto idle = book_.idle();
  auto before = std::exchange(counted_, idle);
  if (idle > before)
    space_of(*this).take_on(idle - before);
  else if (idle < before)
    space_of(*this).refund(before - idle);
  auto has_more = idle != 0 && book_.reserved() > threshold_;
  if (has_more == std::exchange(armed_, has_more))
    return;
  auto& hook = session_part::get().at_wait;
  if (has_more)
    hook.arm();
  else
    hook.disarm();
}

void release_reserves(std::uint8_t device) {
  each_pool([&](pool& x) {
    if (x.device == device)
      x.trim(0);
  });
}

void trim_pools_after_wait() {
  each_pool([](pool& x) { x.waited(); });
}

// -- pools
// ------------------------------------------------------------------------

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

void destroy_pool(pool& x) {
  if (&current_pool(x.device) == &x)
    set_current_pool(x.device, default_pool(x.device));
  auto& part = memory_part::get().pools;
  std::unique_lock guard{part.ending};
  auto gone = part.all.remove(x.handle);
}

CUresult allocate_from(context& in, pool& from, std::size_t bytes,
                       CUdeviceptr& out) {
  std::unique_lock filling{from.filling, std::defer_lock};
  if (from.max_size != 0) {
    filling.lock();
    if (!from.book().has_room(bytes, from.max_size))
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto code = allocate(in, bytes, memory_kind::pooled, from.handle, out);
  if (code != CUDA_SUCCESS)
    return code;
  from.change([&](pool_book& x) { x.use(bytes); });
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
  std::shared_lock guard{memory_part::get().pools.ending};
  if (auto* owner = pools().find(what.pool); owner != nullptr)
    owner->change([&](pool_book& x) { x.leave(what.bytes); });
}

} // namespace vgpu::interposer
