#include "interposer/memory/pool.hpp"

#include "interposer/memory/memory.hpp"
#include "interposer/memory/memory_part.hpp"
#include "interposer/memory/sharing.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/stream/stream_event.hpp"
#include "schema/base/cuda_fault.hpp"
#include "schema/base/round_up.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace vgpu::interposer {

namespace {

address_space& space_of(const pool& x) {
  return here().space(static_cast<std::uint8_t>(x.device));
}

/// Tells whether no work uses the block. Work on other devices is ordered
/// before the free, and so before the work of the stream's own device.
bool is_unused(const left_block& x) {
  return x.position <= x.done_until->load(std::memory_order_acquire) ||
         x.position <= here().done_until(x.device);
}

void end_all(const std::vector<left_block>& blocks) {
  for (const auto& x : blocks)
    end_pinned(x.what);
}

/// Keeps blocks whose pool has ended. Precondition: `making` is held.
void add_orphans(const std::vector<left_block>& blocks) {
  auto& all = memory_part::get().pools.orphans;
  all.insert(all.end(), blocks.begin(), blocks.end());
  for (std::size_t i = 0; i < blocks.size(); ++i)
    session_part::get().at_wait.arm();
}

/// Frees what ended pools left and no work uses any more.
void end_orphans() {
  std::vector<left_block> done;
  {
    auto& part = memory_part::get().pools;
    std::lock_guard guard{part.making};
    auto used =
        std::partition(part.orphans.begin(), part.orphans.end(),
                       [](const left_block& x) { return !is_unused(x); });
    done.assign(used, part.orphans.end());
    part.orphans.erase(used, part.orphans.end());
  }
  for (std::size_t i = 0; i < done.size(); ++i)
    session_part::get().at_wait.disarm();
  end_all(done);
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
  std::vector<left_block> unused;
  {
    std::lock_guard guard{mutex_};
    book_.trim(keep);
    unused = take_unused();
    count();
  }
  end_all(unused);
}

void pool::waited() {
  std::vector<left_block> unused;
  {
    std::lock_guard guard{mutex_};
    if (!armed_)
      return;
    book_.trim(threshold_);
    unused = take_unused();
    count();
  }
  end_all(unused);
}

void pool::keep(const left_block& x) {
  std::lock_guard guard{mutex_};
  left_bytes_ += x.what.bytes;
  left_.push_back(x);
  count();
}

std::optional<allocation> pool::take(std::uint64_t bytes, stream_id in) {
  std::lock_guard guard{mutex_};
  // The latest one first, as a stack.
  auto found = std::find_if(left_.rbegin(), left_.rend(), [&](auto& x) {
    return x.what.bytes == bytes && (x.in == in || is_unused(x));
  });
  if (found == left_.rend())
    return std::nullopt;
  auto out = found->what;
  left_.erase(std::next(found).base());
  left_bytes_ -= bytes;
  return out;
}

std::vector<left_block> pool::take_all() {
  std::lock_guard guard{mutex_};
  left_bytes_ = 0;
  return std::exchange(left_, {});
}

std::vector<left_block> pool::take_unused() {
  std::vector<left_block> out;
  for (auto i = left_.begin();
       i != left_.end() && left_bytes_ > book_.idle();) {
    if (!is_unused(*i)) {
      ++i;
      continue;
    }
    left_bytes_ -= i->what.bytes;
    out.push_back(*i);
    i = left_.erase(i);
  }
  return out;
}

void pool::allow(int by_device, CUmemAccess_flags flags) {
  std::lock_guard guard{mutex_};
  access_[by_device] = flags;
}

CUmemAccess_flags pool::access(int by_device) const {
  std::lock_guard guard{mutex_};
  auto known = access_.find(by_device);
  return known == access_.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : known->second;
}

pool_book pool::book() const {
  std::lock_guard guard{mutex_};
  return book_;
}

void pool::count() {
  auto idle = book_.idle();
  // Host memory counts against no quota.
  auto counts = on_host() ? 0 : idle;
  auto before = std::exchange(counted_, counts);
  if (counts > before)
    space_of(*this).take_on(counts - before);
  else if (counts < before)
    space_of(*this).refund(before - counts);
  auto has_more =
      (idle != 0 && book_.reserved() > threshold_) || left_bytes_ > idle;
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
    if (x.device == device && !x.on_host())
      x.change([](pool_book& book) { book.trim(0); });
  });
}

