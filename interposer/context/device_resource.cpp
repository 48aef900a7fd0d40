#include "interposer/context/device_resource.hpp"

#include "interposer/context/context_part.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

namespace vgpu::interposer {

namespace {

/// Holds the data of a resource, in the padding of CUdevResource, which the
/// program does not read.
struct carried {
  // A fixed value, which shows that this library made the resource
  std::uint64_t mark;
  std::uint64_t split;
  std::int32_t device;
  std::uint32_t first, count, least, step;
};
constexpr std::uint64_t made_here = 0x7647505553'4d2121;

static_assert(sizeof(carried) <= sizeof(CUdevResource::_internal_padding));

CUresult read(const CUdevResource& from, sm_part& out) noexcept {
  if (from.type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  carried x;
  std::memcpy(&x, from._internal_padding, sizeof x);
  if (x.mark != made_here || x.count != from.sm.smCount || x.count == 0 ||
      x.step == 0)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  out = {x.device, x.first, x.count, x.least, x.step, x.split};
  return CUDA_SUCCESS;
}

void write(const sm_part& what, CUdevResource& out) noexcept {
  carried x{made_here,  what.split, what.device, what.first,
            what.count, what.least, what.step};
  std::memset(&out, 0, sizeof out);
  out.type = CU_DEV_RESOURCE_TYPE_SM;
  std::memcpy(out._internal_padding, &x, sizeof x);
  out.sm.smCount = what.count;
  // A part that cannot be cut has no smallest size and no step.
  if (what.split == 0) {
    out.sm.minSmPartitionSize = what.least;
    out.sm.smCoscheduledAlignment = what.step;
  }
}

std::uint64_t next_split() noexcept {
  return context_part::get().last_split.fetch_add(1,
                                                  std::memory_order_relaxed) +
         1;
}

} // namespace

sm_part whole_device(int device, const device_facts& facts) noexcept {
  auto major = facts.value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  sm_part out;
  out.device = device;
  out.count = static_cast<unsigned>(
      facts.value_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  // The documentation lists these values for each generation.
  out.least = major >= 9 ? 8 : major == 8 ? 4 : 2;
  out.step = major >= 9 ? 8 : 2;
  return out;
}

CUresult tell(const sm_part& what, CUdevResourceType type,
              CUdevResource* out) noexcept {
  if (out == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  write(what, *out);
  return CUDA_SUCCESS;
}

CUresult cut(const sm_part& from, unsigned flags, unsigned least,
             sm_split& out) noexcept {
  constexpr unsigned contrary =
      CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
      CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
  if ((flags & contrary) == contrary)
    return CUDA_ERROR_INVALID_VALUE;
  if (from.split != 0 || least > from.count)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  auto by = from;
  if ((flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0)
    by.least = by.step = std::min(from.step, 2U);
  auto wanted = std::max(least, by.least);
  by.count = std::min((wanted + by.step - 1) / by.step * by.step, from.count);
  out = {from.count / by.count, by};
  return CUDA_SUCCESS;
}

CUresult split(CUdevResource* out, unsigned* groups, const CUdevResource* from,
               CUdevResource* rest, unsigned flags, unsigned least) noexcept {
  if (groups == nullptr || from == nullptr || (out != nullptr && *groups == 0))
    return CUDA_ERROR_INVALID_VALUE;
  sm_part whole;
  if (auto code = read(*from, whole); code != CUDA_SUCCESS)
    return code;
  sm_split into;
  if (auto code = cut(whole, flags, least, into); code != CUDA_SUCCESS)
    return code;
  if (out == nullptr) {
    *groups = into.groups;
    return CUDA_SUCCESS;
  }
  *groups = std::min(*groups, into.groups);
  auto part = into.group;
  part.split = next_split();
  for (unsigned i = 0; i < *groups; ++i, part.first += part.count)
    write(part, out[i]);
  if (rest == nullptr)
    return CUDA_SUCCESS;
  part.count = whole.count - *groups * part.count;
  if (part.count != 0)
    write(part, *rest);
  else
    // A resource of zeros has no type.
    std::memset(rest, 0, sizeof *rest);
  return CUDA_SUCCESS;
}

handle_table<sm_part>& resource_descriptors() noexcept {
  return context_part::get().resource_descriptors;
}

CUresult join(std::span<const CUdevResource> parts, sm_part& out) {
  std::vector<sm_part> all(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (auto code = read(parts[i], all[i]); code != CUDA_SUCCESS)
      return code;
    if (all[i].device != all[0].device)
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  }
  std::ranges::sort(all, {}, &sm_part::first);
  out = all.front();
  out.count = 0;
  // The end of the counted multiprocessors
  unsigned end = 0;
  for (const auto& x : all) {
    auto from = std::max(end, x.first);
    auto to = std::max(end, x.first + x.count);
    out.count += to - from;
    end = to;
  }
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer
