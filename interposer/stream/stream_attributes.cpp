#include "interposer/stream/stream_attributes.hpp"

#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <bit>
#include <cstring>

namespace vgpu::interposer {

namespace {

std::uint64_t value_of(std::uint8_t device, CUdevice_attribute which) {
  return static_cast<std::uint64_t>(
      process::the_session().devices()[device].value_of(which));
}

/// Returns the number in a field of the program, which may hold any.
template <class Enum>
int number_in(const Enum& field) {
  static_assert(sizeof(Enum) == sizeof(int));
  int out = 0;
  std::memcpy(&out, &field, sizeof(out));
  return out;
}

bool is_sound(std::uint8_t device, const CUaccessPolicyWindow& w) {
  auto is_property = [](int p) {
    return p >= CU_ACCESS_PROPERTY_NORMAL && p <= CU_ACCESS_PROPERTY_PERSISTING;
  };
  return w.hitRatio >= 0 && w.hitRatio <= 1 &&
         is_property(number_in(w.hitProp)) &&
         is_property(number_in(w.missProp)) &&
         w.missProp != CU_ACCESS_PROPERTY_PERSISTING &&
         w.num_bytes <=
             value_of(device,
                      CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);
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

bool is_policy(int x) {
  return x >= CU_SYNC_POLICY_AUTO && x <= CU_SYNC_POLICY_BLOCKING_SYNC;
}

bool is_domain(int x) {
  return x == CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT ||
         x == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
}

/// Tells whether a device has these domains. A device without domains takes any
/// map, because it means nothing there.
bool has_domains(std::uint8_t device, const CUlaunchMemSyncDomainMap& map) {
  auto count = value_of(device, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT);
  return count == 0 || (map.default_ < count && map.remote < count);
}

bool is_same(const CUaccessPolicyWindow& a, const CUaccessPolicyWindow& b) {
  return a.base_ptr == b.base_ptr && a.num_bytes == b.num_bytes &&
         a.hitRatio == b.hitRatio && a.hitProp == b.hitProp &&
         a.missProp == b.missProp;
}

} // namespace

bool is_possible(std::uint8_t device, int which,
                 const CUlaunchAttributeValue& value) {
  switch (which) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    return is_sound(device, value.accessPolicyWindow);
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    return is_policy(number_in(value.syncPolicy));
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    return has_domains(device, value.memSyncDomainMap);
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    return is_domain(number_in(value.memSyncDomain));
  case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
    return value.nvlinkUtilCentricScheduling <= 1;
  default:
    return true;
  }
}

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
  if (!is_possible(x.device(), which, value))
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard{x.attributes_mutex};
  auto& is = x.attributes;
  switch (which) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    if (!is_same(is.window, value.accessPolicyWindow))
      send_window(x, value.accessPolicyWindow);
    is.window = value.accessPolicyWindow;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    is.waits = value.syncPolicy;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    x.priority = as_priority(value.priority);
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    is.domains = value.memSyncDomainMap;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    is.domain = value.memSyncDomain;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
    is.nvlink = value.nvlinkUtilCentricScheduling;
    return CUDA_SUCCESS;
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
