#include "devices/nvidia/nvidia_device.hpp"

#include "devices/interface/change_unit.hpp"
#include "devices/interface/condition_unit.hpp"
#include "devices/interface/memory_unit.hpp"
#include "devices/interface/sharing_unit.hpp"
#include "devices/interface/tensor_map_unit.hpp"
#include "devices/interface/texture_unit.hpp"
#include "devices/interface/timing_unit.hpp"
#include "devices/interface/trace_unit.hpp"
#include "devices/interface/tuning_unit.hpp"
#include "devices/interface/value_unit.hpp"
#include "devices/nvidia/driver/conditions.hpp"
#include "devices/nvidia/driver/kernel_text.hpp"
#include "devices/nvidia/driver/modules.hpp"
#include "devices/nvidia/driver/tensor_maps.hpp"
#include "devices/nvidia/driver_properties.hpp"
#include "devices/nvidia/memory/arrays.hpp"
#include "devices/nvidia/memory/device_copies.hpp"
#include "devices/nvidia/memory/fingerprints.hpp"
#include "devices/nvidia/memory/physical_handles.hpp"
#include "devices/nvidia/memory/window.hpp"
#include "devices/nvidia/streams/completions.hpp"
#include "devices/nvidia/streams/late_drops.hpp"
#include "devices/nvidia/streams/streams.hpp"
#include "devices/nvidia/streams/work_trace.hpp"
#include "schema/base/cluster_shapes.hpp"
#include "schema/base/cuda_fault.hpp"

#include <cstring>
#include <map>

namespace vgpu::device {

namespace {

using namespace nvidia;

/// The error for completions that remain when the device is closed. Kernels may
/// still run then, so what they use must stay.
constexpr auto closing = CUDA_ERROR_CONTEXT_IS_DESTROYED;

/// Tells whether the driver refuses everything in the context after this error
/// (CUDA driver API, CUresult: "the process must be terminated and
/// relaunched").
bool is_sticky(CUresult x) {
  switch (x) {
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_CONTAINED:
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_TENSOR_MEMORY_LEAK:
  case CUDA_ERROR_DEVICE_UNAVAILABLE:
    return true;
  default:
    return false;
  }
}

/// Holds a launch's shape in the driver's form. It points into itself.
struct launch_config {
  launch_config(const launch& x, CUstream in) {
    shape.gridDimX = x.grid.x;
    shape.gridDimY = x.grid.y;
    shape.gridDimZ = x.grid.z;
    shape.blockDimX = x.block.x;
    shape.blockDimY = x.block.y;
    shape.blockDimZ = x.block.z;
    shape.sharedMemBytes = x.dynamic_shared;
    shape.hStream = in;
    shape.attrs = attributes.data();
    // Clusters of one block count too, where the launch asks for them, because
    // kernels can see that.
    if (!is_none(x.cluster)) {
      auto& a = attributes[shape.numAttrs++];
      a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      a.value.clusterDim = {x.cluster.x, x.cluster.y, x.cluster.z};
    }
    if (x.cooperative) {
      auto& a = attributes[shape.numAttrs++];
      a.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
      a.value.cooperative = 1;
    }
    for (const auto& hint : x.hints) {
      if (shape.numAttrs == attributes.size())
        break;
      auto& a = attributes[shape.numAttrs++];
      a.id = static_cast<CUlaunchAttributeID>(hint.attribute);
      std::memcpy(&a.value, hint.value.data(), sizeof(hint.value));
    }
  }
  launch_config(const launch_config&) = delete;
  launch_config& operator=(const launch_config&) = delete;

