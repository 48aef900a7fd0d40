// Streams, events and capture.
#include "truth_case.hpp"

#include <atomic>
#include <string>

namespace vgpu::test {

namespace {

void streams(report& out) {
  use_device();
  CUstream stream = nullptr;
  out << cuStreamCreate(&stream, 0xff00) << cuStreamCreate(&stream, 0)
      << cuStreamQuery(stream) << cuStreamSynchronize(nullptr)
      << cuStreamDestroy(nullptr);
}

void stream_attributes(report& out) {
  use_device();
  CUstream stream = nullptr;
  unsigned flags = 0;
  int least = 0, greatest = 0, priority = 0;
  out << cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -100)
      << cuStreamGetFlags(stream, &flags)
      << cuCtxGetStreamPriorityRange(&least, &greatest)
      << cuStreamGetPriority(stream, &priority);
  out << "flags" << static_cast<int>(flags) << "range"
      << std::to_string(least) + ".." + std::to_string(greatest) << "priority"
      << priority;
}

void events(report& out) {
  use_device();
  CUevent event = nullptr, untimed = nullptr;
  float ms = 0;
  require(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  out << cuEventCreate(&event, 0xff00) << cuEventCreate(&event, 0)
      << cuEventQuery(event) << cuEventSynchronize(event)
      << cuEventElapsedTime(&ms, event, event);
  require(cuEventRecord(event, nullptr), "cuEventRecord");
  require(cuEventRecord(untimed, nullptr), "cuEventRecord");
  require(cuEventSynchronize(untimed), "cuEventSynchronize");
  out << cuEventElapsedTime(&ms, event, untimed);
}

void bad_events(report& out) {
  use_device();
  CUevent event = nullptr;
  require(cuEventCreate(&event, 0), "cuEventCreate");
  out << cuStreamWaitEvent(nullptr, event, 0) << cuEventRecord(nullptr, nullptr)
      << cuEventDestroy(nullptr);
}

void callback_after_fault(report& out) {
  use_device();
  auto store = kernel(load_kernels(), "store");
  struct {
    std::atomic<bool> goes_on{false}, ran{false}, told{false};
    CUresult status = CUDA_SUCCESS;
  } x;
  using state = decltype(x);
  // The fault comes only when all of the work is in the stream.
  require(cuLaunchHostFunc(
              nullptr,
              [](void* p) { static_cast<state*>(p)->goes_on.wait(false); }, &x),
          "cuLaunchHostFunc");
  out << launch_store(store, 16, 1);
  out << cuLaunchHostFunc(
      nullptr, [](void* p) { static_cast<state*>(p)->ran = true; }, &x);
  out << cuStreamAddCallback(
      nullptr,
      [](CUstream, CUresult status, void* p) {
        auto& at = *static_cast<state*>(p);
        at.status = status;
        at.told = true;
        at.told.notify_all();
      },
      &x, 0);
  x.goes_on = true;
  x.goes_on.notify_all();
  out << cuCtxSynchronize();
  x.told.wait(false);
  out << (x.ran ? "ran" : "did not run") << x.status;
}

CUstream capturing_stream() {
  CUstream stream = nullptr;
  require(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  require(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
          "cuStreamBeginCapture");
  return stream;
}

void capture_and_synchronise(report& out) {
  use_device();
  auto stream = capturing_stream();
  CUgraph graph = nullptr;
  out << cuStreamSynchronize(stream) << cuStreamEndCapture(stream, &graph)
      << cuStreamEndCapture(stream, &graph);
}

void capture_and_allocate(report& out) {
  use_device();
  auto stream = capturing_stream();
  CUgraph graph = nullptr;
  CUdeviceptr p = 0;
  CUstreamCaptureStatus status{};
  out << cuMemAlloc(&p, 16) << cuStreamQuery(stream)
      << cuStreamIsCapturing(stream, &status) << "status" << status
      << cuStreamEndCapture(stream, &graph);
}

constexpr truth_case cases[] = {
    {"streams",
     "StreamCreate(bad flags), StreamCreate, StreamQuery idle, "
     "StreamSynchronize(null), Destroy(null)",
     "CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS "
     "CUDA_ERROR_INVALID_HANDLE",
     streams},
    {"stream_attributes",
     "Stream flags of created(1), priority range and clamped priority",
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS flags 1 range 0..-5 "
     "priority -5",
     stream_attributes},
    {"events",
     "EventCreate(bad flags), EventCreate; Query unrecorded; Synchronize "
     "unrecorded; Elapsed unrecorded; Elapsed disabled timing",
     "CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS "
     "CUDA_ERROR_INVALID_HANDLE CUDA_ERROR_INVALID_HANDLE",
     events},
    {"bad_events",
     "StreamWaitEvent unrecorded; EventRecord null; EventDestroy null",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_HANDLE CUDA_ERROR_INVALID_HANDLE",
     bad_events},
    {"callback_after_fault",
     "behind a kernel that faults: LaunchHostFunc, StreamAddCallback; "
     "CtxSynchronize; the function, the callback's status",
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS CUDA_ERROR_ILLEGAL_ADDRESS "
     "did not run CUDA_ERROR_ILLEGAL_ADDRESS",
     callback_after_fault},
    {"capture_and_synchronise",
     "Capture: sync call while capturing (global), then EndCapture; EndCapture "
     "when not capturing",
     "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED "
     "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED CUDA_ERROR_ILLEGAL_STATE",
     capture_and_synchronise},
    {"capture_and_allocate",
     "Capture: MemAlloc while capturing (global), StreamQuery(captured), "
     "IsCapturing, EndCapture",
     "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED "
     "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED CUDA_SUCCESS status 2 "
     "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     capture_and_allocate},
};

} // namespace

std::span<const truth_case> stream_cases() {
  return cases;
}

} // namespace vgpu::test
