// Host memory through which bytes that the program sends late reach a device.
#pragma once

#include "devices/interface/device.hpp"
#include "schema/base/ids.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace vgpu {

/// Hands out rooms: pieces of host memory that one device can use in place. The
/// executor's thread takes them, and any thread may let them go.
///
/// Its memory is bounded. While less than `usual_bytes` are in use, each copy
/// gets a room of its own. Beyond that the copies of one stream share a room,
/// and each of them may fill it only when its stream has come to it.
class late_rooms {
public:
  /// Owns a room; its last owner returns it.
  using room = std::shared_ptr<std::byte>;
  struct place {
    room at;
    /// Tells whether earlier copies of the stream may still use the room.
    bool shared = false;
  };
  static constexpr std::size_t largest = std::size_t{4} << 20;
  static constexpr std::size_t usual_bytes = std::size_t{256} << 20;

  explicit late_rooms(std::size_t usual = usual_bytes);

  /// Gets memory for the first rooms, while no stream waits for the program.
  status prepare(device::device& on);

  /// Returns a room of at least `bytes` bytes, which are at most `largest`, for
  /// a copy in this stream. Where there is no more memory, it makes the device
  /// use more, for which a driver may wait for all streams.
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
  room hand_out(std::size_t which);

  const std::size_t usual_;
  std::shared_ptr<memory> all_ = std::make_shared<memory>();
  std::unordered_map<stream_id, last_room> last_;
};

} // namespace vgpu
