#include "devices/cpu/cpu_device.hpp"

#include "devices/cpu/engine.hpp"
#include "devices/cpu/memory_map.hpp"
#include "devices/cpu/module_store.hpp"
#include "devices/cpu/occupancy.hpp"
#include "devices/cpu/ops.hpp"
#include "devices/cpu/physical.hpp"
#include "devices/cpu/probe.hpp"
#include "devices/cpu/scheduler.hpp"
#include "devices/cpu/texture_store.hpp"
#include "devices/memory_unit.hpp"
#include "devices/meter.hpp"
#include "devices/texture_unit.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

namespace vgpu::device {

namespace {

using namespace cpu;

fault invalid(std::string what) {
  return {CUDA_ERROR_INVALID_VALUE, std::move(what)};
}

std::string hex(std::uint64_t x) {
  char out[32];
  std::snprintf(out, sizeof out, "0x%llx", static_cast<unsigned long long>(x));
  return out;
}

/// A completion that is called at most once, whoever comes first.
completion once(completion done) {
  auto called = std::make_shared<std::atomic<bool>>(false);
  return [called, done = std::move(done)](CUresult x) {
    if (!called->exchange(true) && done)
      done(x);
  };
}

/// The bytes from the first to behind the last that a box touches, or nothing
/// when that overflows. Zero for an empty box.
std::optional<std::uint64_t> span_of(const pitched& at, const extent& size) {
  if (size.width == 0 || size.height == 0 || size.depth == 0)
    return std::uint64_t{0};
  auto out = std::uint64_t{0};
  auto rows = std::uint64_t{0};
  auto slices = std::uint64_t{0};
  if (__builtin_mul_overflow(at.pitch, size.height - 1, &rows) ||
      __builtin_mul_overflow(at.slice, size.depth - 1, &slices) ||
      __builtin_add_overflow(rows, slices, &out) ||
      __builtin_add_overflow(out, size.width, &out))
    return std::nullopt;
  return out;
}

template <class F>
void each_row(const extent& size, F f) {
  for (auto z = std::uint64_t{0}; z < size.depth; ++z)
    for (auto y = std::uint64_t{0}; y < size.height; ++y)
      f(y, z);
}

std::byte* row(const pitched& x, std::uint64_t y, std::uint64_t z) {
  return reinterpret_cast<std::byte*>(x.address + y * x.pitch + z * x.slice);
}

void fill_row(std::byte* to, std::uint64_t count, std::uint32_t value,
              std::uint32_t element) {
  if (element == 1) {
    std::memset(to, static_cast<int>(value & 255), count);
    return;
  }
  // Doubles what is there: the copies become long at once.
  auto bytes = count * element;
  std::memcpy(to, &value, std::min<std::uint64_t>(bytes, element));
  for (auto have = std::uint64_t{element}; have < bytes; have *= 2)
    std::memcpy(to + have, to, std::min(have, bytes - have));
}

class cpu_device final : public device,
                         public texture_unit,
                         public memory_unit,
                         public meter {
public:
  cpu_device(const cpu_options& options, std::uint64_t quota)
      : props_{cpu_properties(options)}, quota_{quota},
        modules_{[this](device_address a) { return map(a, granule_bytes); },
                 [this](device_address a, bool was_used) {
                   give_back(a, was_used);
                 }},
        scheduler_{std::make_shared<scheduler>([this] { return failed(); })},
        copier_{0}, notifier_{0},
        engine_{static_cast<unsigned>(props_.attributes.at(
                    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)),
                busy_} {}

  ~cpu_device() override {
    scheduler_->freeze();
    engine_.stop();
    copier_.stop();
    notifier_.stop();
    scheduler_->abandon_all();
  }

  const properties& props() const noexcept override { return props_; }
  CUresult error() const noexcept override { return error_; }
  std::uint64_t executed() const noexcept { return executed_; }
  void allow(std::uint64_t quota) noexcept { quota_ = quota; }
  std::chrono::nanoseconds busy() const override { return busy_.total(); }

  // -- memory -----------------------------------------------------------------

  status reserve_window(device_address base) override {
    if (auto ok = memory_.reserve(base); !ok)
      return ok;
    modules_.place_from(base + device_placed_offset);
    return {};
  }

  status map(device_address address, std::uint64_t bytes) override {
    if (auto ok = alive(); !ok)
      return ok;
    if (!memory_.in_window(address, bytes))
      return invalid("map: " + hex(address) + " and its " + hex(bytes) +
                     " bytes are not whole granules of the window");
    auto pending = false;
    for (auto g = address; g != address + bytes; g += granule_bytes) {
      if (mapped_.contains(g))
        return invalid("map: " + hex(g) + " is mapped already");
      pending = pending || leaving_->contains(g);
    }
    if (auto ok = check_quota("map", bytes); !ok)
      return ok;
    if (pending) {
      // Earlier work may still use what was there: the new memory comes when
      // that is done, and before whatever is enqueued from now on.
      auto t = std::make_shared<task>();
      t->always = true;
      t->start = [this, address, bytes](auto finish) {
        if (!memory_.back(address, bytes))
          set_error(CUDA_ERROR_OUT_OF_MEMORY);
        finish();
      };
      scheduler_->fence(std::move(t));
    } else if (auto ok = memory_.back(address, bytes); !ok) {
      return ok;
    }
    for (auto g = address; g != address + bytes; g += granule_bytes)
      mapped_.insert(g);
    used_ += bytes;
    return {};
  }

  status unmap(device_address address, std::uint64_t bytes) override {
    if (!memory_.in_window(address, bytes))
      return invalid("unmap: " + hex(address) +
                     " and its bytes are not whole granules of the window");
    for (auto g = address; g != address + bytes; g += granule_bytes)
      if (!mapped_.contains(g))
        return invalid("unmap: " + hex(g) + " is not mapped");
    for (auto g = address; g != address + bytes; g += granule_bytes) {
      mapped_.erase(g);
      leaving_->insert(g);
    }
    used_ -= bytes;
    auto t = std::make_shared<task>();
    t->always = true;
    t->start = [this, address, bytes](auto finish) {
      memory_.release(address, bytes);
      leaving_->erase(address, bytes);
      finish();
    };
    scheduler_->after(std::nullopt, std::move(t));
    return {};
  }

  status attach_host(device_address address, std::uint64_t bytes) override {
    if (address == 0 || bytes == 0 || address + bytes < address)
      return invalid("attach_host: an empty range");
    memory_.attach(address, bytes);
    return {};
  }

  status detach_host(device_address address, std::uint64_t bytes) override {
    if (!memory_.detach(address, bytes))
      return invalid("detach_host: " + hex(address) + " is not attached");
    return {};
  }

  // -- memory that the program places by itself -------------------------------

  status create_memory(memory_id id, std::uint64_t bytes) override {
    if (auto ok = alive(); !ok)
      return ok;
    if (auto ok = check_quota("physical memory", bytes); !ok)
      return ok;
    auto ok = physical_.create(id, bytes);
    if (ok)
      used_ += bytes;
    return ok;
  }
  status destroy_memory(memory_id id) override {
    return less_used(physical_.destroy(id));
  }
  status map_memory(device_address address, std::uint64_t bytes, memory_id id,
                    std::uint64_t offset) override {
    return physical_.map(address, bytes, id, offset);
  }
  status unmap_memory(device_address address, std::uint64_t bytes) override {
    see(address, bytes, false);
    return less_used(physical_.unmap(address, bytes));
  }
  status set_access(device_address address, std::uint64_t bytes,
                    memory_access access) override {
    auto usable = access != memory_access::none;
    auto ok = physical_.set_access(address, bytes, usable);
    if (ok)
      see(address, bytes, usable);
    return ok;
  }

  // -- arrays, textures and surfaces ------------------------------------------

  bool arrays_in_memory() const noexcept override { return true; }

  status create_array(array_id id, const array_shape& shape,
                      device_address at) override {
    if (auto ok = alive(); !ok)
      return ok;
    return textures_.add_array(id, shape, at);
  }
  status destroy_array(array_id id) override {
    return textures_.remove_array(id);
  }
  result<std::uint64_t> create_texture(texture_id id,
                                       const texture_spec& what) override {
    if (auto ok = alive(); !ok)
      return ok.why();
    return textures_.add(id, what);
  }
  status name_texture(texture_id id, std::uint64_t value) override {
    return textures_.name(id, value);
  }
  status destroy_texture(texture_id id) override {
    return textures_.remove(id);
  }

  // -- modules ----------------------------------------------------------------

  result<module_info> load_module(module_id id,
                                  std::span<const std::byte> image) override {
    if (auto ok = alive(); !ok)
      return ok.why();
    return modules_.load(id, image);
  }

  status unload_module(module_id id) override { return modules_.unload(id); }

  status set_kernel_attribute(module_id id, std::uint32_t kernel, int attribute,
                              int value) override {
    auto k = modules_.find(id, kernel);
    if (k == nullptr)
      return no_kernel(id, kernel);
    auto& a = k->info.attributes;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      auto most = props_.attributes.at(
                      CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) -
                  a.at(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
      if (value < 0 || value > most)
        return invalid("kernel " + k->info.name + ": " + std::to_string(value) +
                       " bytes of dynamic shared memory are more than " +
                       std::to_string(most));
      break;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100)
        return invalid("a carveout is -1 or 0 to 100 percent");
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      break;
    default:
      return invalid("function attribute " + std::to_string(attribute) +
                     " cannot be set");
    }
    a[attribute] = value;
    return {};
  }

