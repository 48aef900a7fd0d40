// Operational errors as values.
#pragma once

#include "schema/base/enum_names.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace vgpu {

/// Says what went wrong in an operation that was refused or failed. Each kind
/// but `device` has one code for a program (schema/base/cuda_fault.hpp).
enum class fault_kind : std::uint8_t {
  /// The request is impossible: an option, a name or a size is out of range.
  usage,
  /// Bytes from another process or from a file are malformed.
  corrupt,
  /// The request names something that does not exist, or that exists no more.
  missing,
  /// The caller is not allowed to, or another one holds what it requests.
  refused,
  /// The request is valid but cannot be served now. It may be served later.
  not_ready,
  /// There is not enough memory, or the largest number of something exists.
  exhausted,
  /// There is no GPU that could be used.
  no_device,
  /// This build, this device or this host does not support the request.
  unsupported,
  /// The two sides of a connection have incompatible versions.
  other_version,
  /// A process that this one depends on did not answer.
  unreachable,
  /// A device or a worker that was in use failed, and what it held is gone.
  lost,
  /// The operating system refused a call that should have succeeded.
  system,
  /// None of the above holds; a peer did not say what went wrong, or this
  /// program has an error.
  internal,
  /// A CUDA driver gave the answer, or a vGPU's worker gave it in the driver's
  /// place. The program sees that code unchanged.
  device,
};

/// Counts the kinds.
inline constexpr std::size_t fault_kinds =
    static_cast<std::size_t>(fault_kind::device) + 1;

inline constexpr enum_names<fault_kind, fault_kinds> fault_kind_names{{
    {fault_kind::usage, "usage"},
    {fault_kind::corrupt, "corrupt"},
    {fault_kind::missing, "missing"},
    {fault_kind::refused, "refused"},
    {fault_kind::not_ready, "not ready"},
    {fault_kind::exhausted, "exhausted"},
    {fault_kind::no_device, "no device"},
    {fault_kind::unsupported, "unsupported"},
    {fault_kind::other_version, "other version"},
    {fault_kind::unreachable, "unreachable"},
    {fault_kind::lost, "lost"},
    {fault_kind::system, "system"},
    {fault_kind::internal, "internal"},
    {fault_kind::device, "device"},
}};
static_assert(is_complete(fault_kind_names, fault_kind::device));

/// Returns the kind's name as a word for people.
constexpr std::string_view name_of(fault_kind x) noexcept {
  return text_in(fault_kind_names, x);
}

/// Describes a refused or failed operation: its kind, by which the caller
/// decides what to do, and a sentence for the log that names the object, what
/// was wrong and what to do about it.
struct fault {
  fault_kind kind = fault_kind::internal;
  std::string what;
  /// Holds the CUresult of a fault of kind `device`. Only cuda_fault() sets it
  /// and only cuda_code() reads it (schema/base/cuda_fault.hpp).
  std::uint32_t driver_code = 0;

  /// Returns the same fault with another sentence.
  fault reworded(std::string text) const {
    return {kind, std::move(text), driver_code};
  }
};

/// Holds a `T`, or the fault for which there is none. As thread-safe as `T`.
template <class T>
class [[nodiscard]] result {
public:
  result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  result(fault why) : state_(std::in_place_index<1>, std::move(why)) {}

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  /// Returns the value. Throws std::bad_variant_access unless ok().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// Returns the fault. Throws std::bad_variant_access if ok().
  const fault& why() const { return std::get<1>(state_); }

private:
  std::variant<T, fault> state_;
};

/// A status is success, or a fault.
class [[nodiscard]] status {
public:
  status() = default;
  status(fault why) : ok_(false), why_(std::move(why)) {}

  bool ok() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok(); }
  /// Returns the fault, which has no meaning if ok().
  const fault& why() const noexcept { return why_; }

private:
  bool ok_ = true;
  fault why_;
};

} // namespace vgpu
