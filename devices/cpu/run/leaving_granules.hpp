// Granules of memory that is on its way out.
#pragma once

#include "devices/cpu/run/scheduler.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace vgpu::device::cpu {

/// Granules whose memory goes when the work before is done, each with the last
/// task that takes it away. New memory must wait for that task, and not only
/// for the work that the task itself waits for: that work may be over while
/// the task has yet to run. Thread-safe: shared with the threads that take the
/// memory away.
class leaving_granules {
public:
  void insert(device_address first, std::uint64_t bytes, const task_ptr& by) {
    auto lock = std::lock_guard{mutex_};
    for (auto g = first; g != first + bytes; g += granule_bytes)
      last_[g] = by;
  }

  /// The memory that the task takes is gone.
  void erase(device_address first, std::uint64_t bytes, const task* by) {
    auto lock = std::lock_guard{mutex_};
    for (auto g = first; g != first + bytes; g += granule_bytes)
      if (auto at = last_.find(g); at != last_.end() && at->second.get() == by)
        last_.erase(at);
  }

  /// The tasks that are still to take memory from the range.
  std::vector<task_ptr> of(device_address first, std::uint64_t bytes) {
    auto lock = std::lock_guard{mutex_};
    auto out = std::vector<task_ptr>{};
    if (last_.empty())
      return out;
    for (auto g = first; g != first + bytes; g += granule_bytes)
      if (auto at = last_.find(g);
          at != last_.end() && (out.empty() || out.back() != at->second))
        out.push_back(at->second);
    return out;
  }

private:
  std::mutex mutex_;
  std::unordered_map<device_address, task_ptr> last_;
};

} // namespace vgpu::device::cpu