  result<int> max_active_blocks(module_id id, std::uint32_t kernel,
                                std::uint32_t block_threads,
                                std::uint64_t dynamic_shared) override {
    auto k = modules_.find(id, kernel);
    if (k == nullptr)
      return no_kernel(id, kernel);
    if (block_threads == 0)
      return invalid("occupancy: a block has at least one thread");
    auto& a = k->info.attributes;
    if (block_threads > static_cast<std::uint32_t>(
                            a.at(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)))
      return 0;
    return blocks_per_multiprocessor(
        {block_threads,
         static_cast<std::uint32_t>(a.at(CU_FUNC_ATTRIBUTE_NUM_REGS)),
         dynamic_shared + static_cast<std::uint64_t>(
                              a.at(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES))});
  }

  // -- streams and events -----------------------------------------------------

  status create_stream(stream_id id, bool non_blocking, int) override {
    return scheduler_->create_stream(id, non_blocking);
  }
  status destroy_stream(stream_id id) override {
    return scheduler_->destroy_stream(id);
  }
  status create_event(event_id id, bool timing) override {
    return scheduler_->create_event(id, timing);
  }
  status destroy_event(event_id id) override {
    return scheduler_->destroy_event(id);
  }
  status record_event(event_id id, stream_id stream) override {
    if (auto ok = alive(); !ok)
      return ok;
    return scheduler_->record(id, stream);
  }
  status wait_event(stream_id stream, event_id id) override {
    if (auto ok = alive(); !ok)
      return ok;
    return scheduler_->wait(stream, id);
  }
  result<bool> query_event(event_id id) override {
    return scheduler_->query(id);
  }
  result<float> elapsed(event_id from, event_id to) override {
    return scheduler_->elapsed(from, to);
  }

