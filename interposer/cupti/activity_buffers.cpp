#include "interposer/cupti/activity_buffers.hpp"

#include "interposer/cupti/activity_records.hpp"
#include "interposer/cupti/call_watch.hpp"
#include "interposer/cupti/callback_names.hpp"
#include "interposer/cupti/tool.hpp"

#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace vgpu::cupti {

namespace {

using interposer::activity;
using interposer::activity_kind;

/// From so many activities on, buffers are given back without being asked for.
constexpr std::size_t many = std::size_t{1} << 15;
/// How many wait is looked up once in so many calls.
constexpr std::uint32_t look_every = 256;
constexpr std::size_t record_alignment = 8;

std::size_t size_of(kind x) noexcept {
  switch (x) {
  case kind::kernel:
  case kind::concurrent_kernel:
    return sizeof(kernel_record);
  case kind::memcpy:
    return sizeof(copy_record);
  case kind::memcpy_between_devices:
    return sizeof(peer_copy_record);
  case kind::memset:
    return sizeof(fill_record);
  case kind::driver:
  case kind::runtime:
    return sizeof(call_record);
  case kind::synchronization:
    return sizeof(wait_record);
  case kind::external_correlation:
    return sizeof(correlation_record);
  case kind::invalid:
  case kind::device:
  case kind::context:
    break;
  }
  return 0;
}

/// Guards the clock, and lets one thread at a time fill buffers. The tool's
/// functions may be called with it held.
std::mutex& filling() noexcept {
  static auto& x = *new std::mutex;
  return x;
}
tool_clock& clock() noexcept {
  static auto& x = *new tool_clock;
  return x;
}
std::atomic<std::uint64_t> flushed_at{0};
/// Tells whether there is a buffer of the tool's.
std::atomic<bool> has_buffer{false};

/// Fills the tool's buffers one after the other. As CUPTI does, it asks for a
/// buffer at the first call, and keeps one that is not full until a flush:
/// PyTorch's profiler flushes only while it knows of one. Not thread-safe.
class filler {
public:
  /// Sets the functions that lend the next buffer and take it back.
  void serve(request_buffer request, complete_buffer complete) noexcept {
    request_ = request;
    complete_ = complete;
  }

  /// Asks for a buffer where there is none.
  void begin() {
    if (buffer_ == nullptr)
      take();
  }

  template <class Record>
  void put(const Record& x) {
    if (!has_room(sizeof x)) {
      give_back();
      take();
    }
    if (!has_room(sizeof x)) {
      ++here().dropped;
      return;
    }
    std::memcpy(buffer_ + used_, &x, sizeof x);
    used_ += sizeof x;
    ++records_;
  }

  void give_back() {
    has_buffer = false;
    if (auto* full = std::exchange(buffer_, nullptr); full != nullptr)
      taker_(nullptr, 0, full, size_, used_);
  }

private:
  bool has_room(std::size_t bytes) const noexcept {
    return buffer_ != nullptr && size_ - used_ >= bytes &&
           (most_ == 0 || records_ < most_);
  }
  void take() {
    size_ = most_ = used_ = records_ = 0;
    taker_ = complete_;
    request_(&buffer_, &size_, &most_);
    if (reinterpret_cast<std::uintptr_t>(buffer_) % record_alignment != 0)
      size_ = 0;
    has_buffer = buffer_ != nullptr;
  }

  request_buffer request_ = nullptr;
  complete_buffer complete_ = nullptr;
  complete_buffer taker_ = nullptr; // takes the present buffer back
  std::uint8_t* buffer_ = nullptr;
  std::size_t size_ = 0, used_ = 0, most_ = 0, records_ = 0;
};

/// `filling` guards it.
filler& buffers() noexcept {
  static auto& x = *new filler;
  return x;
}

/// Writes what the tool wants of an activity.
struct writer {
  filler& to;
  std::bitset<kind_count> kinds;
  chosen_functions of_driver, of_runtime;
  bool latencies;

  bool wants(kind x) const { return kinds[static_cast<std::size_t>(x)]; }

  void put_call(const activity& x) const {
    if (static_cast<caller>(x.mark) == caller::runtime) {
      // The runtime makes calls that belong to none of its functions.
      if (auto number = runtime_function(x.name);
          number != 0 && of_runtime.wants(number, wants(kind::runtime)))
        to.put(call_of(x, clock(), kind::runtime, number));
    } else if (auto number = driver_function(x.name);
               of_driver.wants(number, wants(kind::driver))) {
      to.put(call_of(x, clock(), kind::driver, number));
    }
  }

