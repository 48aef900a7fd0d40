// Predictions of how long a session's work takes on the device alone.
#pragma once

#include "actors/compute/share_board.hpp"
#include "schema/catalogue/calls.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace vgpu {

/// Names work that takes about the same time in each run.
using work_key = std::uint64_t;

/// Returns the key of a call that brings work to the device. Other calls have
/// no overload.
work_key key_of(const call::launch& x);
work_key key_of(const call::write& x);
work_key key_of(const call::late_write& x);
work_key key_of(const call::read& x);
work_key key_of(const call::read_host& x);
work_key key_of(const call::copy& x);
work_key key_of(const call::fill& x);
/// Describes a call that brings work to the device.
template <class Call>
concept brings_work = requires(const Call& x) {
  key_of(x);
};

/// Returns whether the work is a copy that the device times by itself
/// (device::long_copy).
bool is_timed_alone(work_key x) noexcept;

/// Predicts work from its runs while the session had the device to itself. Not
/// thread-safe.
///
/// The time that work occupies its place (policy::share_work::held) is learned
/// from everything that is done in a turn. The time that the device works on it
/// is taken to be the same at first. A device with a clock of its own can be
/// watched, and then that time is known exactly. It matters for short work,
/// which occupies its place several times as long because the host takes longer
/// to enqueue it. A long copy takes the same time for all sessions, so the
/// board keeps it.
class work_lengths {
public:
  explicit work_lengths(std::shared_ptr<share_board> board)
      : board_(std::move(board)) {}

  /// Predicts how long the work takes, or nothing where it is unknown.
  std::optional<policy::share_work> predict(work_key what) const;
  /// Returns whether the device should be watched at this kind of work. That is
  /// due a few times between two partings (ends of running concurrently),
  /// because the time may change. Work that takes long is known well enough.
  /// `partings` is the number so far.
  bool is_inexact(work_key what, std::uint32_t partings) const;

  /// Records that the device cannot be watched at this work before the next
  /// parting.
  void give_up(work_key what, std::uint32_t partings);

  /// Records the first run of a piece of work, alone in the device.
  void saw_first(work_key what, const policy::share_work& took);
  /// Records that so many pieces ran with no pause between them.
  void saw_exactly(work_key what, std::size_t pieces, policy::share_ns worked,
                   std::uint32_t partings);
  /// Records that all this work was done. `idle` means that the device has no
  /// more work of the session.
  void saw(const std::vector<work_key>& what,
           const policy::share_work& predicted, const policy::share_work& took,
           bool idle);

private:
  /// Holds what is known of one kind of work.
  struct kind {
    /// Hold the predicted times, in nanoseconds.
    double held, worked;
    /// Counts the corrections so far.
    unsigned corrected = 0;
    /// Tells whether `worked` is measured by watching the device.
    bool exact = false;
    /// Holds the number of partings when it was last watched, and `watched`
    /// counts the watches since then.
    std::optional<std::uint32_t> watched_in = {};
    int watched = 0;

    void correct(double held_ratio, double worked_ratio);
  };

  void learn();

  std::shared_ptr<share_board> board_;
  std::unordered_map<work_key, kind> takes_;
  /// Holds the work since learn() ran last.
  std::vector<work_key> done_since_;
  /// Holds the predicted length of that work.
  policy::share_work done_predicted_;
  /// Holds the real length of that work.
  policy::share_work done_took_;
};

} // namespace vgpu
