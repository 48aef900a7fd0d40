// A session's use of its devices, and the part of it that is charged.
#pragma once

#include "actors/compute/call_traffic.hpp"
#include "actors/compute/share_gate.hpp"
#include "actors/link/protocol.hpp"
#include "actors/worker/session/device_slot.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace vgpu {

/// Keeps the account of one session. The executor's thread writes it; members
/// that are thread-safe say so. The devices and the gates outlive it.
class session_account {
public:
  session_account(const std::vector<device_slot>& devices,
                  const share_gates& gates)
      : devices_(devices), gates_(gates) {}

  // -- time -------------------------------------------------------------------

  /// Returns how long the devices worked for the session, in total.
  /// Thread-safe.
  std::chrono::nanoseconds device_time() const;
  /// Returns how long each device worked for the session. Thread-safe.
  std::vector<std::chrono::nanoseconds> device_times() const;
  /// Returns the devices' work in the time that shares count. Thread-safe.
  std::chrono::nanoseconds worked() const;
  /// Charges so much of the devices' time to the worker and not to the program.
  void charge_apart(std::chrono::nanoseconds time);

  /// Begins a recovery, in which earlier work is repeated and charged apart.
  void begin_recovery();
  /// Ends a recovery. Work that is enqueued already is still charged apart.
  void end_recovery();

  // -- bytes ------------------------------------------------------------------

  /// Adds the bytes that a call moved.
  void count(const call_traffic& x);
  /// Returns the bytes that calls moved. Thread-safe.
  control::usage traffic() const;
  /// Returns everything that was used so far, except memory. Thread-safe.
  control::usage used() const;

  // -- memory -----------------------------------------------------------------

  void add_bytes(std::uint64_t bytes) noexcept { bytes_ += bytes; }
  void take_bytes(std::uint64_t bytes) noexcept { bytes_ -= bytes; }
  /// Returns the bytes of device memory that the session has. Thread-safe.
  std::uint64_t bytes() const noexcept {
    return is_off_devices_ ? 0 : bytes_.load();
  }
  /// Asks the devices what the session costs them besides bytes().
  void measure_side_memory();
  /// Returns what measure_side_memory() found last. Thread-safe.
  control::side_memory side_memory() const noexcept;
  /// Records that the process was checkpointed, so that none of its memory is
  /// on its devices, or that it is back.
  void note_off_devices(bool is) noexcept { is_off_devices_ = is; }

private:
  /// Holds the part of the devices' time that the program is not charged for.
  struct time_apart {
    std::atomic<std::uint64_t> ns{0};
    /// Counts the devices that have not ended the recovery. Until all have, all
    /// of the time is apart.
    std::atomic<std::size_t> recovering{0};
  };

  const std::vector<device_slot>& devices_;
  const share_gates& gates_;
  std::atomic<std::uint64_t> to_device_{0};
  std::atomic<std::uint64_t> from_device_{0};
  std::atomic<std::uint64_t> replayed_{0};
  bool recovers_ = false;
  std::shared_ptr<time_apart> apart_ = std::make_shared<time_apart>();
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<bool> is_off_devices_{false};
  /// Hold bytes; negative values are unknown.
  std::atomic<std::int64_t> variables_{-1}, code_{-1}, context_{-1};
};

} // namespace vgpu
