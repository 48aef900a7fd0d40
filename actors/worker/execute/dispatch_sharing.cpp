// Calls that share memory and events with other sessions.
#include "actors/link/log.hpp"
#include "actors/state/device_wait.hpp"
#include "actors/worker/execute/call_dispatch.hpp"
#include "schema/base/host.hpp"
#include "schema/base/round_up.hpp"

#include <xxhash.h>

namespace vgpu {

namespace {

/// Returns 24 bits that identify this host, so that a lender on another host is
/// distinguished from one that cannot be reached.
std::uint32_t host_digest() {
  static const auto digest = [] {
    auto name = host_id();
    return static_cast<std::uint32_t>(XXH3_64bits(name.data(), name.size()) >>
                                      40);
  }();
  return digest;
}

fault on_another_host() {
  return cuda_fault(
      CUDA_ERROR_MAP_FAILED,
      "the process that shares this has its vGPU on another host: give "
      "both one group (vgpu run --group) or one node (--node)");
}

/// Borrows what another session on this host lends.
result<borrowed_thing> borrow_here(dispatch_context& on, share_kind kind,
                                   const share_name& what, std::uint32_t host) {
  if (host != host_digest())
    return on_another_host();
  return borrow(kind, what, on.session.connect);
}

/// Logs the fault, because the program gets an error code only.
template <class T>
T told(T outcome) {
  if (!outcome)
    spdlog::warn("sharing with another process: {}", outcome.why().what);
  return outcome;
}

result<device::sharing_unit*> sharing(dispatch_context& on) {
  if (auto* unit = on.slot.can.sharing; unit != nullptr)
    return unit;
  return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                    "this device shares nothing with other processes");
}

status lend(dispatch_context& on, const share_secret& secret,
            const share_key& key, std::uint64_t serial,
            device::shared_object object, std::uint64_t bytes) {
  if (!on.session.broker) {
    auto opened = told(share_broker::open(secret));
    if (!opened)
      return opened.why();
    on.session.broker = std::move(*opened);
  }
  if (on.session.broker->secret() != secret)
    return told(status{cuda_fault(CUDA_ERROR_INVALID_VALUE,
                                  "a session shares under one secret")});
  return told(on.session.broker->lend(
      key, serial, std::move(object),
      {static_cast<std::uint32_t>(on.slot.ordinal), bytes}));
}

/// Returns whether all devices are idle, because they reach each other's
/// memory. Where it returns false, the program waits for its work itself: only
/// the program knows what a host function waits for.
bool at_rest(dispatch_context& on) {
  using namespace std::chrono_literals;
  return std::all_of(
      on.session.devices.begin(), on.session.devices.end(), [](auto& each) {
        return wait_for(*each.device, "work before memory is shared", 100ms)
            .ok();
      });
}

template <class Make>
status share(dispatch_context& on, const share_secret& secret,
             const share_key& key, std::uint64_t serial, std::uint64_t bytes,
             const Make& make) {
  auto unit = sharing(on);
  if (!unit)
    return unit.why();
  if ((*unit)->shares_at_rest() && !at_rest(on)) {
    on.answer(0, CUDA_ERROR_NOT_READY);
    return {};
  }
  auto made = told(make(**unit));
  if (!made)
    return made.why();
  share_layout layout{made->lead / granule_bytes, made->bytes / granule_bytes,
                      host_digest()};
  if (auto ok = lend(on, secret, key, serial, std::move(made->what), bytes);
      !ok)
    return ok;
  on.answer(layout.pack());
  return {};
}

/// Counts memory of other sessions that no other session counts any more. Call
/// it only where the program gets the result: an allocation that it had room
/// for must not fail because another process has ended.
void take_over_foreign(dispatch_context& on) {
  on.session.account.add_bytes(on.state().take_over_foreign());
}

/// Imports memory that another session lends under this id.
status import_memory(dispatch_context& on, share_kind kind,
                     const share_name& name, std::uint32_t host, memory_id as,
                     std::uint64_t bytes) {
  auto unit = sharing(on);
  if (!unit)
    return unit.why();
  if (on.slot.can.memory == nullptr)
    return no_memory_unit();
  take_over_foreign(on);
  if (auto ok = told(on.state().audit_foreign(bytes)); !ok)
    return ok;
  auto got = told(borrow_here(on, kind, name, host));
  if (!got)
    return got.why();
  if (auto ok = told((*unit)->import_memory(as, bytes, got->object)); !ok)
    return ok;
  on.state().add_foreign(as, bytes, std::move(got->stake));
  return {};
}

/// Maps memory with read and write access for the program.
status show(dispatch_context& on, memory_id memory, device_address address,
            std::uint64_t bytes) {
  call::memory_map place{{memory}, address, bytes};
  if (auto ok = on.state().audit_map(place); !ok)
    return ok;
  if (auto ok = on.slot.can.memory->map_memory(address, bytes, memory); !ok)
    return ok;
  if (auto ok = on.slot.can.memory->set_access(address, bytes,
                                               memory_access::read_write);
      !ok) {
    (void)on.slot.can.memory->unmap_memory(address, bytes);
    return ok;
  }
  on.state().map(place);
  on.state().set_access(address, memory_access::read_write);
  return {};
}

} // namespace

