#include "interposer/sharing.hpp"

#include "interposer/process.hpp"
#include "interposer/session.hpp"
#include "interposer/virtual_memory.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include <sys/random.h>

namespace vgpu::interposer {

namespace {

/// Ids of imported memory, apart from those that virtual_memory gives.
constexpr std::uint64_t imported = std::uint64_t{1} << 63;

/// What the 64 bytes of a handle are.
struct share_handle {
  static constexpr std::uint64_t of_memory = 0x3130'4d45'4d50'4756;
  static constexpr std::uint64_t of_event = 0x3130'5456'4550'4756;

  std::uint64_t kind = 0;
  share_name what{};
  std::uint64_t bytes = 0; // as asked for; of memory
  std::uint64_t layout = 0;
  std::uint64_t check = 0; // against bytes that are something else

  std::uint64_t digest() const noexcept {
    return XXH3_64bits(this, offsetof(share_handle, check));
  }

  template <class Handle>
  void write(Handle& out) {
    static_assert(sizeof(share_handle) == sizeof(Handle));
    check = digest();
    std::memcpy(&out, this, sizeof(out));
  }

  /// Nothing for what no process wrote as a handle of that kind.
  template <class Handle>
  static std::optional<share_handle> read(const Handle& in,
                                          std::uint64_t kind) {
    share_handle out;
    std::memcpy(static_cast<void*>(&out), &in, sizeof(out));
    if (out.kind != kind || out.check != out.digest())
      return std::nullopt;
    return out;
  }

  /// Where the memory begins in its granules; nothing where it does not fit.
  std::optional<std::uint64_t> offset() const noexcept {
    auto at = share_layout::unpack(layout);
    if (!at.is_sound() || bytes == 0)
      return std::nullopt;
    auto all = at.granules * granule_bytes;
    auto begin = at.lead * granule_bytes + what.number % granule_bytes;
    return bytes <= all - begin ? std::optional{begin} : std::nullopt;
  }
};
static_assert(std::is_trivially_copyable_v<share_handle>);

} // namespace

shared_things& sharing() {
  static auto& all = *new shared_things;
  return all;
}

/// Precondition: the mutex is held.
const share_secret& shared_things::secret() {
  if (secret_ == share_secret{} &&
      ::getrandom(&secret_, sizeof(secret_), 0) != sizeof(secret_)) {
    secret_ = {};
    throw std::system_error{errno, std::generic_category(),
                            "no random numbers to be had"};
  }
  return secret_;
}

// -- memory
// ------------------------------------------------------------------

CUresult shared_things::handle_of(device_address at, CUipcMemHandle& out) {
  auto& s = here();
  auto device = s.device_of(at);
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  auto known = s.space(*device).find(at);
  if (!known || known->kind != memory_kind::device)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard{mutex_};
  if (auto before = lent_.find(known->address);
      before != lent_.end() && before->second.serial == known->serial) {
    out = before->second.handle;
    return CUDA_SUCCESS;
  }
  share_name name{secret(), known->address, known->serial};
  auto ask = [&] {
    return s.ask(call::memory_share{known->address, known->bytes, name.session,
                                    name.serial},
                 *device);
  };
  auto got = ask();
  // Some devices have to stand still while they make memory shareable.
  for (; got.result == CUDA_ERROR_NOT_READY; got = ask())
    for (std::size_t d = 0; d < s.devices().size(); ++d)
      if (auto code = s.synchronise(static_cast<std::uint8_t>(d));
          code != CUDA_SUCCESS)
        return code;
  if (got.result != CUDA_SUCCESS)
    return got.result;
  s.begin_sharing();
  share_handle{.kind = share_handle::of_memory,
               .what = name,
               .bytes = known->bytes,
               .layout = got.value}
      .write(out);
  lent_.insert_or_assign(known->address, lent{known->serial, out});
  lends_.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

bool shared_things::forget(device_address at) noexcept {
  if (!lends_.load(std::memory_order_acquire)) [[likely]]
    return false;
  std::lock_guard guard{mutex_};
  return lent_.erase(at) != 0;
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
  auto offset = read ? read->offset() : std::nullopt;
  if (!offset)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard{mutex_};
  if (read->what.session == secret_)
    return CUDA_ERROR_INVALID_CONTEXT;
  auto device = in.device_index();
  if (auto known = find(read->what, device); known != opened_.end()) {
    ++known->second.times;
    out = known->first;
    return CUDA_SUCCESS;
  }
  auto& s = here();
  auto layout = share_layout::unpack(read->layout);
  opened fresh{.what = read->what,
               .device = device,
               .context = in.id.load(),
               .memory = {imported | ++last_memory_},
               .bytes = layout.granules * granule_bytes};
  CUdeviceptr granules = 0;
  if (auto code = virtual_memories().reserve(device, fresh.bytes, 0, granules);
      code != CUDA_SUCCESS)
    return code;
  fresh.at = granules;
  auto got = s.ask(
      call::memory_import{
          {fresh.memory}, fresh.at, fresh.bytes, fresh.what, layout.host},
      device);
  if (got.result != CUDA_SUCCESS) {
    (void)virtual_memories().free(fresh.at, fresh.bytes);
    return got.result;
  }
  s.begin_sharing();
  out = fresh.at + *offset;
  s.space(device).adopt({.address = out,
                         .bytes = read->bytes,
                         .kind = memory_kind::imported,
                         .context = fresh.context});
  opened_.emplace(out, fresh);
  return CUDA_SUCCESS;
}

CUresult shared_things::close(device_address at) {
  std::lock_guard guard{mutex_};
  auto known = opened_.find(at);
  if (known == opened_.end())
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

/// Precondition: the mutex is held.
void shared_things::unmap(opened_map::iterator which) {
  auto& [at, x] = *which;
  auto& s = here();
  // What the work ended in is the next synchronisation's to tell.
  (void)s.synchronise(x.device);
  (void)s.space(x.device).take(at);
  s.send(call::memory_unmap{x.at, x.bytes}, x.device);
  s.send(call::memory_destroy{{x.memory}}, x.device);
  (void)virtual_memories().free(x.at, x.bytes);
  opened_.erase(which);
}

// -- events
// ------------------------------------------------------------------

CUresult shared_things::handle_of(event& x, CUipcEventHandle& out) {
  if ((x.flags & CU_EVENT_INTERPROCESS) == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard guard{mutex_};
  constexpr std::uint64_t serial = 1; // numbers of events are not used again
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
    return CUDA_ERROR_INVALID_VALUE;
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
