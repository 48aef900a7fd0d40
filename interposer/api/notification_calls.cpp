// Entry points for notifications of a device. The only kind says that a process
// has more of a device's memory than it should. A quota prevents that, so the
// notification never comes.
#include "interposer/api/entry.hpp"

#include "interposer/api/driver_state.hpp"
#include "interposer/session/session.hpp"

using namespace vgpu::interposer;

namespace {

handle_table<notification>& notifications() noexcept {
  return api_part::get().notifications;
}

bool is_known_device(CUdevice x) {
  return x >= 0 && static_cast<std::size_t>(x) < here().devices().size();
}

} // namespace

CUresult CUDAAPI
cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
                                  void*, CUasyncCallbackHandle* callback) {
  return guarded([&] {
    if (!is_known_device(device))
      return CUDA_ERROR_INVALID_DEVICE;
    if (callbackFunc == nullptr || callback == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *callback = to_handle<CUasyncCallbackHandle>(
        notifications().add(std::make_unique<notification>(device)));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceUnregisterAsyncNotification(
    CUdevice device, CUasyncCallbackHandle callback) {
  return guarded([&] {
    if (!is_known_device(device))
      return CUDA_ERROR_INVALID_DEVICE;
    auto* known = notifications().find(callback);
    if (known == nullptr || known->device != device)
      return CUDA_ERROR_INVALID_VALUE;
    (void)notifications().remove(callback);
    return CUDA_SUCCESS;
  });
}
