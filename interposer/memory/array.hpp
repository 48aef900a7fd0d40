// CUDA arrays and mipmapped arrays.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/session/handle_table.hpp"
#include "schema/base/texture_description.hpp"

#include <cuda.h>

#include <cstdint>
#include <vector>

namespace vgpu::interposer {

/// A CUDA array, or one level of a mipmapped array. Its elements have
/// addresses in the device's window, by which copies name them; programs know
/// none of these.
struct array {
  context& owner;
  const array_id wire;
  const array_shape shape;             ///< of the array itself, one level
  const array_level place;             ///< in the whole
  const device_address address;        ///< where the whole begins
  const std::uint32_t element;         ///< bytes
  const std::uint32_t level = 0;       ///< in its mipmapped array
  const CUmipmappedArray of = nullptr; ///< or none
};

struct mipmap {
  context& owner;
  const array_id wire;
  const array_shape shape;
  const device_address address;
  std::vector<CUarray> levels;
};

/// Gives the process's own. Precondition: the driver's state is made.
handle_table<array>& arrays() noexcept;
handle_table<mipmap>& mipmaps() noexcept;

/// Makes an array, after what the driver checks of its shape.
/// CUDA_ERROR_INVALID_VALUE for shapes that do not exist,
/// CUDA_ERROR_NOT_SUPPORTED for sparse ones and formats of planes or blocks,
/// CUDA_ERROR_OUT_OF_MEMORY beyond the quota.
CUresult create_array(context& in, const array_shape& shape, CUarray& out);
/// As create_array.
CUresult create_mipmap(context& in, array_shape shape, CUmipmappedArray& out);

/// CUDA_ERROR_INVALID_HANDLE for what is no array. A level of a mipmapped one
/// stays.
CUresult destroy_array(CUarray x);
CUresult destroy_mipmap(CUmipmappedArray x);

/// Destroys all arrays of a context.
void destroy_arrays(context& of);

/// The array, or level, that the address is an element's of; null when there
/// is none.
const array* array_at(device_address address, CUarray& handle);

} // namespace vgpu::interposer
