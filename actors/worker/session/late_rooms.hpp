// Host memory through which bytes that the program sends late reach a device.
#pragma once

#include "devices/interface/device.hpp"
#include "schema/base/ids.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace vgpu {

/// Hands out rooms: pieces of host memory that one device can use in place. The
/// executor's thread takes them, and any thread may let them go.
///
/// A driver may wait for all streams when a device is made to use more memory,
/// and a stream may wait for the program. So rooms come out of memory that
/// prepare() got. Where a stream can have no further room, its copies share
/// one, and each of them may fill it only when its stream has come to it. The
/// room may also be smaller than the copy, which then fills it several times.
class late_rooms {
public:
  /// Owns a room; its last owner returns it.
  using room = std::shared_ptr<std::byte>;
  struct place {
    room at;
    std::size_t bytes = 0;
    /// Tells whether earlier copies of the stream may still use the room.
    bool shared = false;
  };
  static constexpr std::size_t largest = std::size_t{4} << 20;
  static constexpr std::size_t usual_bytes = std::size_t{256} << 20;

  /// Uses at most `usual` bytes at once, and more only for streams that have
  /// no room at all.
  explicit late_rooms(std::size_t usual = usual_bytes);

  /// Gets memory: at first for some rooms of each size, and later as much again
  /// of the sizes of which take() had too few. The caller calls it while no
  /// stream waits for the program.
  status prepare(device::device& on);
  /// Tells whether take() had too few rooms since then.
  bool lacks() const noexcept { return lacks_; }

  /// Returns a room for a copy of `bytes` bytes in this stream. Makes the
  /// device use more memory only where all rooms are taken and the stream has
  /// none.
  result<place> take(device::device& on, stream_id stream, std::size_t bytes);

private:
  /// Rooms have one of these sizes.
  static constexpr std::array sizes = {std::size_t{64} << 10,
                                       std::size_t{1} << 20, largest};
  /// Holds the memory, which is mapped until the last room is let go.
  struct memory {
    memory() = default;
    memory(const memory&) = delete;
    memory& operator=(const memory&) = delete;
    ~memory();

    std::mutex lock;
    std::vector<std::byte*> slabs; // of `largest` bytes each
    std::array<std::vector<std::byte*>, sizes.size()> free;
    std::size_t used = 0; // the bytes of the rooms that are out
  };
  struct last_room {
    std::weak_ptr<std::byte> at;
    std::size_t bytes = 0;
  };

  status grow(device::device& on, std::size_t which);
  void want_more(std::size_t which);
  bool has_room(std::size_t which, std::size_t kept) const;
  std::optional<std::size_t> any_size(std::size_t wanted) const;
  place hand_out(std::size_t which, stream_id stream);

  const std::size_t usual_;
  std::shared_ptr<memory> all_ = std::make_shared<memory>();
  std::unordered_map<stream_id, last_room> last_;
  /// Counts the slabs of each size that there are, and that there should be.
  std::array<std::size_t, sizes.size()> slabs_{}, wanted_{1, 1, 2};
  bool lacks_ = false;
};

} // namespace vgpu
