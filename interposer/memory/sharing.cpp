#include "interposer/memory/sharing.hpp"

#include "interposer/memory/memory_part.hpp"
#include "interposer/memory/pool.hpp"
#include "interposer/memory/synchronous_memory.hpp"
#include "interposer/memory/virtual_memory.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <sys/random.h>

namespace vgpu::interposer {

namespace {

/// Ids of imported memory begin here, which separates them from those of
/// virtual_memory.
constexpr std::uint64_t imported = std::uint64_t{1} << 63;

} // namespace

shared_things& sharing() noexcept {
  return memory_part::get().sharing;
}

std::uint8_t device_named(const std::array<std::uint8_t, 16>& uuid) {
  auto& all = here().devices();
  auto known = std::find_if(all.begin(), all.end(),
                            [&](auto& x) { return x.uuid == uuid; });
  if (known != all.end())
    return static_cast<std::uint8_t>(known - all.begin());
  auto* current = current_context();
  return current == nullptr ? std::uint8_t{0} : current->device_index();
}

/// Returns the secret, and makes it on first use. Precondition: the mutex is
/// held.
const share_secret& shared_things::secret() {
  if (secret_ == share_secret{} &&
      ::getrandom(&secret_, sizeof(secret_), 0) != sizeof(secret_)) {
    secret_ = {};
    throw std::system_error{errno, std::generic_category(),
                            "cannot get random numbers"};
  }
  return secret_;
}

// -- memory
// ------------------------------------------------------------------

namespace {

/// Repeats the call until the device can answer: some devices must be idle
/// while they make memory shareable.
template <class Call>
outcome ask_at_rest(const Call& what, std::uint8_t device) {
  auto& s = here();
  auto got = s.ask(what, device);
  for (; got.result == CUDA_ERROR_NOT_READY; got = s.ask(what, device))
    for (std::size_t d = 0; d < s.devices().size(); ++d)
      if (auto code = s.synchronise(static_cast<std::uint8_t>(d));
          code != CUDA_SUCCESS)
        return {.result = code};
  return got;
}

} // namespace

/// Lends an allocation. Precondition: the mutex is held.
CUresult shared_things::lend(const allocation& what, std::uint8_t device,
                             share_handle& out) {
  if (auto before = lent_.find(what.address);
      before != lent_.end() && before->second.what.serial == what.serial) {
    out = before->second;
    return CUDA_SUCCESS;
  }
  share_name name{secret(), what.address, what.serial};
  auto got = ask_at_rest(
      call::memory_share{what.address, what.bytes, name.session, name.serial},
      device);
  if (got.result != CUDA_SUCCESS)
    return got.result;
  here().begin_sharing();
  out = {.what = name, .bytes = what.bytes, .layout = got.value};
  lent_.insert_or_assign(what.address, out);
  lends_.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

template <class Handle>
CUresult shared_things::hand_out(const allocation& what, std::uint8_t device,
                                 std::uint64_t kind, std::uint64_t pool,
                                 Handle& out) {
  std::lock_guard guard{mutex_};
  share_handle made;
  if (auto code = lend(what, device, made); code != CUDA_SUCCESS)
    return code;
  made.kind = kind;
  made.write(out, pool);
  return CUDA_SUCCESS;
}

CUresult shared_things::handle_of(device_address at, CUipcMemHandle& out) {
  auto device = here().device_of(at);
  auto known = device ? here().space(*device).find(at) : std::nullopt;
  if (!known || known->kind != memory_kind::device)
    return CUDA_ERROR_INVALID_VALUE;
  return hand_out(*known, *device, share_handle::of_memory, 0, out);
}

CUresult shared_things::handle_of(device_address at,
                                  CUmemPoolPtrExportData& out) {
  auto device = here().device_of(at);
  auto known = device ? here().space(*device).find(at) : std::nullopt;
  auto* from = known && known->kind == memory_kind::pooled
                   ? pools().find(known->pool)
                   : nullptr;
  if (from == nullptr || from->key == 0)
    return CUDA_ERROR_INVALID_VALUE;
  return hand_out(*known, *device, share_handle::of_pooled, from->key, out);
}

bool shared_things::forget(device_address at) noexcept {
  if (!lends_.load(std::memory_order_acquire)) [[likely]]
    return false;
  std::lock_guard guard{mutex_};
  return lent_.erase(at) != 0;
}

void shared_things::leave(std::uint8_t device, std::uint64_t bytes) {
  std::lock_guard guard{counts_mutex_};
  counts_[device].counted += bytes;
  here().space(device).take_on(bytes);
  has_counts_.store(true, std::memory_order_release);
}

void shared_things::take(std::uint8_t device, std::uint64_t bytes) {
  std::lock_guard guard{counts_mutex_};
  counts_[device].opened += bytes;
  has_counts_.store(true, std::memory_order_release);
}

void shared_things::give_back(std::uint8_t device, std::uint64_t bytes) {
  std::lock_guard guard{counts_mutex_};
  counts_[device].opened -= bytes;
}

void shared_things::recount(std::uint8_t device, std::uint64_t bytes) {
  if (!has_counts_.load(std::memory_order_acquire)) [[likely]]
    return;
  std::lock_guard guard{counts_mutex_};
  auto& x = counts_[device];
  auto& space = here().space(device);
  auto most = space.used() + x.opened;
  auto has_room = most <= space.quota() && bytes <= space.quota() - most;
  if ((x.counted == 0 && x.opened == 0) || has_room)
    return;
  // The lock is held, so the answer cannot include memory that is freed
  // meanwhile.
  auto now = on_occasion<occasion::sharing>(
      [&] { return here().ask(call::shared_bytes{}, device); });
  if (now.result != CUDA_SUCCESS)
    return;
  space.take_on(now.value);
  space.refund(std::exchange(x.counted, now.value));
}

shared_things::opened_map::iterator shared_things::find(const share_name& what,
                                                        std::uint8_t device) {
  return std::find_if(opened_.begin(), opened_.end(), [&](const auto& x) {
    return x.second.what == what && x.second.device == device;
  });
}

CUresult shared_things::open(context& in, const CUipcMemHandle& handle,
                             CUdeviceptr& out) {
  auto read = share_handle::read(handle, share_handle::of_memory);
  return read ? open(*read, in.device_index(), in.id.load(), 0, out)
              : CUDA_ERROR_INVALID_VALUE;
}

CUresult shared_things::open(const pool& from, std::uint64_t context,
                             const CUmemPoolPtrExportData& data,
                             CUdeviceptr& out) {
  auto read = share_handle::read(data, share_handle::of_pooled, from.key);
  return read ? open(*read, static_cast<std::uint8_t>(from.device), context,
                     from.handle, out)
              : CUDA_ERROR_INVALID_VALUE;
}

CUresult shared_things::open(const share_handle& read, std::uint8_t device,
                             std::uint64_t context, std::uint64_t pool,
                             CUdeviceptr& out) {
  auto offset = read.offset();
  if (!offset)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard{mutex_};
  if (read.what.session == secret_)
    return pool == 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
  if (auto known = find(read.what, device); known != opened_.end()) {
    ++known->second.times;
    out = known->first;
    return CUDA_SUCCESS;
  }
  auto& s = here();
  auto layout = share_layout::unpack(read.layout);
  opened fresh{.what = read.what,
               .device = device,
               .context = context,
               .pool = pool,
               .memory = {imported | ++last_memory_},
               .bytes = layout.granules * granule_bytes};
  CUdeviceptr granules = 0;
  if (auto code = virtual_memories().reserve(device, fresh.bytes, 0, granules);
      code != CUDA_SUCCESS)
    return code;
  fresh.at = granules;
  take(device, fresh.bytes);
  auto got = s.ask(
      call::memory_import{
          {fresh.memory}, fresh.at, fresh.bytes, fresh.what, layout.host},
      device);
  if (got.result != CUDA_SUCCESS) {
    give_back(device, fresh.bytes);
    (void)virtual_memories().free(fresh.at, fresh.bytes);
    return got.result;
  }
  s.begin_sharing();
  out = fresh.at + *offset;
  s.space(device).adopt({.address = out,
                         .bytes = read.bytes,
                         .kind = memory_kind::imported,
                         .context = context,
                         .pool = pool});
  opened_.emplace(out, fresh);
  return CUDA_SUCCESS;
}

CUresult shared_things::close(device_address at, by how) {
  std::lock_guard guard{mutex_};
  auto known = opened_.find(at);
  if (known == opened_.end() ||
      (known->second.pool == 0) != (how == by::handle))
    return CUDA_ERROR_INVALID_VALUE;
  if (--known->second.times == 0)
    unmap(known);
  return CUDA_SUCCESS;
}

void shared_things::close_all(std::uint64_t context) {
  std::lock_guard guard{mutex_};
  for (auto i = opened_.begin(); i != opened_.end();) {
    auto next = std::next(i);
    if (i->second.context == context)
      unmap(i);
    i = next;
  }
}

/// Closes opened memory. Precondition: the mutex is held.
void shared_things::unmap(opened_map::iterator which) {
  auto& [at, x] = *which;
  auto& s = here();
  synchronous().forget(at);
  // The next synchronisation returns the error of the work.
  (void)s.synchronise(x.device);
  (void)s.space(x.device).take(at);
  s.send(call::memory_unmap{x.at, x.bytes}, x.device);
  s.send(call::memory_destroy{{x.memory}}, x.device);
  give_back(x.device, x.bytes);
  (void)virtual_memories().free(x.at, x.bytes);
  opened_.erase(which);
}

CUresult shared_things::lend(memory_id what, std::uint8_t device,
                             share_name& name, std::uint64_t& layout) {
  {
    std::lock_guard guard{mutex_};
    name = {secret(), what.value, name.serial};
  }
  auto got = ask_at_rest(call::placed_share{{what}, name.session, name.serial},
                         device);
  if (got.result != CUDA_SUCCESS)
    return got.result;
  here().begin_sharing();
  layout = got.value;
  return CUDA_SUCCESS;
}

CUresult shared_things::borrow(const share_descriptor& from, memory_id as,
                               std::uint8_t device) {
  auto layout = share_layout::unpack(from.layout);
  auto bytes = layout.granules * granule_bytes;
  take(device, bytes);
  auto got = here().ask(
      call::placed_import{{as}, bytes, from.what, layout.host}, device);
  if (got.result == CUDA_SUCCESS)
    here().begin_sharing();
  else
    give_back(device, bytes);
  return got.result;
}

share_secret shared_things::own() {
  std::lock_guard guard{mutex_};
  return secret();
}

// -- events
// ------------------------------------------------------------------

CUresult shared_things::handle_of(event& x, CUipcEventHandle& out) {
  if ((x.flags & CU_EVENT_INTERPROCESS) == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard guard{mutex_};
  // Numbers of events are never reused.
  constexpr std::uint64_t serial = 1;
  share_name name{secret(), x.wire.value, serial};
  auto got =
      here().ask(call::event_share{{x.wire}, name.session, serial}, x.device());
  if (got.result != CUDA_SUCCESS)
    return got.result;
  here().begin_sharing();
  x.shared.store(true);
  share_handle{
      .kind = share_handle::of_event, .what = name, .layout = got.value}
      .write(out);
  return CUDA_SUCCESS;
}

CUresult shared_things::open(context& in, const CUipcEventHandle& handle,
                             CUevent& out) {
  auto read = share_handle::read(handle, share_handle::of_event);
  if (!read)
    return CUDA_ERROR_MAP_FAILED;
  {
    std::lock_guard guard{mutex_};
    if (read->what.session == secret_)
      return CUDA_ERROR_INVALID_CONTEXT;
  }
  std::unique_ptr<event> made;
  if (auto code = import_event(in, read->what,
                               share_layout::unpack(read->layout).host, made);
      code != CUDA_SUCCESS)
    return code;
  here().begin_sharing();
  auto& it = *made;
  it.handle = to_handle<CUevent>(events().add(std::move(made)));
  out = it.handle;
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer
