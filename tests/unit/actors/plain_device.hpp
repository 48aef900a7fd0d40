// A device that executes everything at once, on host memory, for tests of the
// layers above devices. Launch (module 1, kernel 0) adds its 32-bit parameter
// and `drift` to the 32-bit word at its 64-bit parameter. With `drift` a device
// gives other results than another. A test may hold up the loading of modules.
// Making a stream waits while a host function runs.
#pragma once

#include "devices/interface/change_unit.hpp"
#include "devices/interface/device.hpp"
#include "devices/interface/tensor_map_unit.hpp"
#include "schema/base/cuda_fault.hpp"
#include "schema/log/session_area.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace vgpu::test {

/// A gate that blocks pass() while it is closed. Thread-safe.
class gate {
public:
  void close() { set(false); }
  void open() { set(true); }

  void pass() {
    std::unique_lock guard{lock_};
    changed_.wait(guard, [this] { return open_; });
  }
  void pass_within(std::chrono::seconds at_most) {
    std::unique_lock guard{lock_};
    if (!changed_.wait_for(guard, at_most, [this] { return open_; }))
      BOOST_ERROR("a gate was not opened in time");
  }

private:
  void set(bool open) {
    std::lock_guard guard{lock_};
    open_ = open;
    changed_.notify_all();
  }

  std::mutex lock_;
  std::condition_variable changed_;
  bool open_ = true;
};

class plain_device : public device::device, public device::tensor_map_unit {
public:
  explicit plain_device(
      std::shared_ptr<gate> loading = std::make_shared<gate>(),
      std::uint32_t drift = 0)
      : loading_(std::move(loading)), drift_(drift) {}

  const vgpu::device::properties& props() const noexcept override {
    return props_;
  }
  CUresult error() const noexcept override { return error_; }

