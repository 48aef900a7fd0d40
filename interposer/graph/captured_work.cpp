#include "interposer/graph/captured_work.hpp"

#include "interposer/graph/capture.hpp"
#include "interposer/stream/stream_attributes.hpp"

namespace vgpu::interposer {

namespace {

/// Tells whether a new stream has this value.
bool is_usual(int which, const CUlaunchAttributeValue& value) {
  constexpr stream_attributes usual;
  switch (which) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    return value.accessPolicyWindow.num_bytes == 0;
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    return value.priority == least_priority;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    return value.memSyncDomainMap.default_ == usual.domains.default_ &&
           value.memSyncDomainMap.remote == usual.domains.remote;
  default:
    return value.memSyncDomain == usual.domain;
  }
}

} // namespace

CUresult capture_launch(stream& in, const launch_request& what) {
  kernel_work made;
  if (auto code = describe(what, in.owner, made); code != CUDA_SUCCESS)
    return code;
  for (auto which :
       {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_LAUNCH_ATTRIBUTE_PRIORITY,
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN}) {
    CUlaunchAttributeValue value{};
    if (get_attribute(in, which, value) == CUDA_SUCCESS &&
        !is_usual(which, value))
      made.with.inherit(which, value);
  }
  return capture_kernel(in, std::move(made), what.with);
}

CUresult capture_transfer(stream& in, const transfer& what) {
  if (is_empty(what.size))
    return CUDA_SUCCESS;
  if (auto code = check_transfer(in, what); code != CUDA_SUCCESS)
    return code;
  return what.async ? capture_work(in, copy_work{what}) : refuse_in_capture(in);
}

CUresult capture_fill(stream& in, const rows& to, std::uint32_t value,
                      std::uint32_t element_bytes, const call::extent& size) {
  if (auto code = check_fill(in, to, element_bytes, size);
      code != CUDA_SUCCESS || is_empty(size))
    return code;
  return capture_work(in, fill_work{{to.address, to.pitch, value, element_bytes,
                                     size.width, size.height}});
}

CUresult capture_operations(stream& in, value_operations what) {
  auto code = check_operations(in.owner, what, true);
  return code == CUDA_SUCCESS
             ? capture_work(in, operations_work{{what.begin(), what.end()}})
             : code;
}

} // namespace vgpu::interposer
