// Which memory changed since it was last looked at: what a device can do
// besides device.hpp.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace vgpu::device {

/// A device that notices what is written to its memory is one of these too, so
/// that a state is kept up by copying what changed. Nothing is noticed, and
/// nothing is any slower, until the first mark.
class change_unit {
public:
  virtual ~change_unit() = default;

  /// From when this returns, changes are noticed anew: the mark by which they
  /// are asked for, larger than all before, never 0. Work goes on meanwhile.
  /// Whoever copies memory afterwards, and finds at rest that it did not change
  /// since, has it as it is. Earlier marks stay good. From any thread, one at a
  /// time: it may take a while, and work waits for none of it for long.
  /// CUDA_ERROR_NOT_SUPPORTED where there is too much memory for
  /// that, or the host does not allow it.
  virtual result<std::uint64_t> mark() = 0;

  /// Whether changes are known up to the latest mark alone: also at rest one
  /// has to be made to know the rest.
  virtual bool tells_at_marks() const noexcept = 0;

  /// Whether the memory of the granule that `address` lies in may have changed
  /// since that mark, or was mapped since. What a device cannot watch (memory
  /// that the program placed by itself, or shares) always may. While work goes
  /// on the answer is a hint: what changes just now is told later. Thread-safe.
  virtual bool changed_since(device_address address,
                             std::uint64_t mark) const noexcept = 0;

  /// Copies memory as it is at this moment, whatever work goes on, into memory
  /// of this process. Thread-safe; takes no part in any stream's order. A fault
  /// where the memory is gone, or the host does not let it be looked at.
  virtual status peek(std::span<std::byte> into, device_address from) = 0;
};

} // namespace vgpu::device
