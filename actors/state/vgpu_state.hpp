// A session's objects, by handle, and its memory. The worker audits calls
// against them.
#pragma once

#include "actors/lend/share_ledger.hpp"
#include "devices/interface/device.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/base/memory_account.hpp"
#include "schema/catalogue/calls.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace vgpu {

/// Describes a module on the device that loaded it.
struct module_state {
  std::size_t kernels = 0;
  /// Holds the message ModuleFacts (data.capnp), as the program receives it.
  std::vector<std::uint64_t> facts;
  std::vector<device::global_info> globals;
  bool hidden_heap = false;
};

/// Describes an array. Its range of addresses is allocated, whether memory
/// backs it or not.
struct array_state {
  device_address address = 0;
  std::uint64_t bytes = 0;
  array_shape shape;
};

/// Describes a texture or surface object, and the value by which the program
/// knows it (0 until the program has learned it).
struct texture_state {
  texture_spec what;
  std::uint64_t value = 0;
};

/// Describes memory that the program places by itself. It counts against the
/// quota while it has a handle or a mapping.
struct memory_state {
  std::uint64_t bytes = 0;
  std::size_t mappings = 0;
  /// Tells whether the program still has the handle.
  bool named = true;
  /// Tells whether the memory belongs to another session, where it counts.
  bool foreign = false;
  /// Holds the stake in memory that is or was another session's.
  std::shared_ptr<share_stake> stake{};
};

/// Describes a mapping of such memory, or of pinned memory.
struct mapping_state {
  std::uint64_t bytes = 0;
  /// Holds nothing where the mapping is of pinned memory.
  std::optional<memory_id> memory;
  memory_access access = memory_access::none;
};

/// A vgpu_state is one device's part of a session. Not thread-safe.
class vgpu_state {
public:
  /// `window` is the first of the vGPU's addresses, and `quota` the number of
  /// bytes that can be allocated.
  vgpu_state(device_address window, std::uint64_t quota);
  /// Raises the quota, which must not be less than before.
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
  /// Replaces the variable of this name in each module that has it.
  void replace_variable(const device::global_info& x);
  void add(texture_id x, const texture_spec& what) {
    textures_.emplace(x, texture_state{what});
  }
  /// Records the value by which the program knows a texture or surface.
  void know(texture_id x, std::uint64_t value) {
    textures_.at(x).value = value;
  }
  void remove(texture_id x) { textures_.erase(x); }

  const module_state& module(module_id x) const { return modules_.at(x); }
  const std::unordered_set<stream_id>& streams() const { return streams_; }
  const std::unordered_map<module_id, module_state>& modules() const {
    return modules_;
  }
  /// Returns the bytes of each allocation by its address, including arrays.
  const std::map<device_address, std::uint64_t>& allocations() const {
    return allocations_;
  }
  const std::map<array_id, array_state>& arrays() const { return arrays_; }
  const std::map<texture_id, texture_state>& textures() const {
    return textures_;
  }

  // -- memory -----------------------------------------------------------------

  /// Describes a run of granules that must be backed before the range can be
  /// used.
  struct run {
    device_address address;
    std::uint64_t bytes;
  };

  /// Checks the size of a module's variables against the quota. They count as
  /// long as the module exists; a heap among them, until it is replaced.
  status audit_variables(const std::vector<device::global_info>& all) const;
  /// Checks an allocation against the window, the quota and existing
  /// allocations.
  status audit_alloc(device_address address, std::uint64_t bytes) const;
  /// Records an allocation. Returns the runs of granules that it is the first
  /// to use.
  std::vector<run> allocate(device_address address, std::uint64_t bytes);
  /// Records an allocation as allocate() does, where the device needs no memory
  /// at these addresses.
  void reserve(device_address address, std::uint64_t bytes);
  /// Checks that exactly this range was allocated, and not for an array.
  status audit_free(device_address address, std::uint64_t bytes) const;
  /// Removes an allocation. Returns the runs of granules that it was the last
  /// to use.
  std::vector<run> release(device_address address, std::uint64_t bytes);
  /// Removes a range that reserve() recorded.
  void unreserve(device_address address, std::uint64_t bytes);

  // -- memory that the program places by itself -------------------------------