  void when_done(std::optional<stream_id> stream, completion done) override {
    scheduler_->after(stream, notification(std::move(done)));
  }
  void when_recorded(event_id id, completion done) override {
    scheduler_->after_event(id, notification(std::move(done)));
  }
  bool idle(stream_id stream) override { return scheduler_->idle(stream); }

  // -- work -------------------------------------------------------------------

  status enqueue_launch(stream_id stream, const launch& what) override {
    if (auto ok = alive(); !ok)
      return ok;
    auto k = modules_.find(what.module, what.kernel);
    if (k == nullptr)
      return no_kernel(what.module, what.kernel);
    if (auto ok = check(what, *k); !ok)
      return ok;
    auto g = std::make_shared<textured_grid>();
    g->of = modules_.find(what.module)->code;
    g->entry = k->what;
    g->blocks = what.grid;
    g->threads = what.block;
    g->block_count = std::uint64_t{what.grid.x} * what.grid.y * what.grid.z;
    g->dynamic_shared = what.dynamic_shared;
    g->parameters.assign(what.parameters.begin(),
                         what.parameters.begin() +
                             k->what->kernel_parameter_bytes);
    g->memory = &memory_;
    g->heap = &modules_.heap();
    g->textures = textures_.known();
    g->cooperative = what.cooperative;
    g->number = ++launches_;
    g->processors = engine_.threads();
    g->print = [this](console where, std::string_view text) {
      print(where, text);
    };
    auto t = std::make_shared<task>();
    t->start = [this, g](auto finish) {
      if (g->cooperative)
        memory_.attach(g->workspace(), grid::workspace_bytes);
      engine_.submit(g, [this, g, finish](CUresult error, const std::string&) {
        executed_ += g->executed;
        if (g->cooperative)
          memory_.detach(g->workspace(), grid::workspace_bytes);
        if (error != CUDA_SUCCESS)
          set_error(error);
        finish();
      });
    };
    return scheduler_->add(stream, std::move(t));
  }

