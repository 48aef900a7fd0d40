// Optional interface of a device: tracking which memory changed.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace vgpu::device {

/// Is a piece of memory that is copied without regard to stream order.
struct peeked {
  /// Holds the piece's address. The piece lies in one granule.
  device_address from = 0;
  /// Says where the bytes go, and how many there are.
  std::span<std::byte> into{};
  /// Says whether they were copied.
  status outcome{};
  /// Says that `into` was pinned for the device.
  bool pinned = false;
};

/// Is memory of this process that a device writes without a detour. Ending it
/// unpins the memory; the device must outlive it.
class pinned_memory {
public:
  virtual ~pinned_memory() = default;
};

/// Is room on a device for copies of its memory. A device copies its memory to
/// there in a fraction of the time that it needs to bring it to the host, so
/// that work waits for a short time only. Ending it frees the room; the device
/// must outlive it.
class contents_room {
public:
  virtual ~contents_room() = default;

  /// Copies these granules as they are now. Call it once, with the device at
  /// rest, for at most as many granules as there is room for. Returns when the
  /// copies are made. After a fault nothing is kept.
  virtual status keep(std::span<const device_address> granules) = 0;
  /// Copies pieces of kept granules into memory of this process. Their
  /// addresses are those that the granules had when they were kept.
  /// Thread-safe.
  virtual void peek(std::span<peeked> pieces) = 0;
};

/// A device that tracks writes to its memory implements this interface, so that
/// a caller can update an earlier copy of the memory by copying only the
/// changed parts. Tracking starts, and may cost time, with the first mark().
class change_unit {
public:
  virtual ~change_unit() = default;

  /// Starts a new tracking interval and returns its mark, which is larger than
  /// all earlier marks and never 0. Earlier marks stay valid. Enqueued work
  /// continues and is delayed only briefly, though the call itself may take
  /// long. A copy of memory that begins after this call is exact if
  /// changed_since() says, with the device at rest, that the memory did not
  /// change since this mark.
  ///
  /// Any thread may call this, one at a time. Returns CUDA_ERROR_NOT_SUPPORTED
  /// where the device has too much memory for tracking, or the host does not
  /// allow it.
  virtual result<std::uint64_t> mark() = 0;

  /// Tells whether changes are known only up to the latest mark. If so, the
  /// caller has to set another mark, also with the device at rest, to learn of
  /// the changes after it.
  virtual bool tells_at_marks() const noexcept = 0;

  /// Tells whether the granule that contains `address` may have changed, or was
  /// mapped, after this mark. The answer is always true for memory that the
  /// device cannot track: memory that the program maps by itself, and shared
  /// memory. While work runs the answer is a hint, since a change may be
  /// reported later. Thread-safe.
  virtual bool changed_since(device_address address,
                             std::uint64_t mark) const noexcept = 0;

  /// Copies pieces of the device's memory, each as it is at some moment of the
  /// call, into memory of this process, without regard to stream order.
  /// Thread-safe. The outcome of a piece is a fault where the memory is no
  /// longer mapped, or the host does not let the device read it.
  virtual void peek(std::span<peeked> pieces) = 0;

  /// Pins memory of this process, in whole pages, for the copies of peek(). It
  /// takes longer than a copy. Thread-safe. Returns null where the device
  /// cannot.
  virtual std::unique_ptr<pinned_memory> pin(std::span<std::byte> memory) = 0;

  /// Copies pieces of the device's memory, wherever they lie, with the device
  /// at rest. They are allocated. Small ones take much less time together than
  /// each by itself.
  virtual void read_at_rest(std::span<peeked> pieces) = 0;

  /// Returns room for copies of so many granules, in memory that no other call
  /// counts. A device has one room at a time. Returns CUDA_ERROR_OUT_OF_MEMORY
  /// where the device has not enough memory.
  virtual result<std::unique_ptr<contents_room>>
  make_room(std::uint64_t granules) = 0;

  /// Returns about how many bytes the device copies to a room in a second.
  virtual std::uint64_t kept_a_second() const noexcept = 0;
};

} // namespace vgpu::device
