// What can go wrong in operation, as a value.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace vgpu {

/// A refused or failed operation: the code that the program would be given,
/// and a sentence for the log that names the object, what was wrong and what
/// to do about it.
struct fault {
  CUresult code = CUDA_ERROR_UNKNOWN;
  std::string what;
};

/// The code that a peer wrote; CUDA_ERROR_UNKNOWN where it is none.
constexpr CUresult to_result(std::uint32_t code) noexcept {
  return code <= CUDA_ERROR_UNKNOWN ? static_cast<CUresult>(code)
                                    : CUDA_ERROR_UNKNOWN;
}

/// A `T`, or why there is none. Thread-safety: that of `T`.
template <class T>
class [[nodiscard]] result {
public:
  result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  result(fault why) : state_(std::in_place_index<1>, std::move(why)) {}

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  /// Only when ok(); throws std::bad_variant_access otherwise.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// Only when not ok().
  const fault& why() const { return std::get<1>(state_); }

private:
  std::variant<T, fault> state_;
};

/// Success, or why not.
class [[nodiscard]] status {
public:
  status() = default;
  status(fault why) : why_(std::move(why)) {}

  bool ok() const noexcept { return why_.code == CUDA_SUCCESS; }
  explicit operator bool() const noexcept { return ok(); }
  CUresult code() const noexcept { return why_.code; }
  /// Only meaningful when not ok().
  const fault& why() const noexcept { return why_; }

private:
  fault why_{CUDA_SUCCESS, {}};
};

} // namespace vgpu