  status enqueue_write(stream_id stream, device_address to,
                       std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner) override {
    if (auto ok = check_range("write", to, bytes.size()); !ok)
      return ok;
    return add_copy(stream, bytes.size(),
                    [this, to, bytes, owner = std::move(owner)] {
                      if (usable(to, bytes.size()))
                        std::memcpy(reinterpret_cast<void*>(to), bytes.data(),
                                    bytes.size());
                    });
  }

  status enqueue_read(stream_id stream, std::span<std::byte> bytes,
                      device_address from, completion done) override {
    if (auto ok = check_range("read", from, bytes.size()); !ok)
      return ok;
    auto told = once(std::move(done));
    auto t = std::make_shared<task>();
    t->start = [this, bytes, from, told](auto finish) {
      copy(bytes.size(), [this, bytes, from, told, finish] {
        if (!failed() && usable(from, bytes.size()))
          std::memcpy(bytes.data(), reinterpret_cast<const void*>(from),
                      bytes.size());
        told(error_);
        finish();
      });
    };
    t->abandon = [this, told] { told(end_error()); };
    return scheduler_->add(stream, std::move(t));
  }

  status enqueue_copy(stream_id stream, const pitched& to, const pitched& from,
                      const extent& size) override {
    auto out = span_of(to, size);
    auto in = span_of(from, size);
    if (!out || !in)
      return invalid("copy: the box is larger than all addresses");
    if (auto ok = check_range("copy to", to.address, *out); !ok)
      return ok;
    if (auto ok = check_range("copy from", from.address, *in); !ok)
      return ok;
    return add_copy(stream, *out, [this, to, from, size, n = *out, m = *in] {
      if (usable(to.address, n) && usable(from.address, m))
        each_row(size, [&](std::uint64_t y, std::uint64_t z) {
          std::memmove(row(to, y, z), row(from, y, z), size.width);
        });
    });
  }

  status enqueue_fill(stream_id stream, const pitched& to, std::uint32_t value,
                      std::uint32_t element_bytes,
                      const extent& size) override {
    if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4)
      return invalid("fill: elements have 1, 2 or 4 bytes");
    auto bytes = size;
    if (__builtin_mul_overflow(size.width, element_bytes, &bytes.width))
      return invalid("fill: the box is larger than all addresses");
    auto out = span_of(to, bytes);
    if (!out)
      return invalid("fill: the box is larger than all addresses");
    if (to.address % element_bytes != 0)
      return invalid("fill: " + hex(to.address) + " is not aligned");
    if (auto ok = check_range("fill", to.address, *out); !ok)
      return ok;
    return add_copy(
        stream, *out, [this, to, value, element_bytes, size, n = *out] {
          if (n != 0 && usable(to.address, n))
            each_row(size, [&](std::uint64_t y, std::uint64_t z) {
              fill_row(row(to, y, z), size.width, value, element_bytes);
            });
        });
  }

  status enqueue_host(
      stream_id stream,
      std::function<void(std::function<void()> go_on)> start) override {
    if (auto ok = alive(); !ok)
      return ok;
    auto t = std::make_shared<task>();
    t->start = [this, start = std::move(start)](auto finish) {
      notifier_.post([start, finish] { start(finish); });
    };
    return scheduler_->add(stream, std::move(t));
  }

  void set_printer(printer to) override {
    auto lock = std::lock_guard{print_mutex_};
    printer_ = std::move(to);
  }

  // -- trouble ----------------------------------------------------------------

  void inject(injected_fault what) override {
    switch (what) {
    case injected_fault::lost:
      lost_ = true;
      error_ = CUDA_ERROR_DEVICE_UNAVAILABLE;
      engine_.cancel_all();
      break;
    case injected_fault::ecc:
      set_error(CUDA_ERROR_ECC_UNCORRECTABLE);
      break;
    case injected_fault::hang:
      scheduler_->freeze();
      engine_.freeze();
      copier_.freeze();
      notifier_.freeze();
      break;
    }
  }

private:
  /// Granules whose memory goes when the work before is done; shared with the
  /// threads that do so.
  class granule_set {
  public:
    bool contains(device_address x) {
      auto lock = std::lock_guard{mutex_};
      return counts_.contains(x);
    }
    void insert(device_address x) {
      auto lock = std::lock_guard{mutex_};
      ++counts_[x];
    }
    void erase(device_address first, std::uint64_t bytes) {
      auto lock = std::lock_guard{mutex_};
      for (auto g = first; g != first + bytes; g += granule_bytes)
        if (auto at = counts_.find(g); at != counts_.end() && --at->second == 0)
          counts_.erase(at);
    }

