// Copies to the device whose bytes the program sends when their stream has come
// to them.
#pragma once

#include "actors/worker/session/late_rooms.hpp"
#include "schema/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace vgpu {

/// Represents one such copy. Its stream stands before it until the bytes are in
/// the room from which the device copies. Neither the stream's work nor the
/// thread that executes calls is needed for that. A copy that is larger than
/// its room passes through in pieces, and its stream stands before each.
/// Thread-safe.
class late_write_gate {
public:
  /// Describes a part of the copy: columns of some rows.
  struct piece {
    std::uint64_t x, y, width, height;
  };

  /// Makes a copy of `height` rows of `width` bytes. Precondition: none is 0.
  late_write_gate(late_rooms::place where, std::uint64_t width,
                  std::uint64_t height);

  std::size_t bytes() const noexcept { return width_ * height_; }
  /// Returns the pieces in the order in which the device copies them. The bytes
  /// of each are packed at the begin of the room.
  std::span<const piece> pieces() const noexcept { return pieces_; }
  device_address address() const noexcept {
    return reinterpret_cast<device_address>(where_.at.get());
  }
  const late_rooms::room& room() const noexcept { return where_.at; }

  /// Records that the stream stands before the next piece. `go_on` lets it
  /// continue.
  void reached(std::function<void()> go_on);
  /// Gives the copy its bytes, which `owner` keeps. Where they cannot be taken
  /// yet, they are taken when the stream comes here. Bytes that wait may be
  /// given again with another owner.
  void give(std::span<const std::byte> bytes,
            std::shared_ptr<const void> owner);

private:
  std::function<void()> fill();

  const late_rooms::place where_;
  const std::uint64_t width_, height_;
  std::vector<piece> pieces_;
  std::mutex lock_;
  std::size_t reached_ = 0; // pieces before which the stream has stood
  std::size_t filled_ = 0;  // pieces whose bytes were in the room
  std::span<const std::byte> given_;
  std::shared_ptr<const void> owner_;
  std::function<void()> go_on_;
};

/// Holds a session's copies of this kind by the numbers of their calls, until
/// the log has brought their bytes. Thread-safe.
class late_writes {
public:
  using gate = std::shared_ptr<late_write_gate>;

  /// Adds a copy, which may have been given its bytes early.
  void add(std::uint64_t call, gate what);
  /// Gives a copy its bytes, and forgets the copy. Returns false where there is
  /// no such copy of that size.
  bool give(std::uint64_t call, std::span<const std::byte> bytes,
            std::shared_ptr<const void> owner);
  /// Gives a copy its bytes before their call's turn. They stay valid until
  /// give() is called for them, or `owner` keeps them.
  void give_early(std::uint64_t call, std::span<const std::byte> bytes,
                  std::shared_ptr<const void> owner);
  /// Returns how many copies have bytes that give() has yet to bring.
  std::size_t given_ahead() const;

private:
  struct early_bytes {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };

  mutable std::mutex lock_;
  std::map<std::uint64_t, gate> open_;
  /// Holds those that give_early() has given their bytes.
  std::set<std::uint64_t> ahead_;
  /// Holds bytes that came before their copy was executed, as in a replay.
  std::map<std::uint64_t, early_bytes> early_;
};

} // namespace vgpu
