// The number of a kernel's blocks that fit a multiprocessor, computed here from
// the attributes of the device and the kernel.
#pragma once

#include "interposer/code/module.hpp"

#include <cstddef>

namespace vgpu::interposer {

/// Returns how many blocks fit a multiprocessor; 0 when not even one does.
int active_blocks(const function& f, int block_threads,
                  std::size_t dynamic_shared);

/// Returns the most dynamic shared memory, in bytes, with which `blocks` blocks
/// still fit.
std::size_t available_shared(const function& f, int blocks, int block_threads);

/// Holds a block size, and the number of blocks that fill the device.
struct block_choice {
  int block_threads = 0;
  int grid_blocks = 0;
};
/// Chooses the block size with the highest occupancy. `shared_of` gives the
/// dynamic shared memory of a block size.
block_choice best_block(const function& f, CUoccupancyB2DSize shared_of,
                        std::size_t dynamic_shared, int block_limit);

} // namespace vgpu::interposer