  private:
    std::mutex mutex_;
    std::unordered_map<device_address, unsigned> counts_;
  };

  /// A granule of module variables; at once when no work can know it.
  void give_back(device_address granule, bool was_used) {
    if (was_used) {
      (void)unmap(granule, granule_bytes);
      return;
    }
    memory_.release(granule, granule_bytes);
    mapped_.erase(granule);
    used_ -= granule_bytes;
  }

  bool failed() const { return error_ != CUDA_SUCCESS; }

  status check_quota(const char* what, std::uint64_t bytes) const {
    if (bytes <= quota_ - used_)
      return {};
    return fault{CUDA_ERROR_OUT_OF_MEMORY,
                 std::string{what} + ": " + std::to_string(bytes) +
                     " bytes would go beyond the quota of " +
                     std::to_string(quota_) + ", of which " +
                     std::to_string(used_) + " are used"};
  }

  status less_used(const result<std::uint64_t>& bytes) {
    if (!bytes)
      return bytes.why();
    used_ -= *bytes;
    return {};
  }

  /// Whole granules come to be memory, as the caller sees it, or cease to.
  void see(device_address address, std::uint64_t bytes, bool usable) {
    for (auto g = address; g != address + bytes; g += granule_bytes)
      if (usable)
        mapped_.insert(g);
      else
        mapped_.erase(g);
  }

  void set_error(CUresult x) {
    auto none = CUDA_SUCCESS;
    if (error_.compare_exchange_strong(none, x))
      engine_.cancel_all();
  }

  /// What is told to those whose work never came to its end.
  CUresult end_error() const {
    return failed() ? error_.load() : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }

  status alive() const {
    if (lost_)
      return fault{CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is lost"};
    return {};
  }

  static fault no_kernel(module_id id, std::uint32_t kernel) {
    return {CUDA_ERROR_INVALID_HANDLE, "module " + std::to_string(id.value) +
                                           " has no kernel " +
                                           std::to_string(kernel)};
  }

  bool usable(device_address at, std::uint64_t bytes) {
    if (bytes == 0)
      return true;
    if (memory_.usable(at, bytes))
      return true;
    set_error(CUDA_ERROR_ILLEGAL_ADDRESS);
    return false;
  }

  /// As the caller sees memory now, before what is enqueued has run.
  status check_range(const char* what, device_address at,
                     std::uint64_t bytes) const {
    if (auto ok = alive(); !ok)
      return ok;
    if (bytes == 0)
      return {};
    auto offset = at - memory_.base();
    auto ok = true;
    if (memory_.base() != 0 && offset < window_bytes) {
      ok = bytes <= window_bytes - offset;
      auto first = at / granule_bytes * granule_bytes;
      for (auto g = first; ok && g < at + bytes; g += granule_bytes)
        ok = mapped_.contains(g);
    } else {
      ok = memory_.usable(at, bytes);
    }
    if (!ok)
      return invalid(std::string{what} + ": " + hex(at) + " and its " +
                     std::to_string(bytes) +
                     " bytes are not memory of this session");
    return {};
  }

  status check(const launch& x, const loaded_kernel& k) const {
    auto name = "kernel " + k.info.name + ": ";
    auto& a = k.info.attributes;
    auto threads = std::uint64_t{x.block.x} * x.block.y * x.block.z;
    if (threads == 0 || x.block.x > 1024 || x.block.y > 1024 || x.block.z > 64)
      return invalid(name + "a block of that shape does not exist");
    auto most = static_cast<std::uint64_t>(
        a.at(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    if (threads > most)
      return invalid(name + std::to_string(threads) +
                     " threads in a block are more than " +
                     std::to_string(most));
    auto& limit = k.what->block_limit;
    if (k.what->block_exact && (x.block.x != limit[0] ||
                                x.block.y != limit[1] || x.block.z != limit[2]))
      return invalid(name + "it requires another block shape (.reqntid)");
    if (x.grid.x == 0 || x.grid.y == 0 || x.grid.z == 0 ||
        x.grid.x > 2147483647u || x.grid.y > 65535 || x.grid.z > 65535)
      return invalid(name + "a grid of that shape does not exist");
    if (x.dynamic_shared >
        static_cast<std::uint32_t>(
            a.at(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)))
      return invalid(name + std::to_string(x.dynamic_shared) +
                     " bytes of dynamic shared memory are more than " +
                     std::to_string(a.at(
                         CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)) +
                     "; raise its limit first");
    if (x.parameters.size() < k.what->kernel_parameter_bytes)
      return invalid(name + "its parameters take " +
                     std::to_string(k.what->kernel_parameter_bytes) +
                     " bytes, not " + std::to_string(x.parameters.size()));
    if (std::uint64_t{x.cluster.x} * x.cluster.y * x.cluster.z > 1)
      return fault{CUDA_ERROR_NOT_SUPPORTED,
                   name + "cluster launches are not supported by the cpu "
                          "device"};
    return x.cooperative ? check_cooperative(x, k) : status{};
  }

  /// All its blocks must be begun at once, for they wait for one another.
  status check_cooperative(const launch& x, const loaded_kernel& k) const {
    auto& a = k.info.attributes;
    auto fit = blocks_per_multiprocessor(
        {x.block.x * x.block.y * x.block.z,
         static_cast<std::uint32_t>(a.at(CU_FUNC_ATTRIBUTE_NUM_REGS)),
         x.dynamic_shared + static_cast<std::uint64_t>(
                                a.at(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES))});
    auto room =
        static_cast<std::uint64_t>(std::max(fit, 0)) * engine_.threads();
    auto blocks = std::uint64_t{x.grid.x} * x.grid.y * x.grid.z;
    if (blocks > room)
      return fault{CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                   "kernel " + k.info.name + ": " + std::to_string(blocks) +
                       " blocks of a cooperative launch do not fit the "
                       "device, which holds " +
                       std::to_string(room)};
    return {};
  }

  /// What is done sooner than another thread wakes is done here and now.
  template <class F>
  void copy(std::uint64_t bytes, F job) {
    constexpr std::uint64_t small = 32 << 10;
    auto counted = [this, job = std::move(job)] {
      busy_.enter();
      job();
      busy_.leave();
    };
    if (bytes <= small)
      counted();
    else
      copier_.post(std::move(counted));
  }

  template <class F>
  status add_copy(stream_id stream, std::uint64_t bytes, F job) {
    auto t = std::make_shared<task>();
    t->start = [this, bytes, job = std::move(job)](auto finish) {
      copy(bytes, [this, job, finish] {
        if (!failed())
          job();
        finish();
      });
    };
    return scheduler_->add(stream, std::move(t));
  }

  task_ptr notification(completion done) {
    auto told = once(std::move(done));
    auto t = std::make_shared<task>();
    t->always = true;
    // Completions do not block: handing them to another thread would only cost
    // the program a wake-up.
    t->start = [this, told](auto finish) {
      told(error_);
      finish();
    };
    t->abandon = [this, told] { told(end_error()); };
    return t;
  }

  void print(console where, std::string_view text) {
    auto lock = std::lock_guard{print_mutex_};
    if (printer_)
      printer_(where, text);
  }

  properties props_;
  std::uint64_t quota_;
  std::uint64_t used_ = 0;
  std::atomic<CUresult> error_ = CUDA_SUCCESS;
  std::atomic<bool> lost_ = false;
  memory_map memory_;
  physical_store physical_{memory_};
  std::set<device_address> mapped_; // granules, as the caller sees them
  std::shared_ptr<granule_set> leaving_ = std::make_shared<granule_set>();
  module_store modules_;
  texture_store textures_;
  std::uint64_t launches_ = 0;
  std::atomic<std::uint64_t> executed_ = 0;
  std::mutex print_mutex_;
  printer printer_;
  busy_time busy_;
  // Last, so that their threads end before what they use goes.
  std::shared_ptr<scheduler> scheduler_;
  job_thread copier_;
  job_thread notifier_;
  engine engine_;
};

} // namespace

std::uint64_t executed_instructions(const device& of) {
  return dynamic_cast<const cpu_device&>(of).executed();
}

void allow_cpu_device(device& which, std::uint64_t quota) {
  dynamic_cast<cpu_device&>(which).allow(quota);
}

std::string_view executor_level() {
  return op_variant();
}

std::unique_ptr<device> open_cpu_device(const cpu_options& options,
                                        std::uint64_t quota) {
  return std::make_unique<cpu_device>(options, quota);
}

} // namespace vgpu::device