void trim_pools_after_wait() {
  each_pool([](pool& x) { x.waited(); });
  end_orphans();
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

// -- pools of places on the host

namespace {

std::pair<int, int> key_of(CUmemLocation x) {
  return {x.type, x.type == CU_MEM_LOCATION_TYPE_HOST ? 0 : x.id};
}

} // namespace

pool& default_pool(CUmemLocation on_host, int by_device) {
  auto& part = memory_part::get().pools;
  std::lock_guard guard{part.making};
  auto& place = part.host_defaults[key_of(on_host)];
  if (place == nullptr) {
    auto made = std::make_unique<pool>(on_host, by_device, 0);
    place = made.get();
    place->is_default = true;
    place->handle = pools().add(std::move(made));
  }
  return *place;
}

pool& current_pool(CUmemLocation on_host, int by_device) {
  auto& part = memory_part::get().pools;
  {
    std::lock_guard guard{part.making};
    auto known = part.host_currents.find(key_of(on_host));
    if (known != part.host_currents.end())
      return *known->second;
  }
  return default_pool(on_host, by_device);
}

void set_current_pool(CUmemLocation on_host, pool& to) {
  auto& part = memory_part::get().pools;
  std::lock_guard guard{part.making};
  part.host_currents[key_of(on_host)] = &to;
}

void destroy_pool(pool& x) {
  auto& part = memory_part::get().pools;
  if (x.on_host()) {
    auto left = x.take_all();
    std::lock_guard guard{part.making};
    std::erase_if(part.host_currents,
                  [&](auto& each) { return each.second == &x; });
    add_orphans(left);
  } else if (&current_pool(x.device) == &x) {
    set_current_pool(x.device, default_pool(x.device));
  }
  std::unique_lock guard{part.ending};
  auto gone = part.all.remove(x.handle);
}

namespace {

/// Takes a block that was freed, or makes one.
CUresult allocate_on_host(stream& in, pool& from, std::uint64_t bytes,
                          CUdeviceptr& out) {
  if (auto again = from.take(bytes, in.wire); again) {
    again->context = in.owner.id.load();
    out = again->address;
    here().host_space().adopt(*again);
    return CUDA_SUCCESS;
  }
  auto code = allocate_pooled_host(in.owner, bytes, from.handle, out);
  if (code != CUDA_ERROR_OUT_OF_MEMORY)
    return code;
  // Freed blocks of other sizes may occupy the room.
  on_occasion<occasion::room>([] {
    wait_for_devices();
    each_pool([](pool& x) {
      if (x.on_host())
        x.trim(0);
    });
    end_orphans();
  });
  return allocate_pooled_host(in.owner, bytes, from.handle, out);
}

} // namespace

CUresult free_in_order(stream& in, CUdeviceptr at) {
  if (!here().is_pinned(at))
    return free_device(at, true);
  auto& space = here().host_space();
  auto known = space.find(at);
  if (!known || known->address != at || known->kind != memory_kind::pooled)
    return CUDA_ERROR_INVALID_VALUE;
  auto what = space.take(at);
  if (!what)
    return CUDA_ERROR_INVALID_VALUE;
  left_pool(*what);
  auto& part = memory_part::get().pools;
  left_block left{*what, in.wire, in.done_until, in.device(), here().tail()};
  std::shared_lock guard{part.ending};
  if (auto* owner = pools().find(what->pool); owner != nullptr) {
    owner->keep(left);
    return CUDA_SUCCESS;
  }
  std::lock_guard making{part.making};
  add_orphans({left});
  return CUDA_SUCCESS;
}

CUresult allocate_from(stream& in, pool& from, std::size_t bytes,
                       CUdeviceptr& out) {
  std::unique_lock filling{from.filling, std::defer_lock};
  if (from.max_size != 0) {
    filling.lock();
    if (!from.book().has_room(bytes, from.max_size))
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto code = from.on_host() ? allocate_on_host(in, from, bytes, out)
                             : allocate(in.owner, bytes, memory_kind::pooled,
                                        from.handle, out);
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
