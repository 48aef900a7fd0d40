// Which results a program may read under divergence::snapshot.
#pragma once

#include "schema/catalogue/calls.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>

namespace vgpu {

/// Describes a call that brings the contents of device memory to the program.
template <class Call>
concept reads_results =
    std::same_as<Call, call::read> || std::same_as<Call, call::read_host> ||
    std::same_as<Call, call::read_managed>;

/// Describes a call whose effect on device memory may be another one when it is
/// executed again. Kernels may read clocks, or add floats in any order. Copies
/// on the device may read host memory in place. New memory may hold anything.
/// All other calls write bytes that the log holds.
template <class Call>
concept varies_results = std::same_as<Call, call::launch> ||
    std::same_as<Call, call::copy> || std::same_as<Call, call::mem_alloc> ||
    std::same_as<Call, call::array_create>;

/// Compares what was executed with what the newest snapshot covers. A program
/// may read results while no work is uncovered that could bring other results
/// when it is executed again: the next worker begins with the snapshot, and
/// finds the same bytes. Positions are those of the log. Not thread-safe.
class result_cover {
public:
  /// Says whether results need cover. By default they do not.
  void demand(bool is) noexcept { demanded_ = is; }
  /// Records that work whose results may vary ends at this position.
  void note_varying(std::uint64_t end) noexcept {
    varies_until_ = std::max(varies_until_, end);
  }
  /// Records that a snapshot of this position exists.
  void covers(std::uint64_t position) noexcept {
    covered_ = std::max(covered_, position);
  }
  /// Leaves out what is read in this memory: by conditions of graphs the
  /// library learns what to enqueue, and the program learns nothing. Nothing
  /// could cover them, because the program's stream waits for the outcome.
  void leave_out(device_address first, std::uint64_t bytes) {
    left_out_[first] = bytes;
  }
  /// Ends leave_out() for memory that begins there.
  void include(device_address first) { left_out_.erase(first); }
  /// Returns whether reads at this address are left out.
  bool is_left_out(device_address at) const {
    auto i = left_out_.upper_bound(at);
    return i != left_out_.begin() && at - (--i)->first < i->second;
  }
  /// Returns whether the program may read results now.
  bool admits() const noexcept {
    return !demanded_ || varies_until_ <= covered_;
  }

private:
  bool demanded_ = false;
  std::uint64_t varies_until_ = 0;
  std::uint64_t covered_ = 0;
  std::map<device_address, std::uint64_t> left_out_; // bytes by address
};

} // namespace vgpu