  CUlaunchConfig shape = {};
  std::array<CUlaunchAttribute, 2 + most_launch_hints> attributes = {};
};

/// Tells whether the device with this ordinal reaches this one's memory.
bool reaches(const driver& api, int ordinal, CUdevice here) noexcept {
  CUdevice other = 0;
  int can = 0;
  return api.cuDeviceGet(&other, ordinal) == CUDA_SUCCESS &&
         (other == here ||
          (api.cuDeviceCanAccessPeer(&can, other, here) == CUDA_SUCCESS &&
           can != 0));
}

/// Returns a device's compute capability, as 90 for 9.0.
unsigned arch_of(const properties& x) {
  auto value = [&](CUdevice_attribute which) {
    auto found = x.attributes.find(which);
    return found == x.attributes.end() ? 0 : found->second;
  };
  return static_cast<unsigned>(
      value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
      value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

class nvidia_device final : public device,
                            public texture_unit,
                            public memory_unit,
                            public value_unit,
                            public condition_unit,
                            public sharing_unit,
                            public change_unit,
                            public tensor_map_unit,
                            public tuning_unit,
                            public timing_unit,
                            public trace_unit {
public:
  nvidia_device(driver_ptr api, CUdevice handle, CUcontext context,
                properties props, const std::vector<CUdevice>& reached_by)
      : api_(std::move(api)), handle_(handle), context_(context),
        props_(std::move(props)), text_(kernel_text::instance()),
        window_(api_, handle, reached_by), physical_(api_, handle, window_),
        conditions_(api_), fingerprints_(api_, handle, window_), arrays_(api_),
        modules_(api_, arch_of(props_)), times_(api_), trace_(api_),
        drops_(streams_),
        waits_(api_, context,
               {[this](CUevent x, CUresult how) { settled(x, how); },
                [this] { settle_times(); }}),
        streams_(api_, waits_, times_, [this] { return modules_.prints(); }),
        copies_(api_, streams_, waits_, arrays_) {}

  // The destructor leaves the context to the end of the process, because
  // releasing it would wait for kernels that may never end.

  const properties& props() const noexcept override { return props_; }
  CUresult error() const noexcept override {
    return static_cast<CUresult>(error_.load(std::memory_order_relaxed));
  }

  // -- memory -----------------------------------------------------------------

  status reserve_window(device_address base) override {
    enter();
    if (auto ok = streams_.open(); !ok)
      return noted(ok);
    auto ok = noted(window_.reserve(base));
    if (ok) {
      (void)fingerprints_.open();
      (void)times_.load();
      conditions_.open(props_);
    }
    return ok;
  }

  // -- change tracking
  // ----------------------------------------------------------

  bool tells_at_marks() const noexcept override { return true; }
  result<std::uint64_t> mark() override {
    enter();
    return fingerprints_.mark();
  }
  bool changed_since(device_address address,
                     std::uint64_t mark) const noexcept override {
    return fingerprints_.changed_since(address, mark);
  }
  void peek(std::span<peeked> pieces) override {
    enter();
    fingerprints_.peek(pieces);
  }
  std::unique_ptr<pinned_memory> pin(std::span<std::byte> memory) override {
    enter();
    return fingerprints_.pin(memory, [this] { enter(); });
  }
  void read_at_rest(std::span<peeked> pieces) override {
    enter();
    fingerprints_.read_at_rest(pieces);
  }
  result<std::unique_ptr<contents_room>>
  make_room(std::uint64_t granules) override {
    enter();
    return fingerprints_.make_room(granules, [this] { enter(); });
  }
  std::uint64_t kept_a_second() const noexcept override {
    return 350'000'000'000; // an H200 (docs/performance/recovery.md)
  }

  status map(device_address address, std::uint64_t bytes) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(window_.map(address, bytes));
  }

  status unmap(device_address address, std::uint64_t bytes) override {
    enter();
    if (auto ok = window_.retire(address, bytes); !ok)
      return ok;
    auto release = [this, address, bytes](CUresult how) {
      if (how != closing)
        window_.release(address, bytes);
    };
    streams_.when_all_done(error(), release, completion_mode::cleanup);
    return {};
  }

  status attach_host(device_address address, std::uint64_t bytes) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(copies_.attach(address, bytes));
  }

  status detach_host(device_address address, std::uint64_t bytes) override {
    enter();
    return noted(copies_.detach(address, bytes));
  }

  void reads_into(std::span<std::byte> memory) override {
    copies_.reads_into(memory);
  }

  // -- memory that the program maps by itself
  // -----------------------------------

  status create_memory(memory_id id, std::uint64_t bytes) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(physical_.create(id, bytes));
  }
  status destroy_memory(memory_id id) override {
    enter();
    conditions_.forget(id);
    return noted(physical_.destroy(id));
  }
  status map_memory(device_address address, std::uint64_t bytes,
                    memory_id id) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(physical_.map(address, bytes, id));
  }
  status map_host(device_address, std::uint64_t, device_address) override {
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                      "the driver maps only its own memory into the window");
  }
  status unmap_memory(device_address address, std::uint64_t bytes) override {
    enter();
    return noted(physical_.unmap(address, bytes));
  }
  status set_access(device_address address, std::uint64_t bytes,
                    memory_access access) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(physical_.set_access(address, bytes, access));
  }

  status set_conditions_in(memory_id memory, device_address address,
                           device_address place) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(conditions_.set(memory, address, place));
  }

  // -- sharing with other processes
  // ---------------------------------------------

  bool shares_at_rest() const noexcept override { return false; }
  bool is_reached_by(std::uint32_t pgpu) const noexcept override {
    return reaches(*api_, static_cast<int>(pgpu), handle_);
  }
  result<shared_granules> share_memory(device_address address,
                                       std::uint64_t bytes) override {
    if (auto ok = ready(); !ok)
      return ok.why();
    return noted(window_.share(address, bytes));
  }
  result<shared_granules> share_memory(memory_id id) override {
    if (auto ok = ready(); !ok)
      return ok.why();
    return noted(physical_.share(id));
  }
  status import_memory(memory_id id, std::uint64_t bytes,
                       const shared_object& from) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(physical_.import(id, bytes, from));
  }
  result<shared_object> share_event(event_id id) override {
    if (auto ok = ready(); !ok)
      return ok.why();
    return noted(streams_.share(id));
  }
  status import_event(event_id id, const shared_object& from) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(streams_.import(id, from));
  }

  // -- arrays, textures and surfaces ------------------------------------------

  bool arrays_in_memory() const noexcept override { return false; }

  status create_array(array_id id, const array_shape& shape,
                      device_address at) override {
    if (auto ok = ready(); !ok)
      return ok;
    drops_.finish();
    return noted(arrays_.create(id, shape, at));
  }

  status destroy_array(array_id id) override {
    enter();
    auto gone = arrays_.take(id);
    if (!gone)
      return gone.why();
    drops_.add(std::move(*gone), error());
    return {};
  }

  result<std::uint64_t> create_texture(texture_id id,
                                       const texture_spec& what) override {
    if (auto ok = ready(); !ok)
      return ok.why();
    auto got = arrays_.create_texture(id, what);
    if (!got)
      (void)noted(got.why());
    return got;
  }

  status name_texture(texture_id id, std::uint64_t value) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(arrays_.name_texture(id, value));
  }

  // The object is destroyed at once, as with the program's own driver. So the
  // values of later objects depend on the calls alone, and a replay gets the
  // same ones.
  status destroy_texture(texture_id id) override {
    enter();
    return noted(arrays_.destroy_texture(id));
  }

  // -- tensor maps ------------------------------------------------------------

  result<tensor_map> encode(const tensor_map_spec& what) override {
    if (auto ok = ready(); !ok)
      return ok.why();
    return noted(encode_tensor_map(*api_, what));
  }

  // -- modules ----------------------------------------------------------------

  result<module_info> load_module(module_id id,
                                  std::span<const std::byte> image,
                                  const jit_settings& how) override {
    if (auto ok = ready(); !ok)
      return ok.why();
    drops_.finish();
    auto got = modules_.load(id, image, how);
    if (!got)
      (void)noted(got.why());
    return got;
  }

  result<std::string> check_part(std::span<const std::byte> image,
                                 const jit_settings& how) override {
    if (auto ok = ready(); !ok)
      return ok.why();
    auto got = modules_.check(image, how);
    if (!got)
      (void)noted(got.why());
    return got;
  }

  status unload_module(module_id id) override {
    enter();
    auto gone = modules_.take(id);
    if (!gone)
      return gone.why();
    drops_.add(std::move(*gone), error());
    return {};
  }

  /// Reports variables alone. The driver reports how much memory of the GPU is
  /// free for all its users, but not what a context or code takes, and it loads
  /// code when it is first used.
  side_memory beside() const override {
    return {modules_.variable_bytes(), {}, {}};
  }

  status set_kernel_attribute(module_id id, std::uint32_t kernel, int attribute,
                              int value) override {
    auto f = kernel_of(id, kernel);
    if (!f)
      return f.why();
    return noted(api_->check(
        api_->cuFuncSetAttribute(
            *f, static_cast<CUfunction_attribute>(attribute), value),
        "cuFuncSetAttribute"));
  }

  result<std::uint32_t> active_clusters(const launch& shape) override {
    auto f = kernel_of(shape.module, shape.kernel);
    if (!f)
      return f.why();
    launch_config config{shape, nullptr};
    auto count = 0;
    if (auto ok = noted(api_->check(
            api_->cuOccupancyMaxActiveClusters(&count, *f, &config.shape),
            "cuOccupancyMaxActiveClusters"));
        !ok)
      return ok.why();
    return static_cast<std::uint32_t>(count);
  }

  // -- limits and hints
  // ---------------------------------------------------------

  result<heap_change> set_limit(CUlimit limit, std::uint64_t value) override {
    if (auto ok = ready(); !ok)
      return ok.why();
    if (std::size_t now = 0; !first_limits_.contains(limit) &&
                             api_->cuCtxGetLimit(&now, limit) == CUDA_SUCCESS)
      first_limits_.emplace(limit, now);
    if (auto ok = noted(
            api_->check(api_->cuCtxSetLimit(limit, value), "cuCtxSetLimit"));
        !ok)
      return ok.why();
    return heap_change{};
  }

  /// The driver may refuse some limits, because its context goes on and kernels
  /// have used what they limit.
  heap_change reset_limits() override {
    enter();
    for (auto [limit, value] : first_limits_)
      (void)api_->cuCtxSetLimit(limit, value);
    return {};
  }

  status set_window(stream_id id, const CUaccessPolicyWindow& what) override {
    if (auto ok = ready(); !ok)
      return ok;
    auto stream = streams_.handle_of(id);
    if (!stream)
      return stream.why();
    CUstreamAttrValue value{};
    value.accessPolicyWindow = what;
    // It is a hint. A device that allows only smaller windows has none here.
    auto code = api_->cuStreamSetAttribute(
        *stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value);
    note(code);
    return {};
  }

  status reset_cache() override {
    if (auto ok = ready(); !ok)
      return ok;
    note(api_->cuCtxResetPersistingL2Cache());
    return {};
  }

  // -- timing
  // -------------------------------------------------------------------

  void time(timed_for whom) noexcept override { times_.time(whom); }
  void delay() noexcept override { times_.delay(); }
  void settle_times() override {
    if (!lost_)
      times_.settle();
  }
  std::chrono::nanoseconds timed(timed_for whom) const noexcept override {
    return times_.total(whom);
  }

  status record(bool on) override {
    if (auto ok = ready(); !ok)
      return ok;
    return trace_.record(on);
  }
  void trace(std::shared_ptr<work_span> what) override {
    trace_.trace(std::move(what));
  }

  // -- streams and events -----------------------------------------------------

  status create_stream(stream_id id, bool non_blocking, int priority) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(streams_.create(id, non_blocking, priority));
  }
  status destroy_stream(stream_id id) override {
    enter();
    return noted(streams_.destroy(id));
  }
  status create_event(event_id id, bool timing) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(streams_.create_event(id, timing));
  }
  status destroy_event(event_id id) override {
    enter();
    return streams_.destroy_event(id);
  }
  status record_event(event_id id, stream_id stream) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(streams_.record(id, stream));
  }
  status wait_event(stream_id stream, event_id id) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(streams_.wait(stream, id));
  }
  result<bool> query_event(event_id id) override {
    enter();
    return streams_.query(id);
  }
  result<float> elapsed(event_id from, event_id to) override {
    enter();
    return streams_.elapsed(from, to);
  }

  void when_done(std::optional<stream_id> stream, completion done) override {
    enter();
    if (hung_)
      return;
    constexpr auto mode = completion_mode::spin_first;
    if (stream)
      streams_.when_done(*stream, error(), std::move(done), mode);
    else
      streams_.when_all_done(error(), std::move(done), mode);
  }
  void when_recorded(event_id id, completion done) override {
    enter();
    if (!hung_)
      streams_.when_recorded(id, error(), std::move(done));
  }
  bool idle(stream_id stream) override {
    enter();
    return streams_.idle(stream);
  }

  // -- work -------------------------------------------------------------------

  status enqueue_launch(stream_id stream, const launch& what) override {
    if (auto ok = ready(); !ok)
      return ok;
    auto f = kernel_of(what.module, what.kernel);
    if (!f)
      return f.why();
    auto in = streams_.work_in(stream);
    if (!in)
      return in.why();
    return noted(traced(stream, [&] {
      return api_->check(start(*in, *f, what), "cuLaunchKernel");
    }));
  }

  status enqueue_write(stream_id stream, device_address to,
                       std::span<const std::byte> bytes,
                       std::shared_ptr<const void>) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(traced(stream, [&] {
      return copies_.write(stream, to, bytes, window_.holds(to));
    }));
  }
  status enqueue_read(stream_id stream, std::span<std::byte> bytes,
                      device_address from, completion done) override {
    if (auto ok = ready(); !ok)
      return ok;
    if (auto place = conditions_.place_of(from); place != 0) [[unlikely]]
      if (auto ok = copies_.copy(stream, {from}, {place}, {bytes.size()}); !ok)
        return noted(ok);
    return noted(traced(stream, [&] {
      return copies_.read(stream, bytes, from, error(), std::move(done));
    }));
  }
  status enqueue_copy(stream_id stream, const pitched& to, const pitched& from,
                      const extent& size) override {
    if (auto ok = ready(); !ok)
      return ok;
    auto ok =
        traced(stream, [&] { return copies_.copy(stream, to, from, size); });
    times_alone(stream, size, 1);
    return noted(ok);
  }
  status enqueue_fill(stream_id stream, const pitched& to, std::uint32_t value,
                      std::uint32_t element_bytes,
                      const extent& size) override {
    if (auto ok = ready(); !ok)
      return ok;
    auto ok = traced(stream, [&] {
      return copies_.fill(stream, to, value, element_bytes, size);
    });
    times_alone(stream, size, element_bytes);
    if (auto place = conditions_.place_of(to.address); place != 0 && ok)
        [[unlikely]]
      ok = copies_.copy(stream, {place}, to, {size.width * element_bytes});
    return noted(ok);
  }

  status enqueue_host(
      stream_id stream,
      std::function<void(std::function<void()> go_on)> start) override {
    if (auto ok = ready(); !ok)
      return ok;
    return noted(drops_.begin_host_call(
        [&] { return streams_.host_call(stream, std::move(start)); }));
  }

  status enqueue_wait(stream_id stream, const awaited_value& what) override {
    if (auto ok = ready(); !ok)
      return ok;
    // The executor's next call enqueues the program's part behind this wait.
    return noted(
        drops_.begin_wait([&] { return streams_.wait(stream, what); }));
  }

  void set_printer(printer to) override {
    std::lock_guard guard{print_mutex_};
    printer_ = std::move(to);
  }

  // -- faults on purpose
  // --------------------------------------------------------

  void inject(injected_fault what) override {
    switch (what) {
    case injected_fault::lost:
      lose(CUDA_ERROR_DEVICE_UNAVAILABLE);
      break;
    case injected_fault::ecc:
      lose(CUDA_ERROR_ECC_UNCORRECTABLE);
      break;
    case injected_fault::hang:
      hung_ = true;
      waits_.freeze();
      break;
    }
  }

