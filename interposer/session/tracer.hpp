// The interface of a tracer, which is told of the program's calls and of the
// work that they append. Nobody is, unless one is set.
#pragma once

#include "schema/catalogue/calls.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

namespace vgpu::interposer {

struct function;

/// Is told of calls and work, on the thread that makes them. The functions call
/// no entry point. Thread-safe.
class tracer {
public:
  tracer() = default;
  tracer(const tracer&) = delete;
  tracer& operator=(const tracer&) = delete;

  /// Tells that the program calls an entry point. `body` is the
  /// __PRETTY_FUNCTION__ of a template over a lambda of the entry point. Entry
  /// points call each other.
  virtual void enters(std::string_view body) noexcept = 0;
  /// Tells that the entry point returns.
  virtual void leaves(CUresult result) noexcept = 0;

  /// Tells from where the next write of this thread takes its bytes.
  virtual void copies_from(device_address source) noexcept = 0;
  virtual void launched(const call::launch& x, const function& what,
                        std::uint8_t device, call_number number) noexcept = 0;
  virtual void appended(const call::write& x, std::uint8_t device,
                        call_number number) noexcept = 0;
  virtual void appended(const call::late_write& x, std::uint8_t device,
                        call_number number) noexcept = 0;
  virtual void appended(const call::read& x, std::uint8_t device,
                        call_number number) noexcept = 0;
  virtual void appended(const call::read_host& x, std::uint8_t device,
                        call_number number) noexcept = 0;
  virtual void appended(const call::copy& x, std::uint8_t device,
                        call_number number) noexcept = 0;
  virtual void appended(const call::fill& x, std::uint8_t device,
                        call_number number) noexcept = 0;
  virtual void appended(const call::stream_sync& x, std::uint8_t device,
                        call_number number) noexcept = 0;
  virtual void appended(const call::stream_wait& x, std::uint8_t device,
                        call_number number) noexcept = 0;
  /// Tells that the program has the answer of a call, whose work is done.
  virtual void answered(call_number number) noexcept = 0;

protected:
  ~tracer() = default;
};

/// Points to the tracer, or is null. A tracer lives as long as the process.
inline std::atomic<tracer*> active_tracer{nullptr};

/// Returns the tracer, or null.
inline tracer* traced_by() noexcept {
  return active_tracer.load(std::memory_order_acquire);
}

/// Holds a call's name and its arguments as CUPTI's callbacks show them, a
/// structure with a member for each, while the program is traced. An entry
/// point makes it before its body runs, with its own __func__. The tracer finds
/// the names of other entry points in their bodies' names.
class call_arguments {
public:
  template <class... All>
  explicit call_arguments(const char* name, const All&... all) noexcept {
    if (traced_by() == nullptr) [[likely]]
      return;
    [[maybe_unused]] std::size_t end = 0;
    (put(all, end), ...);
    name_ = name;
    before_ = std::exchange(current_, this);
    is_set_ = true;
  }
  call_arguments(const call_arguments&) = delete;
  call_arguments& operator=(const call_arguments&) = delete;
  ~call_arguments() {
    if (is_set_) [[unlikely]]
      current_ = before_;
  }

  /// Returns those of the innermost call of this thread, or null.
  static const call_arguments* current() noexcept { return current_; }
  const char* name() const noexcept { return name_; }
  const void* bytes() const noexcept { return bytes_.data(); }

private:
  template <class T>
  void put(const T& x, std::size_t& end) noexcept {
    end = (end + alignof(T) - 1) / alignof(T) * alignof(T);
    static_assert(std::is_trivially_copyable_v<T>);
    if (end + sizeof x <= bytes_.size())
      std::memcpy(bytes_.data() + end, &x, sizeof x);
    end += sizeof x;
  }

  inline static thread_local const call_arguments* current_ = nullptr;
  // Not initialised, because most calls need nothing of it.
  alignas(8) std::array<std::byte, 256> bytes_;
  const char* name_;
  const call_arguments* before_;
  bool is_set_ = false;
};

/// Represents one call of an entry point for the tracer.
class traced_call {
public:
  explicit traced_call(std::string_view body) noexcept : by_(traced_by()) {
    if (by_ != nullptr) [[unlikely]]
      by_->enters(body);
  }
  traced_call(const traced_call&) = delete;
  traced_call& operator=(const traced_call&) = delete;

  /// Ends the call with this result, which it returns.
  CUresult gives(CUresult result) noexcept {
    if (by_ != nullptr) [[unlikely]]
      std::exchange(by_, nullptr)->leaves(result);
    return result;
  }

private:
  tracer* by_;
};

/// Tells the tracer of an appended call, if it is of a kind that it wants.
template <class Call>
void tell_tracer(const Call& x, std::uint8_t device,
                 call_number number) noexcept {
  if constexpr (requires(tracer & by) { by.appended(x, device, number); })
    if (auto* by = traced_by(); by != nullptr) [[unlikely]]
      by->appended(x, device, number);
}

} // namespace vgpu::interposer
