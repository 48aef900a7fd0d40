// What a session's vGPU holds: its objects by handle and its memory. What a
// worker audits calls against.
#pragma once

#include "actors/lend/share_ledger.hpp"
#include "devices/interface/device.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/catalogue/calls.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace vgpu {

/// A module, on the device that loaded it.
struct module_state {
  std::size_t kernels = 0;
  /// ModuleFacts (data.capnp), as it is sent to the program.
  std::vector<std::uint64_t> facts;
  std::vector<device::global_info> globals;
  bool hidden_heap = false;
};

/// An array: its range of addresses is allocated, with memory behind it or not.
struct array_state {
  device_address address = 0;
  std::uint64_t bytes = 0;
  array_shape shape;
};

/// A texture or surface object, and the value that the program knows it by (0
/// where it was not told yet).
struct texture_state {
  texture_spec what;
  std::uint64_t value = 0;
};

/// Memory that the program places by itself. It counts while it has a handle or
/// is mapped.
struct memory_state {
  std::uint64_t bytes = 0;
  std::size_t mappings = 0;
  bool named = true;    // its handle is not released
  bool foreign = false; // another session's: it counts there
  /// Of what is or was another session's.
  std::shared_ptr<share_stake> stake{};
};

/// Such memory at addresses.
struct mapping_state {
  std::uint64_t bytes = 0;
  memory_id memory;
  memory_access access = memory_access::none;
};

/// One device's part of a session. One thread.
class vgpu_state {
public:
  /// `window` is where the vGPU's addresses begin; at most `quota` bytes can
  /// be allocated.
  vgpu_state(device_address window, std::uint64_t quota);
  /// Another quota, not less than the one before.
  void allow(std::uint64_t quota) noexcept { quota_ = quota; }

  // -- handles ----------------------------------------------------------------

  status audit(call::fresh<stream_id> x) const;
  status audit(call::live<stream_id> x) const;
  status audit(call::ended<stream_id> x) const;
  status audit(call::fresh<event_id> x) const;
  status audit(call::live<event_id> x) const;
  status audit(call::ended<event_id> x) const;
  status audit(call::fresh<module_id> x) const;
  status audit(call::live<module_id> x) const;
  status audit(call::ended<module_id> x) const;

  status audit(call::fresh<array_id> x) const;
  status audit(call::ended<array_id> x) const;
  status audit(call::fresh<texture_id> x) const;
  status audit(call::live<texture_id> x) const;
  status audit(call::ended<texture_id> x) const;
  status audit(call::fresh<memory_id> x) const;
  status audit(call::live<memory_id> x) const;
  status audit(call::ended<memory_id> x) const;

  void add(stream_id x) { streams_.insert(x); }
  void add(event_id x) { events_.insert(x); }
  void add(module_id x, module_state what);
  void remove(stream_id x) { streams_.erase(x); }
  void remove(event_id x) { events_.erase(x); }
  void remove(module_id x);
  void add(array_id x, const array_state& what) { arrays_.emplace(x, what); }
  void remove(array_id x) { arrays_.erase(x); }
  void add(texture_id x, const texture_spec& what) {
    textures_.emplace(x, texture_state{what});
  }
  void know(texture_id x, std::uint64_t value) {
    textures_.at(x).value = value;
  }
  void remove(texture_id x) { textures_.erase(x); }

  const module_state& module(module_id x) const { return modules_.at(x); }
  const std::unordered_set<stream_id>& streams() const { return streams_; }
  const std::unordered_map<module_id, module_state>& modules() const {
    return modules_;
  }
  /// Address → bytes; arrays too.
  const std::map<device_address, std::uint64_t>& allocations() const {
    return allocations_;
  }
  const std::map<array_id, array_state>& arrays() const { return arrays_; }
  const std::map<texture_id, texture_state>& textures() const {
    return textures_;
  }

  // -- memory -----------------------------------------------------------------

  /// Granules that must be backed before the range can be used, as runs.
  struct run {
    device_address address;
    std::uint64_t bytes;
  };