status execute_call(dispatch_context& on, const call::memory_share& x) {
  if (auto ok = on.state().audit_free(x.address, x.bytes); !ok)
    return ok;
  return share(on, x.session, {share_kind::memory, x.address}, x.serial,
               round_up(x.bytes, granule_bytes), [&](auto& unit) {
                 return unit.share_memory(x.address, x.bytes);
               });
}

status execute_call(dispatch_context& on, const call::placed_share& x) {
  return share(on, x.session, {share_kind::placed, x.memory.id.value}, x.serial,
               on.state().memories().at(x.memory.id).bytes,
               [&](auto& unit) { return unit.share_memory(x.memory.id); });
}

status execute_call(dispatch_context& on, const call::shared_bytes&) {
  on.count_left();
  take_over_foreign(on);
  on.answer(on.state().shared_bytes());
  return {};
}

status execute_call(dispatch_context& on, const call::placed_import& x) {
  auto ok = import_memory(on, share_kind::placed, x.what, x.host, x.memory.id,
                          x.bytes);
  if (ok)
    on.answer();
  return ok;
}

/// Imports all or nothing: a failure leaves nothing mapped.
status execute_call(dispatch_context& on, const call::memory_import& x) {
  if (auto ok = import_memory(on, share_kind::memory, x.what, x.host,
                              x.memory.id, x.bytes);
      !ok)
    return ok;
  auto ok = show(on, x.memory.id, x.address, x.bytes);
  if (!ok) {
    (void)on.slot.can.memory->destroy_memory(x.memory.id);
    (void)on.state().release(x.memory.id);
    return told(ok);
  }
  on.answer();
  return {};
}

status execute_call(dispatch_context& on, const call::event_share& x) {
  auto unit = sharing(on);
  if (!unit)
    return unit.why();
  auto made = told((*unit)->share_event(x.event.id));
  if (!made)
    return made.why();
  if (auto ok = lend(on, x.session, {share_kind::event, x.event.id.value},
                     x.serial, std::move(*made), 0);
      !ok)
    return ok;
  share_layout where{.host = host_digest()};
  on.answer(where.pack());
  return {};
}

status execute_call(dispatch_context& on, const call::event_import& x) {
  auto unit = sharing(on);
  if (!unit)
    return unit.why();
  auto got = told(borrow_here(on, share_kind::event, x.what, x.host));
  if (!got)
    return got.why();
  if (auto ok = told((*unit)->import_event(x.event.id, got->object)); !ok)
    return ok;
  on.state().add(x.event.id);
  on.times().created(x.event.id, false);
  on.answer();
  return {};
}

status execute_call(dispatch_context& on, const call::event_query& x) {
  auto done = on.device().query_event(x.event.id);
  if (!done)
    return done.why();
  on.answer(0, *done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
  return {};
}

} // namespace vgpu
