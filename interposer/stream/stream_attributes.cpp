#include "interposer/stream/stream_attributes.hpp"

#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <bit>

namespace vgpu::interposer {

namespace {

std::uint64_t value_of(const stream& x, CUdevice_attribute which) {
  return static_cast<std::uint64_t>(
      process::the_session().devices()[x.device()].value_of(which));
}

bool is_sound(const stream& x, const CUaccessPolicyWindow& w) {
  auto is_property = [](CUaccessProperty p) {
    return p == CU_ACCESS_PROPERTY_NORMAL ||
           p == CU_ACCESS_PROPERTY_STREAMING ||
           p == CU_ACCESS_PROPERTY_PERSISTING;
  };
  return w.hitRatio >= 0 && w.hitRatio <= 1 && is_property(w.hitProp) &&
         is_property(w.missProp) &&
         w.missProp != CU_ACCESS_PROPERTY_PERSISTING &&
         w.num_bytes <=
             value_of(x, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);
}

/// Sends a window to the device. One that lies elsewhere than in the device's
/// memory is only told.
void send_window(const stream& x, const CUaccessPolicyWindow& w) {
  auto& session = process::the_session();
  auto base = reinterpret_cast<device_address>(w.base_ptr);
  auto bytes = std::uint64_t{w.num_bytes};
  if (bytes != 0 && (session.device_of(base) != x.device() ||
                     session.device_of(base + bytes - 1) != x.device()))
    base = bytes = 0;
  session.send(call::stream_window{{x.wire},
                                   base,
                                   bytes,
                                   std::bit_cast<std::uint32_t>(w.hitRatio),
                                   static_cast<std::uint32_t>(w.hitProp),
                                   static_cast<std::uint32_t>(w.missProp)},
               x.device());
}

bool is_policy(CUsynchronizationPolicy x) {
  return x >= CU_SYNC_POLICY_AUTO && x <= CU_SYNC_POLICY_BLOCKING_SYNC;
}

bool is_domain(CUlaunchMemSyncDomain x) {
  return x == CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT ||
         x == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
}

/// Tells whether a device has these domains. A device without domains takes any
/// map, because it means nothing there.
bool has_domains(const stream& x, const CUlaunchMemSyncDomainMap& map) {
  auto count = value_of(x, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT);
  return count == 0 || (map.default_ < count && map.remote < count);
}

bool is_same(const CUaccessPolicyWindow& a, const CUaccessPolicyWindow& b) {
  return a.base_ptr == b.base_ptr && a.num_bytes == b.num_bytes &&
         a.hitRatio == b.hitRatio && a.hitProp == b.hitProp &&
         a.missProp == b.missProp;
}

} // namespace

CUresult get_attribute(stream& x, CUstreamAttrID which,
                       CUstreamAttrValue& out) {
  std::lock_guard guard{x.attributes_mutex};
  const auto& is = x.attributes;
  switch (which) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    out.accessPolicyWindow = is.window;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    out.syncPolicy = is.waits;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    out.priority = x.priority;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    out.memSyncDomainMap = is.domains;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    out.memSyncDomain = is.domain;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
    out.nvlinkUtilCentricScheduling = is.nvlink;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult set_attribute(stream& x, CUstreamAttrID which,
                       const CUstreamAttrValue& value) {
  std::lock_guard guard{x.attributes_mutex};
  auto& is = x.attributes;
  auto take = [](auto& to, const auto& from, bool sound) {
    if (!sound)
      return CUDA_ERROR_INVALID_VALUE;
    to = from;
    return CUDA_SUCCESS;
  };
  switch (which) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: {
    auto before = is.window;
    const auto& window = value.accessPolicyWindow;
    auto code = take(is.window, window, is_sound(x, window));
    if (code == CUDA_SUCCESS && !is_same(before, window))
      send_window(x, window);
    return code;
  }
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    return take(is.waits, value.syncPolicy, is_policy(value.syncPolicy));
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    x.priority = as_priority(value.priority);
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    return take(is.domains, value.memSyncDomainMap,
                has_domains(x, value.memSyncDomainMap));
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    return take(is.domain, value.memSyncDomain, is_domain(value.memSyncDomain));
  case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
    return take(is.nvlink, value.nvlinkUtilCentricScheduling,
                value.nvlinkUtilCentricScheduling <= 1);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

void copy_attributes(stream& to, stream& from) {
  if (&to == &from)
    return;
  std::scoped_lock guard{to.attributes_mutex, from.attributes_mutex};
  auto changes = !is_same(to.attributes.window, from.attributes.window);
  to.attributes = from.attributes;
  if (changes)
    send_window(to, to.attributes.window);
}

} // namespace vgpu::interposer