  /// Checks the size of a module's variables against the quota. They count as
  /// long as the module is there, beside used().
  status audit_variables(const std::vector<device::global_info>& all) const;
  /// Checks an allocation against window, quota and what is allocated.
  status audit_alloc(device_address address, std::uint64_t bytes) const;
  /// Records an allocation; the runs of granules that it is the first in.
  std::vector<run> allocate(device_address address, std::uint64_t bytes);
  /// As allocate(), where the device needs no memory at these addresses.
  void reserve(device_address address, std::uint64_t bytes);
  /// Checks that exactly this was allocated, and is not an array's.
  status audit_free(device_address address, std::uint64_t bytes) const;
  /// Forgets an allocation; the runs of granules that it was the last in.
  std::vector<run> release(device_address address, std::uint64_t bytes);
  /// Forgets what was reserved.
  void unreserve(device_address address, std::uint64_t bytes);

  // -- memory that the program places by itself -------------------------------

  /// Whole granules, within the quota.
  status audit_memory(std::uint64_t bytes) const;
  void add(memory_id x, std::uint64_t bytes);
  /// Whole granules of another session, which count there. Who is beyond the
  /// quota, by what was left to it, gets no more.
  status audit_foreign(std::uint64_t bytes) const;
  void add_foreign(memory_id x, std::uint64_t bytes, share_stake stake);
  /// Memory of other sessions that nobody else counts any more counts here from
  /// now on: bytes.
  std::uint64_t take_over_foreign();
  /// Memory that was freed counts as long as another session has it: so much of
  /// it there is now. By how much used() grew, modulo 2^64: it may shrink.
  std::uint64_t count_left(std::uint64_t bytes);
  /// What counts for the sake of others: what was left so, and taken over.
  std::uint64_t shared_bytes() const;
  /// The handle is gone. Bytes that count no more.
  std::uint64_t release(memory_id x);
  /// Checks sizes, and that nothing is at these addresses.
  status audit_map(const call::memory_map& x) const;
  void map(const call::memory_map& x);
  /// Checks that exactly this was mapped.
  status audit_mapping(device_address address, std::uint64_t bytes) const;
  /// Bytes that count no more.
  std::uint64_t unmap(device_address address);
  void set_access(device_address address, memory_access to) {
    mappings_.at(address).access = to;
  }
  const std::map<memory_id, memory_state>& memories() const {
    return memories_;
  }
  const std::map<device_address, mapping_state>& mappings() const {
    return mappings_;
  }
  /// Addresses of whole granules at which the program has nothing, for a look
  /// at memory that has none. Nothing where there is no such place.
  std::optional<device_address> free_place(std::uint64_t bytes) const;

  /// An array that the object shows must exist.
  status audit_texture(const texture_spec& x) const;

  /// Whether these addresses are allocated, or a module's variables.
  bool holds(device_address address, std::uint64_t bytes) const;

  /// Without modules' variables.
  std::uint64_t used() const noexcept { return used_; }

private:
  std::vector<run> count_granules(device_address address, std::uint64_t bytes,
                                  int by);
  status audit_place(device_address address, std::uint64_t bytes) const;
  status audit_quota(std::uint64_t bytes) const;
  bool overlaps(device_address address, std::uint64_t bytes) const;
  bool maps(device_address address, std::uint64_t bytes) const;
  std::uint64_t forget_unused(memory_id x);

  device_address window_;
  std::uint64_t quota_;
  std::uint64_t used_ = 0;
  std::uint64_t left_ = 0; // of used_: freed here, and another session has it
  std::uint64_t variables_ = 0; // bytes of all modules'
  std::unordered_set<stream_id> streams_;
  std::unordered_set<event_id> events_;
  std::unordered_map<module_id, module_state> modules_;
  std::map<array_id, array_state> arrays_; // in the order of their creation
  std::map<texture_id, texture_state> textures_;
  std::map<device_address, std::uint64_t> allocations_; // address → bytes
  std::unordered_map<std::uint64_t, int> granules_;     // index → users
  std::map<memory_id, memory_state> memories_;
  std::map<device_address, mapping_state> mappings_;
};

/// How many bytes of addresses a box of this extent spans; nothing where the
/// numbers contradict each other (a pitch smaller than a row, an overflow).
std::optional<std::uint64_t> span_of(const call::box& box,
                                     const call::extent& size);

} // namespace vgpu
