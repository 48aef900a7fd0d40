// CUDA arrays and mipmapped arrays.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/session/handle_table.hpp"
#include "schema/base/texture_description.hpp"

#include <cuda.h>

#include <cstdint>
#include <vector>

namespace vgpu::interposer {

/// Represents a CUDA array, or one level of a mipmapped array. Its elements
/// have addresses in the device's window, which copies use and programs never
/// see.
struct array {
  context& owner;
  const array_id wire;
  /// Holds the shape of the array, or of the level.
  const array_shape shape;
  /// Holds the level's position in the whole array.
  const array_level place;
  /// Holds the address of the whole array.
  const device_address address;
  /// Holds the size of an element, in bytes.
  const std::uint32_t element;
  /// Holds the index of the level in its mipmapped array.
  const std::uint32_t level = 0;
  /// Names the mipmapped array of a level. Null otherwise.
  const CUmipmappedArray of = nullptr;
};

/// Represents a mipmapped array, which owns the arrays of its levels.
struct mipmap {
  context& owner;
  const array_id wire;
  const array_shape shape;
  const device_address address;
  std::vector<CUarray> levels;
};

/// Returns the process's arrays by handle. Precondition: the driver's state is
/// made.
handle_table<array>& arrays() noexcept;
/// Returns the process's mipmapped arrays by handle. Precondition: the driver's
/// state is made.
handle_table<mipmap>& mipmaps() noexcept;

/// Makes an array after the driver's checks of its shape. Returns
/// CUDA_ERROR_INVALID_VALUE for shapes that do not exist,
/// CUDA_ERROR_NOT_SUPPORTED for sparse arrays and for formats of planes or
/// blocks, and CUDA_ERROR_OUT_OF_MEMORY beyond the quota.
CUresult create_array(context& in, const array_shape& shape, CUarray& out);
/// Makes a mipmapped array, with the errors of create_array().
CUresult create_mipmap(context& in, array_shape shape, CUmipmappedArray& out);

/// Destroys an array; a level of a mipmapped array stays. Returns
/// CUDA_ERROR_INVALID_HANDLE where the handle names no array.
CUresult destroy_array(CUarray x);
/// Destroys a mipmapped array and its levels. Returns CUDA_ERROR_INVALID_HANDLE
/// where the handle names none.
CUresult destroy_mipmap(CUmipmappedArray x);

/// Destroys all arrays of a context.
void destroy_arrays(context& of);

/// Returns the array or level that has an element at the address, or null.
const array* array_at(device_address address, CUarray& handle);

} // namespace vgpu::interposer
