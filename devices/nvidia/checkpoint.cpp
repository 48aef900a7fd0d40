#include "devices/nvidia/checkpoint.hpp"

#include "devices/nvidia/driver_properties.hpp"
#include "devices/nvidia/nvidia_device.hpp"
#include "schema/base/cuda_fault.hpp"

namespace vgpu::device {

namespace nvidia {

namespace {

/// The driver has to lock a process within this time. The process has no work
/// in flight when it is asked to leave.
constexpr unsigned locked_within_ms = 10'000;

fault as_it_was(const std::string& why) {
  return {fault_kind::unsupported, why};
}

result<CUprocessState> state_of(const driver& api, int pid) {
  CUprocessState state{};
  if (auto code = api.cuCheckpointProcessGetState(pid, &state);
      code != CUDA_SUCCESS)
    return api.failed(
        code, "the driver does not report the checkpoint state of the process");
  if (state == CU_PROCESS_STATE_FAILED)
    return cuda_fault(CUDA_ERROR_UNKNOWN,
                      "the driver has lost the GPU state of the process");
  return state;
}

} // namespace

bool can_checkpoint(const driver& api) noexcept {
  return api.cuCheckpointProcessGetState != nullptr &&
         api.cuCheckpointProcessLock != nullptr &&
         api.cuCheckpointProcessCheckpoint != nullptr &&
         api.cuCheckpointProcessRestore != nullptr &&
         api.cuCheckpointProcessUnlock != nullptr;
}

status checkpoint_process(const driver& api, int pid) {
  if (!can_checkpoint(api))
    return as_it_was("the driver cannot checkpoint a process: driver 570 (CUDA "
                     "12.8) or newer is needed");
  auto state = state_of(api, pid);
  if (!state)
    return as_it_was(state.why().what);
  auto ok = status{};
  if (*state == CU_PROCESS_STATE_RUNNING) {
    CUcheckpointLockArgs within{};
    within.timeoutMs = locked_within_ms;
    ok = api.check(api.cuCheckpointProcessLock(pid, &within),
                   "cannot lock the process");
  }
  if (ok && *state != CU_PROCESS_STATE_CHECKPOINTED)
    ok = api.check(
        api.cuCheckpointProcessCheckpoint(pid, nullptr),
        "cannot checkpoint the GPU memory of the process to the host");
  if (ok)
    return {};
  if (auto back = restore_process(api, pid); !back)
    return cuda_fault(CUDA_ERROR_UNKNOWN,
                      ok.why().what + "; " + back.why().what);
  return as_it_was(ok.why().what);
}

status restore_process(const driver& api, int pid) {
  auto state = state_of(api, pid);
  if (!state)
    return state.why();
  if (*state == CU_PROCESS_STATE_CHECKPOINTED)
    if (auto ok = api.check(api.cuCheckpointProcessRestore(pid, nullptr),
                            "cannot restore the GPU memory of the process");
        !ok)
      return ok;
  if (*state == CU_PROCESS_STATE_RUNNING)
    return {};
  return api.check(api.cuCheckpointProcessUnlock(pid, nullptr),
                   "cannot unlock the process");
}

} // namespace nvidia

bool nvidia_can_checkpoint() {
  auto api = nvidia::started_driver();
  return api && nvidia::can_checkpoint(**api);
}

status nvidia_checkpoint(int pid) {
  auto api = nvidia::started_driver();
  if (!api)
    return nvidia::as_it_was(api.why().what);
  return nvidia::checkpoint_process(**api, pid);
}

status nvidia_restore(int pid) {
  auto api = nvidia::started_driver();
  if (!api)
    return api.why();
  return nvidia::restore_process(**api, pid);
}

} // namespace vgpu::device
