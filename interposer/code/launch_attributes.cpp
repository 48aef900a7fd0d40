#include "interposer/code/launch_attributes.hpp"

#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/stream_attributes.hpp"
#include "interposer/stream/stream_event.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::interposer {

namespace {

/// Tells whether cuda.h lists the attribute as valid for kernel nodes.
bool is_of_nodes(int which) noexcept {
  switch (which) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
  case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
  case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
  case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
  case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
  case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
    return true;
  default:
    return false;
  }
}

/// Returns the event that an attribute names, where a launch may record it.
CUresult find_event(CUevent handle, int flags, unsigned char port,
                    std::vector<launch_event>& out) {
  auto* x = events().find(handle);
  if (x == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  if (flags != CU_EVENT_RECORD_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;
  // Neither times nor other processes can wait for a kernel's part.
  if (x->timed() || (x->flags & CU_EVENT_INTERPROCESS) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  out.push_back({handle, port});
  return CUDA_SUCCESS;
}

/// Checks the preferred clusters, which replace several others. Where the
/// launch asks for no clusters they mean nothing.
bool are_preferred(const CUlaunchAttributeValue& value,
                   const launch_shape& shape) {
  const auto& want = value.preferredClusterDim;
  const auto& have = shape.cluster;
  if ((have.x | have.y | have.z) == 0)
    return true;
  auto multiple = [](std::uint32_t x, std::uint32_t of) {
    return x != 0 && of != 0 && x % of == 0;
  };
  return multiple(want.x, have.x) && multiple(want.y, have.y) &&
         want.z == have.z && shape.grid.x % want.x == 0 &&
         shape.grid.y % want.y == 0;
}

bool is_in_range(int which, const CUlaunchAttributeValue& value,
                 std::uint8_t device) {
  switch (which) {
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: {
    int policy = 0;
    std::memcpy(&policy, &value, sizeof(policy));
    return policy >= CU_CLUSTER_SCHEDULING_POLICY_DEFAULT &&
           policy <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING;
  }
  case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: {
    // A percentage, or CU_SHAREDMEM_CARVEOUT_DEFAULT.
    auto carveout = static_cast<int>(value.sharedMemCarveout);
    return carveout >= CU_SHAREDMEM_CARVEOUT_DEFAULT &&
           carveout <= CU_SHAREDMEM_CARVEOUT_MAX_SHARED;
  }
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
  case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
    return is_possible(device, which, value);
  default:
    return true;
  }
}

/// Tells whether a window lies in the device's memory. Another one is only
/// told.
bool is_on(std::uint8_t device, const CUaccessPolicyWindow& window) {
  auto& session = process::the_session();
  auto base = reinterpret_cast<device_address>(window.base_ptr);
  return window.num_bytes == 0 ||
         (session.device_of(base) == device &&
          session.device_of(base + window.num_bytes - 1) == device);
}

} // namespace

CUresult launch_attributes::take(attribute_use use, std::uint8_t device,
                                 const CUlaunchConfig& config,
                                 launch_shape& shape) {
  if (config.numAttrs != 0 && config.attrs == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    // The program may pass any number.
    int which = 0;
    std::memcpy(&which, &config.attrs[i].id, sizeof(which));
    if (auto code = set(use, device, which, config.attrs[i].value, shape);
        code != CUDA_SUCCESS)
      return code;
  }
  auto preferred = kept_.find(CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION);
  return preferred == kept_.end() || are_preferred(preferred->second, shape)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult launch_attributes::set(attribute_use use, std::uint8_t device,
                                int which, const CUlaunchAttributeValue& value,
                                launch_shape& shape) {
  if (use == attribute_use::node && !is_of_nodes(which))
    return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
  case CU_LAUNCH_ATTRIBUTE_IGNORE:
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    shape.cooperative = value.cooperative != 0;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    shape.cluster = {value.clusterDim.x, value.clusterDim.y,
                     value.clusterDim.z};
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: {
    const auto& x = value.programmaticEvent;
    return find_event(x.event, x.flags,
                      x.triggerAtBlockStart != 0
                          ? CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER
                          : CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                      events_);
  }
  case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: {
    const auto& x = value.launchCompletionEvent;
    return find_event(x.event, x.flags, CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER,
                      events_);
  }
  case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE: {
    // Only a graph on the device could be updated there.
    auto wanted = value.deviceUpdatableKernelNode.deviceUpdatable;
    return use == attribute_use::launch || (wanted != 0 && wanted != 1)
               ? CUDA_ERROR_INVALID_VALUE
           : wanted == 1 ? CUDA_ERROR_NOT_SUPPORTED
                         : CUDA_SUCCESS;
  }
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
  case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
  case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
  case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
  case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
    if (!is_in_range(which, value, device))
      return CUDA_ERROR_INVALID_VALUE;
    kept_.insert_or_assign(which, value);
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult launch_attributes::get(int which, const launch_shape& shape,
                                CUlaunchAttributeValue& out) const {
  if (!is_of_nodes(which))
    return CUDA_ERROR_INVALID_VALUE;
  out = {};
  if (auto known = kept_.find(which); known != kept_.end())
    out = known->second;
  else if (which == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
    out.cooperative = shape.cooperative ? 1 : 0;
  else if (which == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
    out.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
  else if (which == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)
    out.memSyncDomainMap = stream_attributes{}.domains;
  return CUDA_SUCCESS;
}

void launch_attributes::inherit(int which,
                                const CUlaunchAttributeValue& value) {
  kept_.emplace(which, value);
}

launch_attributes launch_attributes::of_node() const {
  launch_attributes out;
  for (const auto& [which, value] : kept_)
    if (is_of_nodes(which))
      out.kept_.emplace(which, value);
  return out;
}

bool launch_attributes::overlaps() const noexcept {
  auto known =
      kept_.find(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  return known != kept_.end() &&
         known->second.programmaticStreamSerializationAllowed != 0;
}

int launch_attributes::priority() const noexcept {
  auto known = kept_.find(CU_LAUNCH_ATTRIBUTE_PRIORITY);
  return known == kept_.end() ? least_priority : known->second.priority;
}

std::vector<launch_hint> launch_attributes::hints(std::uint8_t device) const {
  std::vector<launch_hint> out;
  for (const auto& [which, value] : kept_) {
    if (which == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW &&
        !is_on(device, value.accessPolicyWindow))
      continue;
    launch_hint hint;
    hint.attribute = static_cast<std::uint32_t>(which);
    static_assert(sizeof(hint.value) <= sizeof(value));
    std::memcpy(hint.value.data(), &value, sizeof(hint.value));
    out.push_back(hint);
  }
  return out;
}

} // namespace vgpu::interposer