  status reserve_window(device_address base) override {
    base_ = base;
    return {};
  }
  status map(device_address address, std::uint64_t bytes) override {
    auto* at =
        ::mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == MAP_FAILED)
      return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY, "no memory at this address");
    memory_.emplace(address, mapping{at, bytes});
    return {};
  }
  status unmap(device_address address, std::uint64_t) override {
    memory_.erase(address);
    return {};
  }
  status attach_host(device_address, std::uint64_t) override { return {}; }
  status detach_host(device_address, std::uint64_t) override { return {}; }

  result<vgpu::device::module_info> load_module(module_id id,
                                                std::span<const std::byte>,
                                                const jit_settings&) override {
    loading_->pass();
    vgpu::device::module_info info;
    info.kernels.push_back({"add", {{0, 8}, {8, 4}}, {}});
    info.hidden_heap = hides_heap;
    if (variable_ && id.value < without_variable)
      info.globals.push_back({"sum",
                              reinterpret_cast<device_address>(variable_.get()),
                              sizeof(*variable_), false});
    return info;
  }
  /// Says how many options it got, or refuses a part with an odd one.
  result<std::string> check_part(std::span<const std::byte>,
                                 const jit_settings& how) override {
    auto count = std::to_string(how.options.size());
    if (how.options.size() % 2 != 0)
      return cuda_fault(CUDA_ERROR_INVALID_PTX, "an odd number: " + count);
    return count + " options";
  }
  status unload_module(module_id) override { return {}; }
  status set_kernel_attribute(module_id, std::uint32_t, int, int) override {
    return {};
  }
  result<std::uint32_t> active_clusters(const vgpu::device::launch&) override {
    return 1U;
  }

  /// Makes a map that begins with the address and ends with the drift.
  result<tensor_map> encode(const tensor_map_spec& what) override {
    if (what.address % 16 != 0)
      return cuda_fault(CUDA_ERROR_MISALIGNED_ADDRESS,
                        "not at a multiple of 16");
    tensor_map out{};
    std::memcpy(out.data(), &what.address, sizeof what.address);
    out.back() = static_cast<std::byte>(drift_);
    return out;
  }

  /// Waits for a running host function, as a driver may.
  status create_stream(stream_id, bool, int) override {
    called_->pass_within(std::chrono::seconds{120});
    return {};
  }
  status destroy_stream(stream_id) override { return {}; }
  status create_event(event_id, bool) override { return {}; }
  status destroy_event(event_id) override { return {}; }
  status record_event(event_id, stream_id) override { return {}; }
  status wait_event(stream_id, event_id) override { return {}; }
  result<bool> query_event(event_id) override { return true; }
  result<float> elapsed(event_id, event_id) override { return 0.5f; }
  void when_done(std::optional<stream_id>,
                 vgpu::device::completion done) override {
    be_here();
    done(error_);
  }
  void when_recorded(event_id, vgpu::device::completion done) override {
    done(error_);
  }
  bool idle(stream_id) override { return true; }

  status enqueue_launch(stream_id, const vgpu::device::launch& x) override {
    be_here();
    device_address at = 0;
    std::uint32_t add = 0;
    std::memcpy(&at, x.parameters.data(), 8);
    std::memcpy(&add, x.parameters.data() + 8, 4);
    *reinterpret_cast<std::uint32_t*>(at) += add + drift_;
    return {};
  }
  status enqueue_write(stream_id, device_address to,
                       std::span<const std::byte> bytes,
                       std::shared_ptr<const void>) override {
    std::memcpy(reinterpret_cast<void*>(to), bytes.data(), bytes.size());
    return {};
  }
  status enqueue_read(stream_id, std::span<std::byte> bytes,
                      device_address from,
                      vgpu::device::completion done) override {
    be_here();
    std::memcpy(bytes.data(), reinterpret_cast<const void*>(from),
                bytes.size());
    done(error_);
    return {};
  }
  status enqueue_copy(stream_id, const vgpu::device::pitched& to,
                      const vgpu::device::pitched& from,
                      const vgpu::device::extent& size) override {
    std::memmove(reinterpret_cast<void*>(to.address),
                 reinterpret_cast<const void*>(from.address), size.width);
    return {};
  }
  status enqueue_fill(stream_id, const vgpu::device::pitched& to,
                      std::uint32_t value, std::uint32_t,
                      const vgpu::device::extent& size) override {
    std::memset(reinterpret_cast<void*>(to.address), static_cast<int>(value),
                size.width);
    return {};
  }
  status
  enqueue_host(stream_id,
               std::function<void(std::function<void()>)> start) override {
    called_->close();
    start([called = called_] { called->open(); });
    return {};
  }
  void set_printer(vgpu::device::printer to) override {
    printer_ = std::move(to);
  }
  /// Modules have this variable, which lies outside the window. Modules with
  /// ids from `without_variable` on have none.
  static constexpr std::uint64_t without_variable = 100;
  void place_variable(std::shared_ptr<std::uint32_t> at) {
    variable_ = std::move(at);
  }
  /// The kernels of each module call malloc.
  bool hides_heap = false;
  /// While it is true the process is checkpointed, and a use of the device
  /// fails the test.
  std::shared_ptr<std::atomic<bool>> away;

  void inject(vgpu::injected_fault) override {
    error_ = CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  /// All work ends with this error.
  void fail_with(CUresult error) { error_ = error; }

private:
  void be_here() const {
    if (away && *away)
      BOOST_ERROR("a device is used while its process is checkpointed");
  }

  vgpu::device::properties props_;
  std::shared_ptr<gate> loading_;
  std::shared_ptr<gate> called_ = std::make_shared<gate>(); // by a host call
  std::uint32_t drift_;
  CUresult error_ = CUDA_SUCCESS;
  device_address base_ = 0;
  std::map<device_address, mapping> memory_;
  vgpu::device::printer printer_;
  std::shared_ptr<std::uint32_t> variable_;
};

/// A plain device that notices changes. It reports each granule as possibly
/// changed. A blind one refuses peek().
class watching_device : public plain_device, public vgpu::device::change_unit {
public:
  watching_device(std::shared_ptr<gate> loading, std::uint32_t drift,
                  bool blind)
      : plain_device(std::move(loading), drift), blind_(blind) {}

  result<std::uint64_t> mark() override { return ++marks_; }
  bool changed_since(device_address, std::uint64_t) const noexcept override {
    return true;
  }
  bool tells_at_marks() const noexcept override { return false; }
  void peek(std::span<vgpu::device::peeked> pieces) override {
    for (auto& x : pieces)
      if (blind_)
        x.outcome = cuda_fault(CUDA_ERROR_OPERATING_SYSTEM, "nobody may look");
      else
        std::memcpy(x.into.data(), reinterpret_cast<const void*>(x.from),
                    x.into.size());
  }

  std::unique_ptr<vgpu::device::pinned_memory>
  pin(std::span<std::byte>) override {
    return std::make_unique<vgpu::device::pinned_memory>();
  }
  void read_at_rest(std::span<vgpu::device::peeked> pieces) override {
    peek(pieces);
  }
  /// Keeps nothing, so that copies are made at rest.
  result<std::unique_ptr<vgpu::device::contents_room>>
  make_room(std::uint64_t) override {
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY, "no room for copies");
  }
  std::uint64_t kept_a_second() const noexcept override { return 1; }

private:
  bool blind_;
  std::uint64_t marks_ = 0;
};

} // namespace vgpu::test