  /// Checks that the size is whole granules and within the quota.
  status audit_memory(std::uint64_t bytes) const;
  /// Records physical memory of this session.
  void add(memory_id x, std::uint64_t bytes);
  /// Checks the size of memory of another session, which counts there. A
  /// session whose quota is exceeded, by what counts here for others, gets no
  /// more.
  status audit_foreign(std::uint64_t bytes) const;
  /// Records physical memory of another session, and the stake in it.
  void add_foreign(memory_id x, std::uint64_t bytes, share_stake stake);
  /// Counts memory of other sessions here from now on, where no other session
  /// counts it any more. Returns its bytes.
  std::uint64_t take_over_foreign();
  /// Sets how much freed memory other sessions still have, because it counts
  /// here until they release it. Returns the growth of used() modulo 2^64,
  /// since used() may shrink.
  std::uint64_t count_left(std::uint64_t bytes);
  /// Returns the bytes that count here only because other sessions have them or
  /// had them first.
  std::uint64_t shared_bytes() const;
  /// Records that the handle was released. Returns the bytes that stop to
  /// count.
  std::uint64_t release(memory_id x);
  /// Checks the sizes, and that the addresses are free.
  status audit_map(const call::memory_map& x) const;
  /// Records a mapping.
  void map(const call::memory_map& x);
  /// Checks that whole granules of pinned memory are mapped to free addresses.
  status audit_map(const call::host_map& x) const;
  void map(const call::host_map& x);
  /// Checks that exactly this range was mapped.
  status audit_mapping(device_address address, std::uint64_t bytes) const;
  /// Removes a mapping. Returns the bytes that stop to count.
  std::uint64_t unmap(device_address address);
  /// Sets the access to a mapping.
  void set_access(device_address address, memory_access to) {
    mappings_.at(address).access = to;
  }
  const std::map<memory_id, memory_state>& memories() const {
    return memories_;
  }
  const std::map<device_address, mapping_state>& mappings() const {
    return mappings_;
  }
  /// Returns the address of so many bytes, in whole granules, at which the
  /// program has nothing, or nothing where there is no such range. A worker
  /// maps memory there for a moment to read it.
  std::optional<device_address> free_place(std::uint64_t bytes) const;

  /// Checks that the array behind a texture or surface exists.
  status audit_texture(const texture_spec& x) const;

  /// Returns whether these addresses are allocated, mapped, or a module's
  /// variables.
  bool holds(device_address address, std::uint64_t bytes) const;

  /// Returns the bytes that count against the quota, in whole granules, with
  /// modules' variables.
  std::uint64_t used() const noexcept { return account_.used(); }
  /// Returns the bytes of the quota that are not used.
  std::uint64_t unused() const noexcept {
    return quota_ - std::min(quota_, used());
  }
  /// Returns the bytes of the heap of kernels' malloc.
  std::uint64_t heap_bytes() const noexcept { return heap_; }

private:
  std::vector<run> count_granules(device_address address, std::uint64_t bytes,
                                  int by);
  status audit_place(device_address address, std::uint64_t bytes) const;
  status audit_quota(std::uint64_t bytes) const;
  bool overlaps(device_address address, std::uint64_t bytes) const;
  bool maps(device_address address, std::uint64_t bytes) const;
  std::uint64_t forget_unused(memory_id x);
  void set_heap(std::uint64_t bytes) noexcept;

  device_address window_;
  std::uint64_t quota_;
  memory_account account_;
  /// Holds the part of used() that is freed here, but that another session has.
  std::uint64_t left_ = 0;
  std::uint64_t heap_ = 0;
  std::unordered_set<stream_id> streams_;
  std::unordered_set<event_id> events_;
  std::unordered_map<module_id, module_state> modules_;
  /// Holds the arrays in the order of their creation.
  std::map<array_id, array_state> arrays_;
  std::map<texture_id, texture_state> textures_;
  /// Holds the bytes of each allocation by its address.
  std::map<device_address, std::uint64_t> allocations_;
  /// Counts the users of each granule by its index.
  std::unordered_map<std::uint64_t, int> granules_;
  std::map<memory_id, memory_state> memories_;
  std::map<device_address, mapping_state> mappings_;
};

/// Returns the number of addresses that a box of this extent spans, or nothing
/// where the numbers contradict each other (a pitch smaller than a row, an
/// overflow).
std::optional<std::uint64_t> span_of(const call::box& box,
                                     const call::extent& size);

} // namespace vgpu
