// Copies memory contents from a device to a state's file while calls execute.
#pragma once

#include "actors/state/copy_rooms.hpp"
#include "actors/state/copying_threads.hpp"
#include "actors/state/mapped_chunks.hpp"
#include "actors/state/state_file.hpp"
#include "devices/interface/change_unit.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace vgpu {

/// Copies pieces of memory to their places in a file, each as it is when its
/// turn comes, and makes marks. One thread may use it; it works on a few
/// threads of its own, which copy several pieces at a time.
class contents_pump {
public:
  /// Describes one piece of work.
  struct job {
    device::change_unit* from = nullptr;
    /// Holds the copies that are read in place of the memory, or null.
    device::contents_room* kept = nullptr;
    /// Holds address, bytes and place, and when the job is done also form and
    /// hash.
    state_chunk chunk{};
    /// Makes the job set a mark and copy nothing.
    bool marks = false;
    /// Holds the mark that the job made, or else a value of the caller's.
    std::uint64_t mark = 0;
    /// Tells whether the memory could be read.
    bool seen = false;
    status done{};
  };

  /// Starts the threads, which call `ring` when jobs are done. The others must
  /// outlive the pump.
  contents_pump(int file, mapped_chunks& mapped, copy_rooms& rooms,
                std::function<void()> ring);
  /// Waits for the jobs at hand, and drops the others.
  ~contents_pump();
  contents_pump(const contents_pump&) = delete;
  contents_pump& operator=(const contents_pump&) = delete;

  /// Returns whether enough jobs are under way to keep the threads busy.
  bool full() const noexcept { return under_way_ >= most_under_way; }
  /// Adds a job. Jobs may be done in any order.
  void add(job what);
  /// Returns a finished job with its outcome, or nothing if none is finished.
  std::optional<job> take();
  /// Waits for a finished job and returns it. Returns nothing only if none is
  /// under way.
  std::optional<job> wait();
  /// Returns the number of jobs that were added and not taken back.
  std::size_t under_way() const noexcept { return under_way_; }
  /// Returns how long the threads have waited for a processor. Others have
  /// waited about as long for these threads.
  std::chrono::nanoseconds waited() const;

private:
  /// So many pieces are copied at a time.
  static constexpr std::size_t copied_at_once =
      copy_rooms::bytes / state_chunk_bytes;
  static constexpr std::size_t most_under_way = 6 * copied_at_once;

  void run();
  std::vector<job> take_work();
  void work(std::span<job> jobs, std::unique_ptr<copy_room>& room) const;
  std::optional<job> pop_done();

  int file_;
  mapped_chunks& mapped_;
  copy_rooms& rooms_;
  std::function<void()> ring_;
  /// Counts the jobs that were added and not taken back.
  std::size_t under_way_ = 0;
  /// Guards the members below.
  mutable std::mutex lock_;
  std::condition_variable wanted_, finished_;
  std::deque<job> todo_, done_;
  std::chrono::nanoseconds waited_{0};
  bool over_ = false;
  // This is last, because the threads use the other members.
  copying_threads threads_;
};

} // namespace vgpu
