#include "actors/state/vgpu_state.hpp"

#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <string>

namespace vgpu {

namespace {

status must(bool holds, CUresult code, const char* kind, std::uint64_t handle,
            const char* wrong) {
  if (holds)
    return {};
  return cuda_fault(code, std::string{kind} + " " + std::to_string(handle) +
                              " " + wrong);
}

status must_be_fresh(bool known, const char* kind, std::uint64_t handle) {
  return must(!known && handle != 0, CUDA_ERROR_INVALID_HANDLE, kind, handle,
              "exists already; handles are never reused");
}

status must_be_live(bool known, const char* kind, std::uint64_t handle) {
  return must(known, CUDA_ERROR_INVALID_HANDLE, kind, handle,
              "does not exist on this device");
}

/// Returns the bytes of a module's variables, without the heap of kernels'
/// malloc.
std::uint64_t bytes_of(const std::vector<device::global_info>& all) {
  std::uint64_t out = 0;
  for (const auto& x : all)
    if (x.name != device_heap_name)
      out += x.bytes;
  return out;
}

std::optional<std::uint64_t>
heap_of(const std::vector<device::global_info>& all) {
  for (const auto& x : all)
    if (x.name == device_heap_name)
      return x.bytes;
  return std::nullopt;
}

} // namespace

vgpu_state::vgpu_state(device_address window, std::uint64_t quota)
    : window_(window), quota_(quota), streams_{legacy_stream} {}

// -- handles ------------------------------------------------------------------

status vgpu_state::audit(call::fresh<stream_id> x) const {
  return must_be_fresh(streams_.contains(x.id), "stream", x.id.value);
}
status vgpu_state::audit(call::live<stream_id> x) const {
  return must_be_live(streams_.contains(x.id), "stream", x.id.value);
}
status vgpu_state::audit(call::ended<stream_id> x) const {
  return must_be_live(x.id != legacy_stream && streams_.contains(x.id),
                      "stream", x.id.value);
}
status vgpu_state::audit(call::fresh<event_id> x) const {
  return must_be_fresh(events_.contains(x.id), "event", x.id.value);
}
status vgpu_state::audit(call::live<event_id> x) const {
  return must_be_live(events_.contains(x.id), "event", x.id.value);
}
status vgpu_state::audit(call::ended<event_id> x) const {
  return must_be_live(events_.contains(x.id), "event", x.id.value);
}
status vgpu_state::audit(call::fresh<module_id> x) const {
  return must_be_fresh(modules_.contains(x.id), "module", x.id.value);
}
status vgpu_state::audit(call::live<module_id> x) const {
  return must_be_live(modules_.contains(x.id), "module", x.id.value);
}
status vgpu_state::audit(call::ended<module_id> x) const {
  return must_be_live(modules_.contains(x.id), "module", x.id.value);
}

status vgpu_state::audit(call::fresh<array_id> x) const {
  return must_be_fresh(arrays_.contains(x.id), "array", x.id.value);
}
status vgpu_state::audit(call::ended<array_id> x) const {
  return must_be_live(arrays_.contains(x.id), "array", x.id.value);
}
status vgpu_state::audit(call::fresh<texture_id> x) const {
  return must_be_fresh(textures_.contains(x.id), "texture", x.id.value);
}
status vgpu_state::audit(call::live<texture_id> x) const {
  return must_be_live(textures_.contains(x.id), "texture", x.id.value);
}
status vgpu_state::audit(call::ended<texture_id> x) const {
  return must_be_live(textures_.contains(x.id), "texture", x.id.value);
}

status vgpu_state::audit(call::fresh<memory_id> x) const {
  return must_be_fresh(memories_.contains(x.id), "memory", x.id.value);
}
status vgpu_state::audit(call::live<memory_id> x) const {
  auto known = memories_.find(x.id);
  return must_be_live(known != memories_.end() && known->second.named, "memory",
                      x.id.value);
}
status vgpu_state::audit(call::ended<memory_id> x) const {
  return audit(call::live<memory_id>{x.id});
}

void vgpu_state::add(module_id x, module_state what) {
  account_.add_variables(bytes_of(what.globals));
  if (auto heap = heap_of(what.globals))
    set_heap(*heap);
  modules_.emplace(x, std::move(what));
}

void vgpu_state::remove(module_id x) {
  auto i = modules_.find(x);
  account_.remove_variables(bytes_of(i->second.globals));
  modules_.erase(i);
}

void vgpu_state::set_heap(std::uint64_t bytes) noexcept {
  heap_ = bytes;
  account_.set_heap(bytes);
}

void vgpu_state::replace_variable(const device::global_info& x) {
  for (auto& [id, module] : modules_)
    for (auto& known : module.globals)
      if (known.name == x.name) {
        if (x.name != device_heap_name) {
          account_.remove_variables(known.bytes);
          account_.add_variables(x.bytes);
        }
        known = x;
      }
  if (x.name == device_heap_name)
    set_heap(x.bytes);
}

// -- memory -------------------------------------------------------------------

status vgpu_state::audit_place(device_address address,
                               std::uint64_t bytes) const {
  if (bytes == 0 || bytes > device_placed_offset || address < window_ ||
      address - window_ > device_placed_offset - bytes)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "an allocation of " + std::to_string(bytes) +
                          " bytes does not lie in its vGPU's window");
  if (overlaps(address, bytes))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "an allocation overlaps one that exists");
  return {};
}

