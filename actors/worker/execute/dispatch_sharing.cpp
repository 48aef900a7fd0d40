// What sessions share: memory and events of one that another has too.
#include "actors/link/host.hpp"
#include "actors/state/device_wait.hpp"
#include "actors/worker/execute/call_dispatch.hpp"

#include <spdlog/spdlog.h>
#include <xxhash.h>

namespace vgpu {

namespace {

/// 24 bits, so that who cannot be reached can be told from who is elsewhere.
std::uint32_t host_digest() {
  static const auto digest = [] {
    auto name = host_id();
    return static_cast<std::uint32_t>(XXH3_64bits(name.data(), name.size()) >>
                                      40);
  }();
  return digest;
}

fault on_another_host() {
  return {CUDA_ERROR_MAP_FAILED,
          "the process that shares this has its vGPU on another host: give "
          "both one group (vgpu run --group) or one node (--node)"};
}

/// What another session lends, on this host.
result<borrowed_thing> borrow_here(share_kind kind, const share_name& what,
                                   std::uint32_t host) {
  if (host != host_digest())
    return on_another_host();
  return borrow(kind, what);
}

/// The program is told a code alone.
template <class T>
T told(T outcome) {
  if (!outcome)
    spdlog::warn("sharing with another process: {}", outcome.why().what);
  return outcome;
}

} // namespace

result<device::sharing_unit*> call_dispatch::sharing() {
  if (auto* unit = self.sharing_units_[ordinal]; unit != nullptr)
    return unit;
  return fault{CUDA_ERROR_NOT_SUPPORTED,
               "this device shares nothing with other processes"};
}

status call_dispatch::lend(const share_secret& secret, const share_key& key,
                           std::uint64_t serial, device::shared_object object,
                           std::uint64_t bytes) {
  if (!self.broker_) {
    auto opened = told(share_broker::open(secret));
    if (!opened)
      return opened.why();
    self.broker_ = std::move(*opened);
  }
  if (self.broker_->secret() != secret)
    return told(status{
        fault{CUDA_ERROR_INVALID_VALUE, "a session shares under one secret"}});
  return told(self.broker_->lend(key, serial, std::move(object),
                                 {static_cast<std::uint32_t>(ordinal), bytes}));
}

/// Of all devices, for they reach each other's memory. A program that is not
/// told waits for its work itself: only it knows what a host function waits
/// for.
bool call_dispatch::at_rest() const {
  using namespace std::chrono_literals;
  return std::all_of(
      self.devices_.begin(), self.devices_.end(), [](const auto& each) -> bool {
        return wait_for(*each, "work before memory is shared", 100ms).ok();
      });
}

template <class Make>
status call_dispatch::share(const share_secret& secret, const share_key& key,
                            std::uint64_t serial, std::uint64_t bytes,
                            const Make& make) {
  auto unit = sharing();
  if (!unit)
    return unit.why();
  if ((*unit)->shares_at_rest() && !at_rest()) {
    self.sink_->answer(who(), CUDA_ERROR_NOT_READY, 0);
    return {};
  }
  auto made = told(make(**unit));
  if (!made)
    return made.why();
  share_layout layout{made->lead / granule_bytes, made->bytes / granule_bytes,
                      host_digest()};
  if (auto ok = lend(secret, key, serial, std::move(made->what), bytes); !ok)
    return ok;
  self.sink_->answer(who(), CUDA_SUCCESS, layout.pack());
  return {};
}

status call_dispatch::operator()(const call::memory_share& x) {
  if (auto ok = state().audit_free(x.address, x.bytes); !ok)
    return ok;
  return share(
      x.session, {share_kind::memory, x.address}, x.serial, x.bytes,
      [&](auto& unit) { return unit.share_memory(x.address, x.bytes); });
}

status call_dispatch::operator()(const call::placed_share& x) {
  return share(x.session, {share_kind::placed, x.memory.id.value}, x.serial,
               state().memories().at(x.memory.id).bytes,
               [&](auto& unit) { return unit.share_memory(x.memory.id); });
}

status call_dispatch::import_memory(share_kind kind, const share_name& name,
                                    std::uint32_t host, memory_id as,
                                    std::uint64_t bytes) {
  auto unit = sharing();
  if (!unit)
    return unit.why();
  if (memories() == nullptr)
    return no_memories();
  take_over_foreign();
  if (auto ok = told(state().audit_foreign(bytes)); !ok)
    return ok;
  auto got = told(borrow_here(kind, name, host));
  if (!got)
    return got.why();
  if (auto ok = told((*unit)->import_memory(as, bytes, got->object)); !ok)
    return ok;
  state().add_foreign(as, bytes, std::move(got->stake));
  return {};
}

void call_dispatch::count_left() {
  if (self.broker_) [[unlikely]]
    self.used_ += state().count_left(
        self.broker_->left(static_cast<std::uint32_t>(ordinal)));
}

void call_dispatch::take_over_foreign() {
  self.used_ += state().take_over_foreign();
}

status call_dispatch::operator()(const call::shared_bytes&) {
  count_left();
  take_over_foreign();
  self.sink_->answer(who(), CUDA_SUCCESS, state().shared_bytes());
  return {};
}

status call_dispatch::operator()(const call::placed_import& x) {
  auto ok =
      import_memory(share_kind::placed, x.what, x.host, x.memory.id, x.bytes);
  if (ok)
    self.sink_->answer(who(), CUDA_SUCCESS, 0);
  return ok;
}

/// All or nothing: what fails half-way leaves nothing mapped.
status call_dispatch::operator()(const call::memory_import& x) {
  if (auto ok = import_memory(share_kind::memory, x.what, x.host, x.memory.id,
                              x.bytes);
      !ok)
    return ok;
  auto ok = show(x.memory.id, x.address, x.bytes);
  if (!ok) {
    (void)memories()->destroy_memory(x.memory.id);
    (void)state().release(x.memory.id);
    return told(ok);
  }
  self.sink_->answer(who(), CUDA_SUCCESS, 0);
  return {};
}

status call_dispatch::show(memory_id memory, device_address address,
                           std::uint64_t bytes) {
  call::memory_map place{{memory}, address, bytes};
  if (auto ok = state().audit_map(place); !ok)
    return ok;
  if (auto ok = memories()->map_memory(address, bytes, memory); !ok)
    return ok;
  if (auto ok =
          memories()->set_access(address, bytes, memory_access::read_write);
      !ok) {
    (void)memories()->unmap_memory(address, bytes);
    return ok;
  }
  state().map(place);
  state().set_access(address, memory_access::read_write);
  return {};
}

status call_dispatch::operator()(const call::event_share& x) {
  auto unit = sharing();
  if (!unit)
    return unit.why();
  auto made = told((*unit)->share_event(x.event.id));
  if (!made)
    return made.why();
  if (auto ok = lend(x.session, {share_kind::event, x.event.id.value}, x.serial,
                     std::move(*made), 0);
      !ok)
    return ok;
  share_layout where{.host = host_digest()};
  self.sink_->answer(who(), CUDA_SUCCESS, where.pack());
  return {};
}

status call_dispatch::operator()(const call::event_import& x) {
  auto unit = sharing();
  if (!unit)
    return unit.why();
  auto got = told(borrow_here(share_kind::event, x.what, x.host));
  if (!got)
    return got.why();
  if (auto ok = told((*unit)->import_event(x.event.id, got->object)); !ok)
    return ok;
  state().add(x.event.id);
  times().created(x.event.id, false);
  self.sink_->answer(who(), CUDA_SUCCESS, 0);
  return {};
}

status call_dispatch::operator()(const call::event_query& x) {
  auto done = dev().query_event(x.event.id);
  if (!done)
    return done.why();
  self.sink_->answer(who(), *done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY, 0);
  return {};
}

} // namespace vgpu
