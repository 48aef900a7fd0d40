// Operational errors as values.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace vgpu {

/// Describes a refused or failed operation: the code for the program, and a
/// sentence for the log that names the object, what was wrong and what to do
/// about it.
struct fault {
  CUresult code = CUDA_ERROR_UNKNOWN;
  std::string what;
};

/// Returns the code that a peer sent, or CUDA_ERROR_UNKNOWN where it is not
/// one.
constexpr CUresult to_result(std::uint32_t code) noexcept {
  return code <= CUDA_ERROR_UNKNOWN ? static_cast<CUresult>(code)
                                    : CUDA_ERROR_UNKNOWN;
}

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
  status(fault why) : why_(std::move(why)) {}

  bool ok() const noexcept { return why_.code == CUDA_SUCCESS; }
  explicit operator bool() const noexcept { return ok(); }
  CUresult code() const noexcept { return why_.code; }
  /// Returns the fault, which has no meaning if ok().
  const fault& why() const noexcept { return why_; }

private:
  fault why_{CUDA_SUCCESS, {}};
};

} // namespace vgpu