status vgpu_state::audit_quota(std::uint64_t bytes) const {
  if (account_.has_room(bytes, quota_))
    return {};
  return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                    "an allocation of " + std::to_string(bytes) +
                        " bytes exceeds the vGPU's quota of " +
                        std::to_string(quota_) + ", of which " +
                        std::to_string(used()) + " are used");
}

status
vgpu_state::audit_variables(const std::vector<device::global_info>& all) const {
  auto bytes = account_.cost_of_variables(bytes_of(all));
  if (auto heap = heap_of(all); heap && *heap > heap_)
    bytes += *heap - heap_;
  return bytes == 0 ? status{} : audit_quota(bytes);
}

status vgpu_state::audit_alloc(device_address address,
                               std::uint64_t bytes) const {
  if (auto ok = audit_place(address, bytes); !ok)
    return ok;
  return audit_quota(account_.cost(address, bytes));
}

bool vgpu_state::overlaps(device_address address, std::uint64_t bytes) const {
  auto end = address + bytes;
  auto touches = [&](const auto& all, auto size_of) {
    auto next = all.lower_bound(address);
    if (next != all.end() && next->first < end)
      return true;
    if (next == all.begin())
      return false;
    auto before = std::prev(next);
    return before->first + size_of(before->second) > address;
  };
  return touches(allocations_, [](std::uint64_t x) { return x; }) ||
         touches(mappings_, [](const mapping_state& x) { return x.bytes; });
}

std::vector<vgpu_state::run> vgpu_state::allocate(device_address address,
                                                  std::uint64_t bytes) {
  reserve(address, bytes);
  return count_granules(address, bytes, 1);
}

status vgpu_state::audit_free(device_address address,
                              std::uint64_t bytes) const {
  auto i = allocations_.find(address);
  if (i == allocations_.end() || i->second != bytes)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "the range to free is not an allocation");
  for (auto& [id, array] : arrays_)
    if (array.address == address)
      return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                        "an array is destroyed, not freed as memory");
  return {};
}

void vgpu_state::reserve(device_address address, std::uint64_t bytes) {
  allocations_.emplace(address, bytes);
  account_.insert(address, bytes);
}

void vgpu_state::unreserve(device_address address, std::uint64_t bytes) {
  allocations_.erase(address);
  account_.erase(address, bytes);
}

status vgpu_state::audit_texture(const texture_spec& x) const {
  switch (x.resource) {
  case CU_RESOURCE_TYPE_ARRAY:
  case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
    auto array = arrays_.find(array_id{x.array});
    if (array == arrays_.end())
      return must_be_live(false, "array", x.array);
    return must(x.level < std::max(1U, array->second.shape.levels),
                CUDA_ERROR_INVALID_VALUE, "array", x.array,
                "has no such level");
  }
  // Memory may be freed behind an object. Only an access shows whether it
  // exists.
  case CU_RESOURCE_TYPE_LINEAR:
  case CU_RESOURCE_TYPE_PITCH2D:
    return {};
  default:
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "a texture of an unknown resource");
  }
}

std::vector<vgpu_state::run> vgpu_state::release(device_address address,
                                                 std::uint64_t bytes) {
  unreserve(address, bytes);
  return count_granules(address, bytes, -1);
}

std::vector<vgpu_state::run> vgpu_state::count_granules(device_address address,
                                                        std::uint64_t bytes,
                                                        int by) {
  std::vector<run> runs;
  auto first = address / granule_bytes;
  auto last = (address + bytes - 1) / granule_bytes;
  for (auto granule = first; granule <= last; ++granule) {
    auto& users = granules_[granule];
    auto changes = by > 0 ? users == 0 : users == 1;
    users += by;
    if (users == 0)
      granules_.erase(granule);
    if (!changes)
      continue;
    auto at = granule * granule_bytes;
    if (!runs.empty() && runs.back().address + runs.back().bytes == at)
      runs.back().bytes += granule_bytes;
    else
      runs.push_back({at, granule_bytes});
  }
  return runs;
}

bool vgpu_state::holds(device_address address, std::uint64_t bytes) const {
  auto inside = [&](device_address begin, std::uint64_t size) {
    return address >= begin && bytes <= size && address - begin <= size - bytes;
  };
  auto next = allocations_.upper_bound(address);
  if (next != allocations_.begin()) {
    auto& [begin, size] = *std::prev(next);
    if (inside(begin, size))
      return true;
  }
  if (maps(address, bytes))
    return true;
  // Variables have the upper part of the window, or lie outside of it where the
  // driver of a real GPU places them.
  if (address - window_ < device_placed_offset)
    return false;
  for (auto& [id, module] : modules_)
    for (auto& x : module.globals)
      if (inside(x.address, x.bytes))
        return true;
  return false;
}

std::optional<std::uint64_t> span_of(const call::box& box,
                                     const call::extent& size) {
  if (size.width == 0 || size.height == 0 || size.depth == 0)
    return 0;
  if (size.height > 1 && box.pitch < size.width)
    return std::nullopt;
  std::uint64_t rows = 0;
  std::uint64_t slices = 0;
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(size.height - 1, box.pitch, &rows) ||
      __builtin_mul_overflow(size.depth - 1, box.slice, &slices) ||
      __builtin_add_overflow(rows, slices, &total) ||
      __builtin_add_overflow(total, size.width, &total))
    return std::nullopt;
  if (size.depth > 1 && box.slice < rows + size.width)
    return std::nullopt;
  return total;
}

} // namespace vgpu
