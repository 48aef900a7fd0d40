// Contents on their way from a device's memory to a state's file, beside the
// calls that are executed.
#pragma once

#include "actors/state/state_file.hpp"
#include "devices/interface/change_unit.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

namespace vgpu {

/// Copies pieces of memory, as they are when their turn comes, to their places
/// in a file, and makes marks. One thread uses it; the work is done by one of
/// its own.
class contents_pump {
public:
  struct job {
    device::change_unit* from = nullptr;
    state_chunk chunk{};    // its address, bytes and place; then what is there
    bool marks = false;     // nothing is copied, but a mark made:
    std::uint64_t mark = 0; // this one; else the caller's
    bool seen = false;      // its memory could be looked at
    status done{};
  };

  /// The file must outlive it. `ring` is called by its thread when something is
  /// done.
  contents_pump(int file, std::function<void()> ring);
  /// Waits for the piece at hand, and forgets the others.
  ~contents_pump();
  contents_pump(const contents_pump&) = delete;
  contents_pump& operator=(const contents_pump&) = delete;

  /// Enough is on its way to keep it busy.
  bool full() const noexcept { return under_way_ >= most_under_way; }
  void add(job what);
  /// One that is done, with its outcome; nothing if none is.
  std::optional<job> take();
  /// The same, and waits for it; nothing only where none is on its way.
  std::optional<job> wait();
  std::size_t under_way() const noexcept { return under_way_; }

private:
  static constexpr std::size_t most_under_way = 8;

  void run();
  void work(job& x, std::span<std::byte> room) const;
  std::optional<job> pop_done();

  int file_;
  std::function<void()> ring_;
  std::size_t under_way_ = 0; // and not taken back yet
  std::mutex lock_;           // guards what follows
  std::condition_variable wanted_, finished_;
  std::deque<job> todo_, done_;
  bool over_ = false;
  // Last: it uses the rest.
  std::thread thread_;
};

} // namespace vgpu