  void put(const activity& x) const {
    switch (x.kind) {
    case activity_kind::kernel:
      if (wants(kind::concurrent_kernel))
        to.put(kernel_of(x, clock(), kind::concurrent_kernel, latencies));
      else if (wants(kind::kernel))
        to.put(kernel_of(x, clock(), kind::kernel, latencies));
      return;
    case activity_kind::copy:
      if (x.from_device != x.device && x.from == x.to) {
        if (wants(kind::memcpy_between_devices))
          to.put(peer_copy_of(x, clock()));
      } else if (wants(kind::memcpy)) {
        to.put(copy_of(x, clock()));
      }
      return;
    case activity_kind::fill:
      if (wants(kind::memset))
        to.put(fill_of(x, clock()));
      return;
    case activity_kind::wait:
      if (wants(kind::synchronization))
        to.put(wait_of(x, clock()));
      return;
    case activity_kind::call:
      return put_call(x);
    }
  }
};

} // namespace

namespace {

/// Writes all activities that are done into the tool's buffers. The caller
/// holds `filling`.
code write_all(filler& to) {
  auto& x = here();
  const auto* by = driver();
  if (by == nullptr)
    return code::not_initialized;
  request_buffer request = nullptr;
  complete_buffer complete = nullptr;
  std::vector<joined_call> joined;
  std::bitset<kind_count> kinds;
  chosen_functions of_driver, of_runtime;
  {
    std::lock_guard guard{x.mutex};
    request = x.request;
    complete = x.complete;
    kinds = x.kinds;
    of_driver = x.of_driver;
    of_runtime = x.of_runtime;
    if (request != nullptr)
      joined.swap(x.joined);
  }
  if (request == nullptr || complete == nullptr)
    return code::invalid_operation;
  to.serve(request, complete);
  clock().learn();
  for (const auto& one : joined) {
    correlation_record out;
    out.of = one.of;
    out.external = one.external;
    out.correlation = one.correlation;
    to.put(out);
  }
  writer each{to, kinds, of_driver, of_runtime, x.wants_latency};
  auto got = by->take(
      [](void* user, const activity* one) {
        static_cast<const writer*>(user)->put(*one);
      },
      &each);
  x.dropped += by->take_dropped();
  return got == CUDA_SUCCESS ? code::success : code::unknown;
}

} // namespace

namespace {

/// Asks the tool for a buffer, where there is none and it wants records.
void begin_buffer() {
  auto& x = here();
  std::lock_guard one_at_a_time{filling()};
  {
    std::lock_guard guard{x.mutex};
    if (!x.wants_records || x.request == nullptr)
      return;
    buffers().serve(x.request, x.complete);
  }
  buffers().begin();
}

} // namespace

code write_records() {
  std::lock_guard one_at_a_time{filling()};
  return write_all(buffers());
}

code flush_all() {
  std::lock_guard one_at_a_time{filling()};
  flushed_at = tool_clock::host_now();
  auto out = write_all(buffers());
  buffers().give_back();
  return out;
}

void flush_where_due() noexcept {
  thread_local std::uint32_t calls = 0;
  auto period = here().flush_ms.load();
  auto is_due = period != 0 && tool_clock::host_now() - flushed_at >
                                   std::uint64_t{period} * 1'000'000;
  if (++calls % look_every == 0)
    is_due = is_due || driver()->waiting() > many;
  if (!is_due && (has_buffer || !here().wants_records)) [[likely]]
    return;
  try {
    if (is_due)
      (void)flush_all();
    else
      begin_buffer();
  } catch (const std::bad_alloc&) {
    // The next flush finds the activities.
  }
}

code next_record(std::uint8_t* buffer, std::size_t valid, record_head*& x) {
  auto* at = buffer;
  if (x != nullptr)
    at = reinterpret_cast<std::uint8_t*>(x) + size_of(x->what);
  if (at < buffer || at >= buffer + valid)
    return code::max_limit_reached;
  auto* next = reinterpret_cast<record_head*>(at);
  if (size_of(next->what) == 0)
    return code::invalid_kind;
  x = next;
  return code::success;
}

void set_clock(read_clock to) {
  std::lock_guard guard{filling()};
  clock().set(to);
}

std::uint64_t time_now() noexcept {
  // A tool sets its clock before it asks for times.
  return clock().read();
}

} // namespace vgpu::cupti