private:
  /// Ends the span of a long copy or fill: while the host prepares the next
  /// one, that time must not count as the device's. For short ones two records
  /// of an event would cost more.
  void times_alone(stream_id stream, const extent& size,
                   std::uint64_t element_bytes) {
    if (size.width * size.height * size.depth * element_bytes >= long_copy)
      streams_.pause(stream);
  }

  /// Enqueues work in this stream, and times it where it is traced. The times
  /// are told before a later wait for the work ends.
  template <class Enqueue>
  status traced(stream_id stream, const Enqueue& work) {
    if (!trace_.is_on()) [[likely]]
      return work();
    auto in = streams_.handle_of(stream);
    auto begun = in && trace_.begin(*in);
    auto ok = work();
    if (begun && ok) {
      trace_.end(*in);
      streams_.when_done(stream, error(), [this](CUresult how) {
        if (how != closing && !lost_)
          trace_.settle();
      });
    } else {
      trace_.drop();
    }
    return ok;
  }

  /// Makes the context current. The calling thread may be new to the driver, or
  /// have used another device.
  void enter() {
    thread_local CUcontext here = nullptr;
    if (here == context_) [[likely]]
      return;
    if (api_->cuCtxSetCurrent(context_) == CUDA_SUCCESS)
      here = context_;
  }

  status ready() {
    enter();
    if (lost_) [[unlikely]]
      return cuda_fault(error(), "the device is lost");
    return {};
  }

  void note(CUresult x) {
    std::uint32_t none = 0;
    if (is_sticky(x))
      error_.compare_exchange_strong(none, static_cast<std::uint32_t>(x));
  }

  /// Notes a sticky error. Any call may report an error of earlier work.
  status noted(status x) {
    if (!x) [[unlikely]]
      note(cuda_code(x));
    return x;
  }

  template <class T>
  result<T> noted(result<T> x) {
    if (!x) [[unlikely]]
      note(cuda_code(x.why()));
    return x;
  }

  void lose(CUresult why) {
    lost_ = true;
    note(why);
    waits_.fail(why);
  }

  /// Delivers the text of kernels before the completions of their work run. The
  /// driver writes that text when a thread synchronises.
  void settled(CUevent event, CUresult how) {
    note(how);
    if (lost_)
      return;
    trace_.settle();
    if (how != CUDA_SUCCESS && !reported_.exchange(true))
      (void)api_->cuCtxSynchronize();
    else if (event != nullptr && modules_.prints())
      (void)api_->cuEventSynchronize(event);
    else
      return;
    std::lock_guard guard{print_mutex_};
    text_->deliver(printer_);
  }

  result<CUfunction> kernel_of(module_id id, std::uint32_t kernel) {
    enter();
    if (auto* f = modules_.find(id, kernel); f != nullptr)
      return f;
    return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                      "module " + std::to_string(id.value) + " has no kernel " +
                          std::to_string(kernel));
  }

  CUresult start(CUstream in, CUfunction f, const launch& x) {
    auto size = x.parameters.size();
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER,
                     const_cast<std::byte*>(x.parameters.data()),
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    auto** block = size == 0 ? nullptr : extra;
    if (is_none(x.cluster) && !x.cooperative && x.hints.empty())
      return api_->cuLaunchKernel(f, x.grid.x, x.grid.y, x.grid.z, x.block.x,
                                  x.block.y, x.block.z, x.dynamic_shared, in,
                                  nullptr, block);
    launch_config config{x, in};
    auto code = api_->cuLaunchKernelEx(&config.shape, f, nullptr, block);
    if (code != CUDA_ERROR_INVALID_VALUE || x.hints.empty())
      return code;
    // An older driver, or another GPU than the program knows, may not have an
    // attribute. Without it the kernel computes the same.
    auto plain = x;
    plain.hints = {};
    return start(in, f, plain);
  }

  driver_ptr api_;
  CUdevice handle_;
  CUcontext context_;
  properties props_;
  std::atomic<std::uint32_t> error_{0};
  std::atomic<bool> lost_{false};
  std::atomic<bool> hung_{false};
  /// Tells whether the text that kernels wrote before the error was fetched.
  std::atomic<bool> reported_{false};
  /// Holds the values that limits had before they were set.
  std::map<CUlimit, std::size_t> first_limits_;
  std::shared_ptr<kernel_text> text_;
  std::mutex print_mutex_;
  printer printer_;
  window window_;
  physical_memory physical_;
  conditions conditions_;
  fingerprints fingerprints_;
  arrays arrays_;
  modules modules_;
  timeline times_;
  work_trace trace_;
  late_drops drops_;
  completions waits_; // its thread uses the members above
  streams streams_;
  copies copies_;
};

