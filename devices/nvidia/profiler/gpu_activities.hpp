// When the GPUs of this process executed work, as NVIDIA's CUPTI records it.
#pragma once

#include "devices/interface/trace_unit.hpp"
#include "devices/nvidia/profiler/cupti_library.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace vgpu::device::nvidia {

/// Replaces the times that events give to pieces of work by those of CUPTI,
/// which are exact. CUPTI hands its records over late, in buffers, on any
/// thread, and sometimes not at all: then the events' times count. A process
/// has one CUPTI, so its devices share this. Thread-safe.
class gpu_activities {
public:
  using clock = work_span::clock;
  struct times {
    clock::time_point began, ended;
  };

  /// Represents the work that the driver's calls between begin() and end()
  /// enqueue.
  class piece {
  private:
    friend gpu_activities;
    /// Holds what finish() brought.
    struct ending {
      times by_events;
      std::shared_ptr<work_span> of;
      std::uint64_t number = 0;
      /// Is when records were first asked for in vain.
      std::optional<clock::time_point> missed{};
    };
    std::unordered_set<std::uint32_t> missing; // correlations
    bool lacks_times = false;
    std::optional<times> exact;
    std::optional<ending> ended;
  };
  using piece_ref = std::shared_ptr<piece>;

  /// Returns the one of this process, which is never destroyed.
  static gpu_activities& instance();
  gpu_activities(const gpu_activities&) = delete;
  gpu_activities& operator=(const gpu_activities&) = delete;

  /// Begins to record. Loads CUPTI at the first time. Where it cannot be used,
  /// says why.
  status start(int driver_version);
  /// Ends what one start() that succeeded began. Pieces that began before are
  /// recorded to their end.
  void stop();

  /// Begins a piece, which consists of what this thread enqueues until end().
  /// Returns null where nothing is recorded.
  piece_ref begin();
  /// Ends the piece of this thread, if there is one.
  static void end() noexcept;

  /// Says that a piece is done, and when by its events. The span hears of it
  /// now or later, perhaps on another thread.
  void finish(const piece_ref& what, times by_events,
              std::shared_ptr<work_span> of);
  /// Forgets a piece that will not be done.
  void abandon(const piece_ref& what);
  /// Fetches the records of pieces that are done. Where nothing is under way,
  /// all of them are told when it returns. It may call CUPTI, so the caller
  /// holds no lock that work is enqueued under.
  void collect(clock::time_point now = clock::now());

private:
  /// Holds pieces that are to be told, without a lock.
  using ready = std::vector<piece_ref>;

  gpu_activities() = default;
  ~gpu_activities() = default;

  status use(const cupti_ptr& library);
  status attach(const cupti_library& by);
  void detach(const cupti_library& by);
  void watch_calls(const cupti_library& by, bool on);
  cupti_ptr library();

  static void call_told(void* user, std::uint32_t domain, std::uint32_t call,
                        const activity::call_data* data) noexcept;
  static void buffer_requested(std::uint8_t** buffer, std::size_t* bytes,
                               std::size_t* most) noexcept;
  static void buffer_completed(CUcontext context, std::uint32_t stream,
                               std::uint8_t* buffer, std::size_t bytes,
                               std::size_t valid) noexcept;
  void expect(const piece_ref& what, std::uint32_t correlation);
  void expect_no(const piece_ref& what, std::uint32_t correlation);
  void read(std::uint8_t* buffer, std::size_t valid);
  void note(const activity::record& x, ready& to);
  void forget(piece& x);
  bool waits_for(std::uint64_t until);
  void collect_records(clock::time_point now);
  void rest_if_idle();
  static void tell(const ready& all);

  std::mutex switching_; // guards users_, is_on_, subscriber_; calls CUPTI
  unsigned users_ = 0;
  bool is_on_ = false; // CUPTI records
  activity::subscriber subscriber_ = nullptr;

  std::mutex collecting_; // one thread at a time asks for records
  std::atomic<bool> recording_{false};

  std::mutex mutex_; // guards the rest, and is never held while CUPTI is called
  cupti_ptr library_;
  std::unordered_map<std::uint32_t, piece_ref> awaited_; // by correlation
  std::unordered_set<piece_ref> waiting_; // done, but records are missing
  std::size_t open_ = 0;                  // pieces that are not done
  std::uint64_t begun_ = 0;
  std::uint64_t numbers_ = 0;
  clock::time_point collected_{};
  std::vector<std::unique_ptr<std::uint8_t[]>> buffers_; // free ones
};

} // namespace vgpu::device::nvidia
