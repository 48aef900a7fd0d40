#include "devices/cpu/cpu_device.hpp"

#include "devices/cpu/lower/op_table.hpp"
#include "devices/cpu/memory/adopted_files.hpp"
#include "devices/cpu/memory/change_tracker.hpp"
#include "devices/cpu/memory/copy_boxes.hpp"
#include "devices/cpu/memory/granule_account.hpp"
#include "devices/cpu/memory/kept_granules.hpp"
#include "devices/cpu/memory/memory_map.hpp"
#include "devices/cpu/memory/physical_pages.hpp"
#include "devices/cpu/memory/shared_memory.hpp"
#include "devices/cpu/probe.hpp"
#include "devices/cpu/run/copy_engine.hpp"
#include "devices/cpu/run/engine.hpp"
#include "devices/cpu/run/grid_workspaces.hpp"
#include "devices/cpu/run/launch_check.hpp"
#include "devices/cpu/run/leaving_granules.hpp"
#include "devices/cpu/run/module_store.hpp"
#include "devices/cpu/run/scheduler.hpp"
#include "devices/cpu/run/texture_store.hpp"
#include "devices/cpu/run/value_watch.hpp"
#include "devices/interface/change_unit.hpp"
#include "devices/interface/condition_unit.hpp"
#include "devices/interface/file_unit.hpp"
#include "devices/interface/governor.hpp"
#include "devices/interface/memory_unit.hpp"
#include "devices/interface/meter.hpp"
#include "devices/interface/sharing_unit.hpp"
#include "devices/interface/texture_unit.hpp"
#include "devices/interface/trace_unit.hpp"
#include "devices/interface/tuning_unit.hpp"
#include "devices/interface/value_unit.hpp"
#include "schema/base/cuda_fault.hpp"
#include "schema/base/round_up.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <future>