/// Returns the session's other devices that reach this one's memory.
std::vector<CUdevice> reach(const driver& api, CUdevice here,
                            const std::vector<int>& session) {
  std::vector<CUdevice> out;
  for (auto ordinal : session)
    if (CUdevice other = 0; api.cuDeviceGet(&other, ordinal) == CUDA_SUCCESS &&
                            other != here && reaches(api, ordinal, here))
      out.push_back(other);
  return out;
}

} // namespace

result<std::unique_ptr<device>>
open_nvidia_device(int ordinal, const std::vector<int>& session) {
  auto api = started_driver();
  if (!api)
    return api.why();
  auto& call = **api;
  CUdevice handle = 0;
  if (auto code = call.cuDeviceGet(&handle, ordinal); code != CUDA_SUCCESS)
    return call.failed(code, "NVIDIA device " + std::to_string(ordinal));
  auto props = properties_of(call, handle);
  if (!props)
    return props.why();
  CUcontext context = nullptr;
  if (auto code = call.cuDevicePrimaryCtxRetain(&context, handle);
      code != CUDA_SUCCESS)
    return call.failed(code, "the primary context of NVIDIA device " +
                                 std::to_string(ordinal));
  if (auto code = call.cuCtxSetCurrent(context); code != CUDA_SUCCESS)
    return call.failed(code, "cuCtxSetCurrent");
  return std::unique_ptr<device>{std::make_unique<nvidia_device>(
      *api, handle, context, std::move(*props), reach(call, handle, session))};
}

} // namespace vgpu::device
