#include "interposer/memory/virtual_memory.hpp"

#include "interposer/memory/managed_place.hpp"
#include "interposer/memory/memory.hpp"
#include "interposer/memory/memory_part.hpp"
#include "interposer/memory/sharing.hpp"
#include "interposer/memory/synchronous_memory.hpp"
#include "interposer/memory/zero_copy.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>

namespace vgpu::interposer {

namespace {

bool is_whole(std::uint64_t x) {
  return x % granule_bytes == 0;
}

void* program_pointer(device_address at) noexcept {
  return reinterpret_cast<void*>(at); // NOLINT: the program's own addresses
}

// -- pages of the host window at further addresses of the program

/// Maps the pages, without access. For shared memory an old size of 0 keeps the
/// old mapping too.
CUresult show_view(device_address at, device_address host,
                   std::uint64_t bytes) {
  if (::mremap(program_pointer(host), 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
               program_pointer(at)) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  return ::mprotect(program_pointer(at), bytes, PROT_NONE) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_OPERATING_SYSTEM;
}

/// Leaves only reserved addresses.
void hide_view(device_address at, std::uint64_t bytes) {
  ::mmap(program_pointer(at), bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

CUresult protect_view(device_address at, std::uint64_t bytes,
                      CUmemAccess_flags access) {
  auto rights = access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                    ? PROT_READ | PROT_WRITE
                : access == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ
                                                          : PROT_NONE;
  return ::mprotect(program_pointer(at), bytes, rights) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_OPERATING_SYSTEM;
}

/// Returns the device that the location names, or nothing.
std::optional<std::uint8_t> device_of(CUmemLocation x) {
  if (x.type != CU_MEM_LOCATION_TYPE_DEVICE || x.id < 0 ||
      static_cast<std::size_t>(x.id) >= here().devices().size())
    return std::nullopt;
  return static_cast<std::uint8_t>(x.id);
}

/// Returns the ways in which a device's memory may be exported.
unsigned exportable(int device) {
  return here().devices()[static_cast<std::size_t>(device)].value_of(
             CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) !=
                 0
             ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
             : CU_MEM_HANDLE_TYPE_NONE;
}

/// Tells whether the device can use memory of this place that is mapped into
/// its window. Precondition: the place is on the host.
bool can_map_host(std::uint8_t device, CUmemLocationType place) {
  auto announced =
      place == CU_MEM_LOCATION_TYPE_HOST
          ? CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
          : CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  return here().devices()[device].value_of(announced) != 0;
}

bool is_host(const CUmemLocation& x) noexcept {
  return x.type == CU_MEM_LOCATION_TYPE_HOST ||
         x.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/// Checks memory of the host, which another process cannot import.
CUresult check_host(const CUmemAllocationProp& x, std::uint8_t device) {
  if (x.location.type == CU_MEM_LOCATION_TYPE_HOST &&
      x.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!can_map_host(device, x.location.type) ||
      x.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return CUDA_ERROR_NOT_SUPPORTED;
  return x.location.type == CU_MEM_LOCATION_TYPE_HOST ||
                 is_numa_node(x.location.id)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_properties(const CUmemAllocationProp& x, std::uint8_t device) {
  if (x.type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (is_host(x.location))
    return check_host(x, device);
  if (auto code = check_place_of_pinned(x.location, x.requestedHandleTypes);
      code != CUDA_SUCCESS)
    return code;
  return (x.requestedHandleTypes & ~exportable(x.location.id)) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_SUPPORTED;
}

} // namespace

virtual_memory& virtual_memories() noexcept {
  return memory_part::get().virtual_memories;
}

// -- addresses
// --------------------------------------------------------------------

CUresult virtual_memory::reserve(std::uint8_t device, std::uint64_t bytes,
                                 std::uint64_t alignment, CUdeviceptr& out) {
  if (bytes == 0 || !is_whole(bytes) ||
      (alignment != 0 && !std::has_single_bit(alignment)))
    return CUDA_ERROR_INVALID_VALUE;
  auto& s = here();
  auto& space = s.space(device);
  auto step = std::max(alignment, granule_bytes);
  auto at = space.reserve(bytes, step);
  if (!at) {
    auto position = s.tail();
    auto code =
        on_occasion<occasion::room>([&] { return s.synchronise(device); });
    if (code != CUDA_SUCCESS)
      return code;
    space.settle(position);
    at = space.reserve(bytes, step);
  }
  if (!at)
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::unique_lock guard{mutex_};
  reservations_.emplace(*at, reservation{bytes, device});
  out = *at;
  return CUDA_SUCCESS;
}

CUresult virtual_memory::free(CUdeviceptr at, std::uint64_t bytes) {
  std::unique_lock guard{mutex_};
  auto known = reservations_.find(at);
  if (known == reservations_.end() || known->second.bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  auto next = mappings_.lower_bound(at);
  if (next != mappings_.end() && next->first < at + bytes)
    return CUDA_ERROR_INVALID_VALUE;
  // The addresses become free once no call in the log can refer to their former
  // contents.
  here().space(known->second.device).unreserve(at, bytes, here().tail());
  reservations_.erase(known);
  return CUDA_SUCCESS;
}

const virtual_memory::reservation*
virtual_memory::reserved(device_address at, std::uint64_t bytes) const {
  auto next = reservations_.upper_bound(at);
  if (next == reservations_.begin())
    return nullptr;
  auto& [begin, x] = *std::prev(next);
  auto inside = bytes <= x.bytes && at - begin <= x.bytes - bytes;
  return inside ? &x : nullptr;
}

// -- memory
// -----------------------------------------------------------------------

CUresult virtual_memory::create_on_host(std::uint8_t device,
                                        std::uint64_t bytes,
                                        const CUmemAllocationProp& what,
                                        CUmemGenericAllocationHandle& out) {
  device_address host = 0;
  if (auto code = allocate_placed_host(device, bytes, host);
      code != CUDA_SUCCESS)
    return code;
  std::unique_lock guard{mutex_};
  out = ++last_memory_;
  memories_.emplace(
      out,
      memory{.bytes = bytes, .device = device, .host = host, .what = what});
  return CUDA_SUCCESS;
}

CUresult virtual_memory::create(std::uint8_t current, std::uint64_t bytes,
                                const CUmemAllocationProp& what,
                                CUmemGenericAllocationHandle& out) {
  if (bytes == 0 || !is_whole(bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (auto code = check_properties(what, current); code != CUDA_SUCCESS)
    return code;
  if (is_host(what.location))
    return create_on_host(current, bytes, what, out);
  auto device = *device_of(what.location);
  auto& space = here().space(device);
  auto promise = space.begin_promise();
  collect();
  sharing().recount(device, bytes);
  if (!space.charge(bytes)) {
    make_room(device, bytes);
    if (!space.charge(bytes))
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::unique_lock guard{mutex_};
  auto id = ++last_memory_;
  memories_.emplace(id, memory{.bytes = bytes, .device = device, .what = what});
  here().send(call::memory_create{{memory_id{id}}, bytes}, device);
  out = id;
  return CUDA_SUCCESS;
}

virtual_memory::memory*
virtual_memory::named(CUmemGenericAllocationHandle handle) {
  auto known = memories_.find(handle);
  return known == memories_.end() || known->second.handles == 0
             ? nullptr
             : &known->second;
}

CUresult virtual_memory::release(CUmemGenericAllocationHandle handle) {
  std::unique_lock guard{mutex_};
  auto* x = named(handle);
  if (x == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  --x->handles;
  forget_unused(handle);
  return CUDA_SUCCESS;
}

void virtual_memory::forget_unused(CUmemGenericAllocationHandle handle) {
  auto known = memories_.find(handle);
  auto& x = known->second;
  if (x.handles != 0 || x.mappings != 0)
    return;
  if (x.host != 0) {
    // Each unmapping has waited for the devices.
    free_placed_host(x.host);
    memories_.erase(known);
    return;
  }
  if (!x.foreign) {
    std::erase_if(x.ends, [](auto& each) { return !is_given(each); });
    if (!x.ends.empty()) {
      given_away_.insert(handle);
      return;
    }
  }
  here().send(call::memory_destroy{{memory_id{handle}}}, x.device);
  if (x.foreign) {
    sharing().give_back(x.device, x.bytes);
  } else {
    if (x.says.what.serial != 0)
      sharing().leave(x.device, x.bytes);
    here().space(x.device).refund(x.bytes);
  }
  memories_.erase(known);
}

// -- memory of several processes
// --------------------------------------------------

void virtual_memory::collect() {
  std::unique_lock guard{mutex_};
  // Memory that is still held comes back to the list.
  for (auto handle : std::exchange(given_away_, {}))
    on_occasion<occasion::sharing>([&] { forget_unused(handle); });
}

/// Duplicates the descriptor from which the memory was imported. So every
/// process that gets it keeps the memory alive.
CUresult virtual_memory::give_again(const memory& x, int& file) const {
  file = ::fcntl(x.ends.front().get(), F_DUPFD_CLOEXEC, 0);
  return file < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

const share_descriptor& virtual_memory::named_for_others(memory& x) {
  if (x.says.what.serial == 0)
    x.says = {.kind = share_descriptor::of_memory,
              .what = {.serial = random_serial()},
              .device = here().devices()[x.device].uuid};
  return x.says;
}

CUresult virtual_memory::give(CUmemGenericAllocationHandle handle, int& file) {
  share_descriptor says;
  std::uint8_t device = 0;
  {
    std::unique_lock guard{mutex_};
    auto* x = named(handle);
    if (x == nullptr || (x->what.requestedHandleTypes &
                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (x->foreign)
      return give_again(*x, file);
    says = named_for_others(*x);
    device = x->device;
    // Keeps the memory during the call to the worker, which may take long.
    ++x->handles;
  }
  auto code = sharing().lend(memory_id{handle}, device, says.what, says.layout);
  auto made = code == CUDA_SUCCESS
                  ? make_descriptor(says)
                  : result<descriptor_pair>{cuda_fault(code, {})};
  std::unique_lock guard{mutex_};
  auto& x = memories_.at(handle);
  --x.handles;
  if (made) {
    std::erase_if(x.ends, [](auto& each) { return !is_given(each); });
    x.ends.push_back(std::move(made->kept));
    file = made->given.release();
  }
  forget_unused(handle);
  return made ? CUDA_SUCCESS : cuda_code(made.why());
}

CUresult virtual_memory::take_own(const share_name& what,
                                  CUmemGenericAllocationHandle& out) {
  std::unique_lock guard{mutex_};
  auto known = memories_.find(what.number);
  if (known == memories_.end() || known->second.foreign ||
      known->second.says.what.serial != what.serial)
    return CUDA_ERROR_INVALID_VALUE;
  ++known->second.handles;
  given_away_.erase(known->first);
  out = known->first;
  return CUDA_SUCCESS;
}

CUresult virtual_memory::take(int file, CUmemGenericAllocationHandle& out) {
  auto says = read_descriptor(file, share_descriptor::of_memory);
  if (!says)
    return CUDA_ERROR_INVALID_VALUE;
  if (says->what.session == sharing().own())
    return take_own(says->what, out);
  auto kept = duplicate_of(file);
  if (!kept)
    return CUDA_ERROR_OPERATING_SYSTEM;
  auto device = device_named(says->device);
  memory made{.bytes =
                  share_layout::unpack(says->layout).granules * granule_bytes,
              .device = device,
              .foreign = true};
  made.what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.what.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  made.what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  made.ends.push_back(std::move(kept));
  auto id = [&] {
    std::unique_lock guard{mutex_};
    return ++last_memory_;
  }();
  if (auto code = sharing().borrow(*says, memory_id{id}, device);
      code != CUDA_SUCCESS)
    return code == CUDA_ERROR_MAP_FAILED ? CUDA_ERROR_NOT_SUPPORTED : code;
  std::unique_lock guard{mutex_};
  memories_.emplace(id, std::move(made));
  out = id;
  return CUDA_SUCCESS;
}

CUmemAllocationHandleType
virtual_memory::handle_types(device_address at) const {
  std::shared_lock guard{mutex_};
  auto known = mapping_at(at);
  return known == mappings_.end()
             ? CU_MEM_HANDLE_TYPE_NONE
             : memories_.at(known->second.memory).what.requestedHandleTypes;
}

CUresult virtual_memory::retain(const void* at,
                                CUmemGenericAllocationHandle& out) {
  std::unique_lock guard{mutex_};
  auto known = mapping_at(reinterpret_cast<std::uintptr_t>(at));
  if (known == mappings_.end())
    return CUDA_ERROR_INVALID_VALUE;
  out = known->second.memory;
  ++memories_.at(out).handles;
  return CUDA_SUCCESS;
}

CUresult virtual_memory::properties(CUmemGenericAllocationHandle handle,
                                    CUmemAllocationProp& out) const {
  std::shared_lock guard{mutex_};
  auto known = memories_.find(handle);
  if (known == memories_.end() || known->second.handles == 0)
    return CUDA_ERROR_INVALID_VALUE;
  out = known->second.what;
  return CUDA_SUCCESS;
}

// -- both
// -------------------------------------------------------------------------

CUresult virtual_memory::map(CUdeviceptr at, std::uint64_t bytes,
                             std::uint64_t offset,
                             CUmemGenericAllocationHandle handle) {
  std::unique_lock guard{mutex_};
  auto* known = named(handle);
  if (known == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  auto& x = *known;
  if (bytes == 0 || !is_whole(bytes) || !is_whole(at))
    return CUDA_ERROR_INVALID_VALUE;
  // As the driver, map the whole memory or nothing (seen with driver 580).
  if (bytes != x.bytes || offset != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  auto* place = reserved(at, bytes);
  if (place == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  // Each device has a window of its own.
  if (x.host != 0 ? !can_map_host(place->device, x.what.location.type)
                  : place->device != x.device)
    return CUDA_ERROR_NOT_SUPPORTED;
  auto next = mappings_.lower_bound(at);
  if ((next != mappings_.end() && next->first < at + bytes) ||
      mapping_at(at) != mappings_.end())
    return CUDA_ERROR_INVALID_VALUE;
  if (x.host == 0) {
    here().send(call::memory_map{{memory_id{handle}}, at, bytes}, x.device);
  } else {
    if (auto code = show_view(at, x.host, bytes); code != CUDA_SUCCESS) {
      hide_view(at, bytes);
      return code;
    }
    here().send(call::host_map{x.host, at, bytes}, place->device);
    on_host_.fetch_add(1);
  }
  mappings_.emplace(at,
                    mapping{bytes, handle, next_serial(), place->device, {}});
  ++x.mappings;
  return CUDA_SUCCESS;
}

virtual_memory::mapping_map::const_iterator
virtual_memory::mapping_at(device_address at) const {
  auto next = mappings_.upper_bound(at);
  if (next == mappings_.begin())
    return mappings_.end();
  auto i = std::prev(next);
  return at - i->first < i->second.bytes ? i : mappings_.end();
}

std::pair<virtual_memory::mapping_map::iterator,
          virtual_memory::mapping_map::iterator>
virtual_memory::whole_mappings(device_address at, std::uint64_t bytes) {
  auto first = mappings_.find(at);
  auto last = first;
  auto end = at + bytes;
  for (auto next = at; last != mappings_.end() && next < end; ++last) {
    if (last->first != next || last->second.bytes > end - next)
      break;
    next += last->second.bytes;
    if (next == end)
      return {first, std::next(last)};
  }
  return {mappings_.end(), mappings_.end()};
}

CUresult virtual_memory::unmap(CUdeviceptr at, std::uint64_t bytes) {
  auto device = here().device_of(at);
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  // The next synchronisation returns the error of the work.
  if (any_on_host())
    wait_for_devices();
  else
    (void)here().synchronise(*device);
  std::unique_lock guard{mutex_};
  auto [first, last] = whole_mappings(at, bytes);
  if (first == last) {
    // An unmapping where nothing is mapped succeeds (seen with driver 580).
    auto next = mappings_.lower_bound(at);
    auto empty = mapping_at(at) == mappings_.end() &&
                 (next == mappings_.end() || next->first >= at + bytes);
    return empty && bytes != 0 && is_whole(at) && is_whole(bytes) &&
                   reserved(at, bytes) != nullptr
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  }
  while (first != last) {
    auto handle = first->second.memory;
    synchronous().forget(first->first);
    here().send(call::memory_unmap{first->first, first->second.bytes}, *device);
    if (memories_.at(handle).host != 0) {
      hide_view(first->first, first->second.bytes);
      on_host_.fetch_sub(1);
    }
    first = mappings_.erase(first);
    --memories_.at(handle).mappings;
    forget_unused(handle);
  }
  return CUDA_SUCCESS;
}

/// Checks one wish for access to a mapping.
CUresult virtual_memory::check_access(const CUmemAccessDesc& wanted,
                                      const memory& to) {
  auto at = wanted.location.type;
  auto known = device_of(wanted.location).has_value();
  if (!known && at == CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_DEVICE;
  // The host has no access to a device's memory, and may be told so.
  if (!known &&
      (!is_host(wanted.location) ||
       (to.host == 0 && wanted.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)))
    return CUDA_ERROR_NOT_SUPPORTED;
  return wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
                 wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                 wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

/// Gives access to a mapping. Devices reach each other's windows, so whatever
/// one of them may do with memory of the host, the window's own device may.
CUresult virtual_memory::give_access(device_address at, mapping& x,
                                     const CUmemAccessDesc& wanted) {
  auto host = memories_.at(x.memory).host;
  if (is_host(wanted.location)) {
    if (host == 0)
      return CUDA_SUCCESS;
    x.access[the_host] = wanted.flags;
    return protect_view(at, x.bytes, wanted.flags);
  }
  x.access[wanted.location.id] = wanted.flags;
  auto flags = wanted.flags;
  if (host == 0) {
    if (wanted.location.id != x.device)
      return CUDA_SUCCESS;
  } else {
    for (auto& [by, each] : x.access)
      if (by != the_host)
        flags = std::max(flags, each);
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
      zero_copy().note(host);
  }
  here().send(
      call::memory_access{at, x.bytes, static_cast<std::uint32_t>(flags)},
      x.device);
  return CUDA_SUCCESS;
}

CUresult virtual_memory::set_access(CUdeviceptr at, std::uint64_t bytes,
                                    const CUmemAccessDesc* wanted,
                                    std::size_t count) {
  if (wanted == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const std::span all{wanted, count};
  std::unique_lock guard{mutex_};
  auto [first, last] = whole_mappings(at, bytes);
  if (first == last) {
    // The wishes are checked first, as if they were for memory of a device.
    for (const auto& each : all)
      if (auto code = check_access(each, {}); code != CUDA_SUCCESS)
        return code;
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto i = first; i != last; ++i)
    for (const auto& each : all)
      if (auto code = check_access(each, memories_.at(i->second.memory));
          code != CUDA_SUCCESS)
        return code;
  for (; first != last; ++first)
    for (const auto& each : all)
      if (auto code = give_access(first->first, first->second, each);
          code != CUDA_SUCCESS)
        return code;
  return CUDA_SUCCESS;
}

CUresult virtual_memory::access(CUdeviceptr at, CUmemLocation by,
                                unsigned long long& out) const {
  if (!device_of(by) && !is_host(by))
    return CUDA_ERROR_INVALID_DEVICE;
  std::shared_lock guard{mutex_};
  auto known = mapping_at(at);
  if (known == mappings_.end())
    return CUDA_ERROR_INVALID_VALUE;
  auto access_of = [&](int who) {
    auto flags = known->second.access.find(who);
    return flags == known->second.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE
                                               : flags->second;
  };
  auto flags = access_of(is_host(by) ? the_host : by.id);
  // Where the host has no access, driver 580 tells that of the device with the
  // number in the location, but not for a node of the host.
  if (by.type == CU_MEM_LOCATION_TYPE_HOST &&
      flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
    flags = access_of(by.id);
  out = static_cast<unsigned long long>(flags);
  return CUDA_SUCCESS;
}

std::optional<allocation> virtual_memory::find(device_address at) const {
  std::shared_lock guard{mutex_};
  auto known = mapping_at(at);
  if (known == mappings_.end())
    return std::nullopt;
  return allocation{.address = known->first,
                    .bytes = known->second.bytes,
                    .kind = memory_kind::mapped,
                    .serial = known->second.serial,
                    .device = known->second.device,
                    .host = memories_.at(known->second.memory).host};
}

/// Tells whether the mapping may be used by copies: memory of a device by that
/// device, memory of the host by anybody.
bool virtual_memory::is_open(const mapping& x) const {
  auto host = memories_.at(x.memory).host != 0;
  return std::any_of(x.access.begin(), x.access.end(), [&](auto& each) {
    return each.second != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
           (host || each.first == x.device);
  });
}

bool virtual_memory::usable(device_address at, std::uint64_t bytes) const {
  std::shared_lock guard{mutex_};
  for (auto i = mapping_at(at); i != mappings_.end() && i->first <= at; ++i) {
    if (!is_open(i->second))
      return false;
    auto rest = i->first + i->second.bytes - at;
    if (bytes <= rest)
      return true;
    at += rest;
    bytes -= rest;
  }
  return false;
}

} // namespace vgpu::interposer
