// How long a session's work takes the device alone, by what is known of it.
#pragma once

#include "actors/compute/share_board.hpp"
#include "schema/catalogue/calls.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace vgpu {

/// Names work that takes about as long each time.
using work_key = std::uint64_t;

/// Of a call that brings work to the device; what else there is brings none.
work_key key_of(const call::launch& x);
work_key key_of(const call::write& x);
work_key key_of(const call::read& x);
work_key key_of(const call::read_host& x);
work_key key_of(const call::copy& x);
work_key key_of(const call::fill& x);
template <class Call>
concept brings_work = requires(const Call& x) {
  key_of(x);
};

/// Whether it is a copy that devices time by itself (device::long_copy).
bool is_timed_alone(work_key x) noexcept;

/// What was seen of each kind of work while its session had the device to
/// itself. Of one thread at a time.
///
/// How long work has its place (policy::share_work::held) is learned from all
/// that is done in a turn. How long the device works on it is the same at
/// first; with a clock of its own the device can be watched at it, and then
/// that is known exactly: work that is short beside what the host does for it
/// holds its place for several times as long. What a long copy takes is the
/// same for all sessions, and kept on the board.
class work_lengths {
public:
  explicit work_lengths(std::shared_ptr<share_board> board)
      : board_(std::move(board)) {}

  /// How long it takes; nothing: it was never seen.
  std::optional<policy::share_work> predict(work_key what) const;
  /// Whether the device is to be watched at work of this kind: some times
  /// between two times that sessions have it together, of which there were so
  /// many, as it may change. What takes long is known well enough.
  bool is_inexact(work_key what, std::uint32_t partings) const;

  /// It cannot be watched before sessions part again.
  void give_up(work_key what, std::uint32_t partings);

  /// One piece of it was done for the first time, with nothing else.
  void saw_first(work_key what, const policy::share_work& took);
  /// So many pieces of it were done with no pause between them.
  void saw_exactly(work_key what, std::size_t pieces, policy::share_ns worked,
                   std::uint32_t partings);
  /// All this was done; `idle`: the device has nothing of the session's to do
  /// any more.
  void saw(const std::vector<work_key>& what,
           const policy::share_work& predicted, const policy::share_work& took,
           bool idle);

private:
  struct kind {
    double held, worked;    // ns
    unsigned corrected = 0; // so often
    bool exact = false;     // what the device works is
    /// It was watched when there had been so many partings, so often.
    std::optional<std::uint32_t> watched_in = {};
    int watched = 0;

    void correct(double held_ratio, double worked_ratio);
  };

  void learn();

  std::shared_ptr<share_board> board_;
  std::unordered_map<work_key, kind> takes_;
  std::vector<work_key> done_since_;  // it was last learned from
  policy::share_work done_predicted_; // how long that should take
  policy::share_work done_took_;      // and did
};

} // namespace vgpu