namespace vgpu::device {

namespace {

using namespace cpu;

fault invalid(std::string what) {
  return cuda_fault(CUDA_ERROR_INVALID_VALUE, std::move(what));
}

std::string hex(std::uint64_t x) {
  char out[32];
  std::snprintf(out, sizeof out, "0x%llx", static_cast<unsigned long long>(x));
  return out;
}

/// The least stack of a thread, in bytes. PTX keeps more on a stack than the
/// code that a compiler makes of it, so that this is more than CUDA's 1 KiB.
constexpr std::uint32_t least_stack = 16 << 10;
/// A thread has at most this many bytes of local memory (CUDA C++ Programming
/// Guide, "Compute Capabilities").
constexpr std::uint32_t most_stack = 512 << 10;

/// Returns a completion that runs at most once, however often it is called.
completion once(completion done) {
  auto called = std::make_shared<std::atomic<bool>>(false);
  return [called, done = std::move(done)](CUresult x) {
    if (!called->exchange(true) && done)
      done(x);
  };
}

unsigned multiprocessors_of(const properties& x) {
  return static_cast<unsigned>(
      x.attributes.at(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
}

class cpu_device final : public device,
                         public texture_unit,
                         public memory_unit,
                         public value_unit,
                         public condition_unit,
                         public sharing_unit,
                         public change_unit,
                         public tuning_unit,
                         public file_unit,
                         public trace_unit,
                         public meter,
                         public governed {
public:
  cpu_device(const cpu_options& options, std::uint64_t quota)
      : props_{cpu_properties(options)},
        waits_like_a_driver_{options.channels != 0}, account_{quota},
        modules_{options.capability,
                 [this](device_address a) {
                   return map(a, granule_bytes, use_of::modules);
                 },
                 [this](device_address a, bool was_used) {
                   give_back(a, was_used);
                 }},
        scheduler_{std::make_shared<scheduler>([this] { return failed(); })},
        notifier_{0} {
    scheduler_->watch_by([this](auto so, auto then) {
      watch_.add(std::move(so), std::move(then));
    });
    scheduler_->share_channels(options.channels, options.pieces_in_channel);
  }

  ~cpu_device() override {
    scheduler_->freeze();
    busy_.release();
    engine_.stop();
    copier_.stop();
    notifier_.stop();
    watch_.stop();
    scheduler_->abandon_all();
  }

  const properties& props() const noexcept override { return props_; }
  CUresult error() const noexcept override { return error_; }
  std::uint64_t executed() const noexcept { return executed_; }
  void allow(std::uint64_t quota) noexcept { account_.allow(quota); }
  std::chrono::nanoseconds busy() const override { return busy_.total(); }
  std::chrono::nanoseconds worked() const override {
    return busy_.worked() / engine_.threads();
  }
  void govern_by(std::shared_ptr<governor> who) override {
    busy_.govern_by(std::move(who));
  }

  // -- memory -----------------------------------------------------------------

  status reserve_window(device_address base) override {
    if (auto ok = memory_.reserve(base); !ok)
      return ok;
    modules_.place_from(base + device_placed_offset);
    modules_.place_large_heap_at(base + window_bytes - large_heap_bytes);
    return changes_.reserve(base);
  }

  status map(device_address address, std::uint64_t bytes) override {
    return map(address, bytes, use_of::allocations);
  }

  status unmap(device_address address, std::uint64_t bytes) override {
    return unmap(address, bytes, use_of::allocations);
  }

  status attach_host(device_address address, std::uint64_t bytes) override {
    if (address == 0 || bytes == 0 || address + bytes < address)
      return invalid("attach_host: an empty range");
    wait_like_a_driver();
    memory_.attach(address, bytes);
    return {};
  }

  status detach_host(device_address address, std::uint64_t bytes) override {
    if (!memory_.detach(address, bytes))
      return invalid("detach_host: " + hex(address) + " is not attached");
    return {};
  }

  // -- memory that the program maps by itself
  // -----------------------------------

  status create_memory(memory_id id, std::uint64_t bytes) override {
    if (auto ok = alive(); !ok)
      return ok;
    if (auto ok = account_.check_quota("physical memory", bytes); !ok)
      return ok;
    auto ok = physical_.create(id, bytes);
    if (ok)
      account_.use(bytes);
    return ok;
  }
  status destroy_memory(memory_id id) override {
    return less_used(physical_.destroy(id));
  }
  status map_memory(device_address address, std::uint64_t bytes,
                    memory_id id) override {
    return physical_.map(address, bytes, id);
  }
  status map_host(device_address address, std::uint64_t bytes,
                  device_address from) override {
    if (bytes == 0 || !memory_.usable(from, bytes))
      return invalid("map_host: " + hex(from) + " is not attached");
    return physical_.map_host(address, bytes, reinterpret_cast<void*>(from));
  }
  status unmap_memory(device_address address, std::uint64_t bytes) override {
    account_.erase(address, bytes);
    return less_used(physical_.unmap(address, bytes));
  }
  status set_access(device_address address, std::uint64_t bytes,
                    memory_access access) override {
    auto usable = access != memory_access::none;
    auto ok = physical_.set_access(address, bytes, usable);
    if (ok && usable)
      account_.insert(address, bytes);
    else if (ok)
      account_.erase(address, bytes);
    return ok;
  }

  // -- sharing with other processes
  // ---------------------------------------------

  bool shares_at_rest() const noexcept override { return true; }
  bool is_reached_by(std::uint32_t) const noexcept override { return true; }
  result<shared_granules> share_memory(device_address address,
                                       std::uint64_t bytes) override {
    if (auto ok = check_range("share", address, bytes); !ok)
      return ok.why();
    auto first = address / granule_bytes * granule_bytes;
    changes_.remove(first, round_up(address + bytes, granule_bytes) - first);
    return shared_.share(address, bytes);
  }
  result<shared_granules> share_memory(memory_id id) override {
    return physical_.share(id);
  }
  status import_memory(memory_id id, std::uint64_t bytes,
                       const shared_object& from) override {
    return physical_.import(id, bytes, from);
  }
  result<shared_object> share_event(event_id id) override {
    return scheduler_->share(id);
  }
  status import_event(event_id id, const shared_object& from) override {
    return scheduler_->import(id, from);
  }

  // -- change tracking and adopted files
  // ----------------------------------------

  result<std::uint64_t> mark() override { return changes_.mark(); }
  bool changed_since(device_address address,
                     std::uint64_t mark) const noexcept override {
    return changes_.changed_since(address, mark);
  }
  bool tells_at_marks() const noexcept override { return false; }
  void peek(std::span<peeked> pieces) override {
    for (auto& x : pieces)
      x.outcome = changes_.peek(x.into, x.from);
  }
  std::unique_ptr<pinned_memory> pin(std::span<std::byte>) override {
    return std::make_unique<pinned_memory>(); // it writes everywhere
  }
  void read_at_rest(std::span<peeked> pieces) override {
    for (auto& x : pieces)
      std::memcpy(x.into.data(), reinterpret_cast<const void*>(x.from),
                  x.into.size());
  }
  result<std::unique_ptr<contents_room>>
  make_room(std::uint64_t granules) override {
    return kept_granules::make(changes_, account_, granules);
  }
  std::uint64_t kept_a_second() const noexcept override {
    return 1'500'000'000; // into fresh memory, on a VM with 2 cores
  }
  status adopt(device_address address, std::uint64_t bytes, int file,
               std::uint64_t offset) override {
    if (!memory_.in_window(address, bytes))
      return invalid("adopt: " + hex(address) +
                     " and its bytes are not whole granules of the window");
    if (auto ok = check_range("adopt", address, bytes); !ok)
      return ok;
    if (auto ok = adopted_.map(address, bytes, file, offset); !ok)
      return ok;
    changes_.add(address, bytes);
    return {};
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
                                  std::span<const std::byte> image,
                                  const jit_settings& how) override {
    if (auto ok = alive(); !ok)
      return ok.why();
    wait_like_a_driver();
    return modules_.load(id, image, how);
  }
  result<std::string> check_part(std::span<const std::byte> image,
                                 const jit_settings& how) override {
    if (auto ok = alive(); !ok)
      return ok.why();
    return modules_.check(image, how);
  }

  status unload_module(module_id id) override { return modules_.unload(id); }

  side_memory beside() const override { return modules_.beside(); }

  status set_kernel_attribute(module_id id, std::uint32_t kernel, int attribute,
                              int value) override {
    auto k = modules_.find(id, kernel);
    if (k == nullptr)
      return no_kernel(id, kernel);
    if (auto ok = check_attribute(props_, k->info, attribute, value); !ok)
      return ok;
    k->info.attributes[attribute] = value;
    return {};
  }

  result<std::uint32_t> active_clusters(const launch& shape) override {
    auto k = modules_.find(shape.module, shape.kernel);
    if (k == nullptr)
      return no_kernel(shape.module, shape.kernel);
    return cpu::active_clusters(
        shape, *k,
        props_.attributes.at(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  }

  // -- limits
  // -------------------------------------------------------------------

  /// Sets the stack or the heap. What kernels print has no buffer here.
  result<heap_change> set_limit(CUlimit limit, std::uint64_t value) override {
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
      return modules_.limit_heap(value);
    if (limit == CU_LIMIT_STACK_SIZE && value > most_stack)
      return invalid("a stack of " + std::to_string(value) + " bytes");
    if (limit == CU_LIMIT_STACK_SIZE)
      stack_ = std::max(least_stack, static_cast<std::uint32_t>(value));
    return heap_change{};
  }
  heap_change reset_limits() override {
    stack_ = least_stack;
    return modules_.reset_heap();
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
    if (auto ok = check_launch(what, *k, engine_.threads()); !ok)
      return ok;
    auto clusters = clusters_of(what, *k);
    if (!clusters)
      return clusters.why();
    auto g = std::make_shared<textured_grid>();
    g->of = modules_.find(what.module)->code;
    g->entry = k->what;
    g->blocks = what.grid;
    g->threads = what.block;
    g->cluster = clusters->blocks;
    g->explicit_cluster = clusters->asked;
    g->block_count = std::uint64_t{what.grid.x} * what.grid.y * what.grid.z;
    g->dynamic_shared = what.dynamic_shared;
    g->parameters.assign(what.parameters.begin(),
                         what.parameters.begin() +
                             k->what->kernel_parameter_bytes);
    g->memory = &memory_;
    g->heap = &modules_.heap();
    g->stack_bytes = stack_;
    g->conditions = conditions_;
    g->textures = textures_.known();
    g->cooperative = what.cooperative;
    if (g->cooperative)
      g->workspace_memory = workspaces_->take();
    if (g->cooperative && !g->workspace_memory)
      return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                        "the host has no memory for a cooperative launch");
    g->number = ++launches_;
    g->processors = engine_.threads();
    g->governed_by = busy_.governed_by();
    g->print = [this](console where, std::string_view text) {
      print(where, text);
    };
    g->piece = work_piece{traced_};
    auto t = std::make_shared<task>();
    t->start = [this, g](auto finish) {
      g->piece.reached();
      if (g->cooperative)
        memory_.attach(g->workspace(), grid_workspaces::bytes);
      engine_.submit(g,
                     [this, g, finish](CUresult error, const std::string& why) {
                       executed_ += g->executed;
                       if (g->cooperative)
                         memory_.detach(g->workspace(), grid_workspaces::bytes);
                       if (error != CUDA_SUCCESS) {
                         set_error(error);
                         if (reporter_)
                           reporter_(why);
                       }
                       g->piece.ended();
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
    t->start = [this, bytes, from, told,
                piece = work_piece{traced_}](auto finish) {
      piece.reached();
      copier_.run(bytes.size(), [this, bytes, from, told, piece, finish] {
        piece.began();
        if (!failed() && usable(from, bytes.size()))
          std::memcpy(bytes.data(), reinterpret_cast<const void*>(from),
                      bytes.size());
        piece.ended();
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
        copy_box(to, from, size);
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
    return add_copy(stream, *out,
                    [this, to, value, element_bytes, size, n = *out] {
                      if (n != 0 && usable(to.address, n))
                        fill_box(to, size, value, element_bytes);
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

  status set_conditions_in(memory_id, device_address address,
                           device_address place) override {
    if (auto ok = check_range("conditions", address, condition_bytes); !ok)
      return ok;
    conditions_ = {address, place};
    return {};
  }

  status enqueue_wait(stream_id stream, const awaited_value& what) override {
    if (auto ok = check_range("wait", what.address, what.bytes); !ok)
      return ok;
    auto t = std::make_shared<task>();
    t->start = [this, what](auto finish) {
      auto over = [this, what] {
        return failed() || !usable(what.address, what.bytes) ||
               what.met_by(what.read());
      };
      if (over())
        finish();
      else
        watch_.add(over, finish);
    };
    return scheduler_->add(stream, std::move(t));
  }

  void set_printer(printer to) override {
    auto lock = std::lock_guard{print_mutex_};
    printer_ = std::move(to);
  }

  void set_reporter(reporter to) override { reporter_ = std::move(to); }

  void trace(std::shared_ptr<work_span> what) override {
    traced_ = std::move(what);
  }

  // -- faults on purpose
  // --------------------------------------------------------

  void inject(injected_fault what) override {
    switch (what) {
    case injected_fault::lost:
      lost_ = true;
      error_ = CUDA_ERROR_DEVICE_UNAVAILABLE;
      end_all();
      break;
    case injected_fault::ecc:
      set_error(CUDA_ERROR_ECC_UNCORRECTABLE);
      break;
    case injected_fault::hang:
      scheduler_->freeze();
      engine_.freeze();
      copier_.freeze();
      notifier_.freeze();
      break; // tasks that a value releases do not start
    }
  }

private:
  using use_of = granule_account::use_of;

  /// Waits for all streams where the device's options ask for that.
  void wait_like_a_driver() {
    if (!waits_like_a_driver_) [[likely]]
      return;
    auto done = std::make_shared<std::promise<void>>();
    auto t = std::make_shared<task>();
    t->always = true;
    t->start = [done](auto finish) {
      done->set_value();
      finish();
    };
    scheduler_->after(std::nullopt, std::move(t));
    done->get_future().wait();
  }

  status map(device_address address, std::uint64_t bytes, use_of by) {
    if (auto ok = alive(); !ok)
      return ok;
    if (!memory_.in_window(address, bytes))
      return invalid("map: " + hex(address) + " and its " + hex(bytes) +
                     " bytes are not whole granules of the window");
    for (auto g = address; g != address + bytes; g += granule_bytes)
      if (account_.contains(g))
        return invalid("map: " + hex(g) + " is mapped already");
    if (auto ok = account_.check_quota("map", bytes, by); !ok)
      return ok;
    if (auto before = leaving_.of(address, bytes); !before.empty()) {
      // Earlier work may still use the memory that was there. The new memory
      // comes when that work is done, and before any work enqueued from now on.
      auto t = std::make_shared<task>();
      t->always = true;
      t->start = [this, address, bytes](auto finish) {
        if (!back(address, bytes))
          set_error(CUDA_ERROR_OUT_OF_MEMORY);
        finish();
      };
      scheduler_->fence(std::move(t), before);
    } else if (auto ok = back(address, bytes); !ok) {
      return ok;
    }
    account_.insert(address, bytes);
    account_.use(bytes, by);
    return {};
  }

  status unmap(device_address address, std::uint64_t bytes, use_of by) {
    if (!memory_.in_window(address, bytes))
      return invalid("unmap: " + hex(address) +
                     " and its bytes are not whole granules of the window");
    for (auto g = address; g != address + bytes; g += granule_bytes)
      if (!account_.contains(g))
        return invalid("unmap: " + hex(g) + " is not mapped");
    account_.erase(address, bytes);
    account_.unuse(bytes, by);
    shared_.forget(address, bytes);
    auto t = std::make_shared<task>();
    t->always = true;
    t->start = [this, address, bytes, self = t.get(),
                adopted = adopted_.take(address, bytes)](auto finish) {
      changes_.remove(address, bytes);
      adopted_files::empty(adopted);
      memory_.release(address, bytes);
      leaving_.erase(address, bytes, self);
      finish();
    };
    leaving_.insert(address, bytes, t);
    scheduler_->after(std::nullopt, std::move(t));
    return {};
  }

  status back(device_address address, std::uint64_t bytes) {
    auto ok = memory_.back(address, bytes);
    if (ok)
      changes_.add(address, bytes);
    return ok;
  }

  /// Unmaps a granule of module variables, at once where no work can use it.
  void give_back(device_address granule, bool was_used) {
    if (was_used) {
      (void)unmap(granule, granule_bytes, use_of::modules);
      return;
    }
    changes_.remove(granule, granule_bytes);
    memory_.release(granule, granule_bytes);
    account_.erase(granule, granule_bytes);
    account_.unuse(granule_bytes, use_of::modules);
  }

  bool failed() const { return error_ != CUDA_SUCCESS; }

  status less_used(const result<std::uint64_t>& bytes) {
    if (!bytes)
      return bytes.why();
    account_.unuse(*bytes);
    return {};
  }

  void set_error(CUresult x) {
    auto none = CUDA_SUCCESS;
    if (error_.compare_exchange_strong(none, x))
      end_all();
  }

  /// Makes enqueued work end soon, without being done.
  void end_all() {
    engine_.cancel_all();
    busy_.release();
  }

  /// Returns the error for work that never came to its end.
  CUresult end_error() const {
    return failed() ? error_.load() : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }

  status alive() const {
    if (lost_)
      return cuda_fault(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is lost");
    return {};
  }

  static fault no_kernel(module_id id, std::uint32_t kernel) {
    return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                      "module " + std::to_string(id.value) + " has no kernel " +
                          std::to_string(kernel));
  }

  bool usable(device_address at, std::uint64_t bytes) {
    if (bytes == 0)
      return true;
    if (memory_.usable(at, bytes))
      return true;
    set_error(CUDA_ERROR_ILLEGAL_ADDRESS);
    return false;
  }

  /// Checks a range against memory as the caller sees it now, before enqueued
  /// work has run.
  status check_range(const char* what, device_address at,
                     std::uint64_t bytes) const {
    if (auto ok = alive(); !ok)
      return ok;
    if (bytes == 0)
      return {};
    auto offset = at - memory_.base();
    auto ok = memory_.base() != 0 && offset < window_bytes
                  ? bytes <= window_bytes - offset && account_.covers(at, bytes)
                  : memory_.usable(at, bytes);
    if (!ok)
      return invalid(std::string{what} + ": " + hex(at) + " and its " +
                     std::to_string(bytes) +
                     " bytes are not memory of this session");
    return {};
  }

  template <class F>
  status add_copy(stream_id stream, std::uint64_t bytes, F job) {
    auto t = std::make_shared<task>();
    t->start = [this, bytes, job = std::move(job),
                piece = work_piece{traced_}](auto finish) {
      piece.reached();
      copier_.run(bytes, [this, job, piece, finish] {
        piece.began();
        if (!failed())
          job();
        piece.ended();
        finish();
      });
    };
    return scheduler_->add(stream, std::move(t));
  }

  task_ptr notification(completion done) {
    auto told = once(std::move(done));
    auto t = std::make_shared<task>();
    t->always = true;
    // Completions do not block, so they need no other thread, which would cost
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
  const bool waits_like_a_driver_;
  granule_account account_;
  std::atomic<CUresult> error_ = CUDA_SUCCESS;
  std::atomic<bool> lost_ = false;
  memory_map memory_;
  change_tracker changes_;
  adopted_files adopted_;
  physical_store physical_{memory_};
  condition_memory conditions_;
  std::shared_ptr<grid_workspaces> workspaces_ =
      std::make_shared<grid_workspaces>();
  shared_memory shared_{memory_};
  leaving_granules leaving_;
  module_store modules_;
  texture_store textures_;
  std::uint32_t stack_ = least_stack;
  std::uint64_t launches_ = 0;
  std::atomic<std::uint64_t> executed_ = 0;
  std::mutex print_mutex_;
  printer printer_;
  reporter reporter_;
  std::shared_ptr<work_span> traced_;
  busy_time busy_;
  // Last members, so that their threads end before the members that they use
  std::shared_ptr<scheduler> scheduler_;
  copy_engine copier_{busy_, multiprocessors_of(props_) > 1};
  job_thread notifier_;
  value_watch watch_;
  engine engine_{multiprocessors_of(props_), busy_};
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
