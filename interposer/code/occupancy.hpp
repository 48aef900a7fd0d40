// How many blocks of a kernel fit a multiprocessor: computed here, from the
// device's and the kernel's attributes.
#pragma once

#include "interposer/code/module.hpp"

#include <cstddef>

namespace vgpu::interposer {

/// 0 when a block does not fit at all.
int active_blocks(const function& f, int block_threads,
                  std::size_t dynamic_shared);

/// The largest dynamic shared memory with which `blocks` blocks still fit.
std::size_t available_shared(const function& f, int blocks, int block_threads);

/// The block size with the highest occupancy, and the blocks that fill the
/// device then. `shared_of` tells the dynamic shared memory of a block size.
struct block_choice {
  int block_threads = 0;
  int grid_blocks = 0;
};
block_choice best_block(const function& f, CUoccupancyB2DSize shared_of,
                        std::size_t dynamic_shared, int block_limit);

} // namespace vgpu::interposer
