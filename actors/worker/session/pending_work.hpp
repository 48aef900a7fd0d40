// How much enqueued work of a session its devices have yet to do.
#pragma once

#include "devices/interface/device.hpp"

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace vgpu {

/// Counts the work in each stream, so that no program makes its worker keep any
/// number of pieces (worker_bounds). Like a GPU's driver, which blocks the
/// program when a stream's queue is full, the worker then executes no call
/// until some of it is done. The devices report the end of many pieces at a
/// time, so counting costs next to nothing.
///
/// One thread uses it. The completions that it enqueues may run on any.
class pending_work {
public:
  struct place {
    std::size_t device = 0;
    stream_id stream;
    auto operator<=>(const place&) const = default;
  };

  pending_work();

  /// Returns whether a call for this stream must wait. `by_itself` says that
  /// what is enqueued ends without a further call. Otherwise a later call may
  /// be what the stream waits for, and only the bound for all streams holds.
  bool is_full(const place& where, bool by_itself);
  /// Sleeps, after is_full() returned true, until there may be room.
  void wait(std::chrono::nanoseconds at_most);
  /// Returns whether is_full() returned true last.
  bool is_waiting() const noexcept { return waiting_; }

  /// Counts a call's pieces that were enqueued on the device.
  void enqueued(device::device& on, const place& where, std::uint64_t pieces);
  /// Forgets a stream that is about to be destroyed. Its work still counts.
  void destroyed(device::device& on, const place& where);

  /// Returns how many pieces are pending, or were when the devices last
  /// reported. Thread-safe.
  std::uint64_t pieces() const noexcept;

private:
  struct sums;
  struct stream {
    device::device* on = nullptr;
    std::shared_ptr<sums> pending;
    /// Counts the pieces whose end no completion will report yet.
    std::uint64_t unmarked = 0;
  };

  static void mark(const std::shared_ptr<sums>& all, stream_id id, stream& x);
  void mark_all();

  std::shared_ptr<sums> all_;
  stream* find(const place& where);

  std::map<place, stream> streams_;
  /// Holds the stream that was found last, as calls of one follow each other.
  place latest_place_;
  stream* latest_ = nullptr;
  bool waiting_ = false;
  /// Holds how many pieces there were when is_full() returned true.
  std::uint64_t seen_ = 0;
};

} // namespace vgpu
