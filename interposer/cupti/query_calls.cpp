// CUPTI's functions that ask for numbers, times and texts.
#include "interposer/cupti/activity_buffers.hpp"
#include "interposer/cupti/cupti_entry.hpp"
#include "interposer/cupti/tool.hpp"

using namespace vgpu::cupti;

namespace {

/// CUPTI_API_VERSION of the CUDA versions whose library this one replaces.
constexpr std::uint32_t api_version = VGPU_CUPTI_VERSION;

const char* text_of(code x) noexcept {
  switch (x) {
  case code::success:
    return "CUPTI_SUCCESS";
  case code::invalid_parameter:
    return "CUPTI_ERROR_INVALID_PARAMETER";
  case code::invalid_device:
    return "CUPTI_ERROR_INVALID_DEVICE";
  case code::invalid_context:
    return "CUPTI_ERROR_INVALID_CONTEXT";
  case code::invalid_operation:
    return "CUPTI_ERROR_INVALID_OPERATION";
  case code::out_of_memory:
    return "CUPTI_ERROR_OUT_OF_MEMORY";
  case code::parameter_size_not_sufficient:
    return "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT";
  case code::max_limit_reached:
    return "CUPTI_ERROR_MAX_LIMIT_REACHED";
  case code::not_ready:
    return "CUPTI_ERROR_NOT_READY";
  case code::not_initialized:
    return "CUPTI_ERROR_NOT_INITIALIZED";
  case code::queue_empty:
    return "CUPTI_ERROR_QUEUE_EMPTY";
  case code::invalid_stream:
    return "CUPTI_ERROR_INVALID_STREAM";
  case code::invalid_kind:
    return "CUPTI_ERROR_INVALID_KIND";
  case code::not_supported:
    return "CUPTI_ERROR_NOT_SUPPORTED";
  case code::multiple_subscribers_not_supported:
    return "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
  case code::unknown:
    return "CUPTI_ERROR_UNKNOWN";
  }
  return nullptr;
}

code describe(CUcontext context, std::uint32_t* id, std::uint32_t* device) {
  const auto* by = driver();
  if (by == nullptr)
    return code::not_initialized;
  return by->context(context, id, device) == CUDA_SUCCESS
             ? code::success
             : code::invalid_context;
}

code stream_id(CUcontext context, CUstream stream, bool per_thread,
               std::uint32_t* id) {
  if (id == nullptr)
    return code::invalid_parameter;
  const auto* by = driver();
  if (by == nullptr)
    return code::not_initialized;
  switch (by->stream(context, stream, per_thread ? 1 : 0, id)) {
  case CUDA_SUCCESS:
    return code::success;
  case CUDA_ERROR_INVALID_CONTEXT:
    return code::invalid_context;
  default:
    return code::invalid_stream;
  }
}

} // namespace

VGPU_CUPTI(cuptiGetVersion)(std::uint32_t* version) {
  if (version == nullptr)
    return code::invalid_parameter;
  *version = api_version;
  return code::success;
}

VGPU_CUPTI(cuptiGetTimestamp)(std::uint64_t* time) {
  if (time == nullptr)
    return code::invalid_parameter;
  *time = time_now();
  return code::success;
}

VGPU_CUPTI(cuptiGetContextId)(CUcontext context, std::uint32_t* id) {
  return entry([&] {
    std::uint32_t device = 0;
    return context == nullptr || id == nullptr ? code::invalid_context
                                               : describe(context, id, &device);
  });
}
VGPU_CUPTI(cuptiGetDeviceId)(CUcontext context, std::uint32_t* device) {
  return entry([&] {
    std::uint32_t id = 0;
    return device == nullptr ? code::invalid_parameter
                             : describe(context, &id, device);
  });
}
VGPU_CUPTI(cuptiGetStreamId)
(CUcontext context, CUstream stream, std::uint32_t* id) {
  return entry([&] { return stream_id(context, stream, false, id); });
}
VGPU_CUPTI(cuptiGetStreamIdEx)
(CUcontext context, CUstream stream, std::uint8_t per_thread,
 std::uint32_t* id) {
  return entry([&] { return stream_id(context, stream, per_thread != 0, id); });
}

VGPU_CUPTI(cuptiGetResultString)(code result, const char** text) {
  if (text == nullptr)
    return code::invalid_parameter;
  *text = text_of(result);
  return *text != nullptr ? code::success : code::invalid_parameter;
}
VGPU_CUPTI(cuptiGetErrorMessage)(code result, const char** text) {
  if (text == nullptr)
    return code::invalid_parameter;
  *text = text_of(result);
  return *text != nullptr ? code::success : code::invalid_parameter;
}
VGPU_CUPTI(cuptiGetLastError)() {
  auto out = last_error();
  last_error() = code::success;
  return out;
}

VGPU_CUPTI(cuptiSetThreadIdType)(std::uint32_t type) {
  // Only the system's numbers are told: CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM.
  here().thread_ids = type;
  return code::success;
}
VGPU_CUPTI(cuptiGetThreadIdType)(std::uint32_t* type) {
  if (type == nullptr)
    return code::invalid_parameter;
  *type = here().thread_ids;
  return code::success;
}

VGPU_CUPTI(cuptiDeviceSupported)(CUdevice, int* is) {
  if (is == nullptr)
    return code::invalid_parameter;
  *is = 1;
  return code::success;
}
VGPU_CUPTI(cuptiComputeCapabilitySupported)(int, int, int* is) {
  if (is == nullptr)
    return code::invalid_parameter;
  *is = 1;
  return code::success;
}
VGPU_CUPTI(cuptiDeviceVirtualizationMode)(CUdevice, std::uint32_t* mode) {
  if (mode == nullptr)
    return code::invalid_parameter;
  *mode = 0; // none, so that tools trace
  return code::success;
}
