// Copies that read or write the program's memory when their stream comes to
// them, and not when the program makes the call.
#pragma once

#include "interposer/session/reply_slots.hpp"
#include "interposer/stream/stream_event.hpp"
#include "schema/catalogue/calls.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace vgpu::interposer {

/// Describes a part of a copy to the device, and where the program has its
/// rows.
struct late_part {
  call::late_write what;
  std::uint64_t from = 0;
  std::uint64_t pitch = 0;
};

/// Represents a part of the reply arena through which the pending copies of one
/// stream read. They take it in turn, because the stream itself waits between
/// them until the program has taken what was read. So any number of copies may
/// pend, and each of them can be made although no further call is executed.
class late_room {
public:
  /// Adds the room's bytes to `used`, and subtracts them at its end.
  late_room(std::vector<reply_arena::range> pieces, std::size_t piece_bytes,
            std::atomic<std::size_t>& used);
  late_room(const late_room&) = delete;
  late_room& operator=(const late_room&) = delete;
  ~late_room();

  /// Is held while a read into the room, and the work that makes the program
  /// take it, are appended.
  std::mutex& lock() noexcept { return lock_; }
  std::size_t pieces() const noexcept { return pieces_.size(); }
  std::size_t piece_bytes() const noexcept { return piece_bytes_; }
  std::uint64_t offset(std::size_t piece) const noexcept {
    return pieces_[piece].offset();
  }
  std::span<std::byte> bytes(std::size_t piece) const noexcept {
    return pieces_[piece].bytes();
  }
  /// Lets nobody have the room after this stream: an answer may still come.
  void keep_forever() noexcept;

private:
  std::mutex lock_;
  std::vector<reply_arena::range> pieces_;
  const std::size_t piece_bytes_;
  std::atomic<std::size_t>& used_;
};

/// Makes one copy, in steps.
class copy_steps {
public:
  virtual ~copy_steps() = default;
  /// Appends the work of a step to `side`, which nothing else uses, and touches
  /// the program's memory. Returns false where the copy is done, and otherwise
  /// is called again when the step's work is done. It must not wait for work.
  virtual bool step(stream& side) = 0;
};

/// Lets streams wait for copies that the thread of the host functions makes.
///
///   the program's stream      a hidden stream        the library's
///     work before                                    own thread
///     event record, host_call ───────────────────────► first step:
///        │                    wait for the event  ◄─── appends it
///        │                    the copy, host_call ◄───
///        │                          └────────────────► next step: is done
///     work after     ◄──────────────────────────────── host_done
///
/// The log so holds the bytes that the copy used, and a replay does not read
/// the program's memory. Thread-safe.
class late_copy_list {
public:
  /// Makes the copy when the stream comes to it. It may write to [begin, end)
  /// of the program's memory.
  CUresult add(stream& in, std::uint64_t begin, std::uint64_t end,
               std::unique_ptr<copy_steps> what);

  /// Makes a copy to the device, whose parts follow each other in the stream.
  /// The copies stand in the stream at once, and wait there for their bytes,
  /// so that no other stream has to do anything for them.
  CUresult add_write(stream& in, std::vector<late_part> parts);

  /// Calls `what` when the stream comes to it, and lets the stream continue
  /// then. It may write to [begin, end) of the program's memory, and appends no
  /// work.
  CUresult add_action(stream& in, std::uint64_t begin, std::uint64_t end,
                      std::function<void()> what);

  /// Returns the stream's room for reads of pending copies, or null where the
  /// rooms of other streams occupy the part of the arena that is for rooms.
  std::shared_ptr<late_room> room_of(stream& in);
  /// Counts bytes that pending copies read through rooms. Returns false, and
  /// counts nothing, where a worker elsewhere would keep too much memory for
  /// them.
  bool may_read(std::size_t bytes);
  void was_read(std::size_t bytes) noexcept { reads_ -= bytes; }

  /// Makes the hidden stream of a context, which the first copy needs, unless
  /// a stream waits for the program. A GPU's driver may wait for all streams
  /// when it makes one, so callers do this early.
  void prepare(context& in);

  /// Waits until no copy is pending. It does not wait on the thread that makes
  /// the copies.
  void wait_for_none();
  /// Waits until no copy is pending, and destroys the hidden stream of a
  /// context that ends.
  void forget(const context& of);

private:
  class copy;
  class write;
  class action;
  /// Holds what copies in one context need.
  struct place {
    context& in;
    const std::uint64_t context_id;
    const std::unique_ptr<stream> side;
    /// Events that no copy uses now.
    std::vector<std::unique_ptr<event>> idle;
  };

  place& place_of(context& in);
  std::unique_ptr<event> take_event(place& x);
  void give(place& x, std::unique_ptr<event> what);
  void begun();
  void ended();

  std::mutex making_; // is held while a place is made
  std::mutex mutex_;
  std::condition_variable none_;
  std::vector<std::unique_ptr<place>> places_;
  std::atomic<std::size_t> pending_{0};
  std::atomic<std::size_t> rooms_{0}; // bytes of the arena
  std::atomic<std::size_t> reads_{0}; // bytes that come through rooms
  std::unordered_map<std::uint64_t, std::weak_ptr<late_room>> room_of_;
};

/// Returns the process's copies of this kind. Precondition: the driver's state
/// is made.
late_copy_list& late_copies() noexcept;

} // namespace vgpu::interposer
