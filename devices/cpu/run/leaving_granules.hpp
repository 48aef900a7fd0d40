// Granules whose memory is about to be unmapped.
#pragma once

#include "devices/cpu/run/scheduler.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace vgpu::device::cpu {

/// Remembers the granules whose memory a task unmaps when earlier work is done,
/// each with the last such task. New memory must wait for that task: the work
/// before the task may be done although the task has yet to run. Thread-safe;
/// the threads that run these tasks use it too.
class leaving_granules {
public:
  /// Notes that task `by` will unmap the memory of this range.
  void insert(device_address first, std::uint64_t bytes, const task_ptr& by) {
    auto lock = std::lock_guard{mutex_};
    for (auto g = first; g != first + bytes; g += granule_bytes)
      last_[g] = by;
  }

  /// Notes that task `by` has unmapped the memory of this range.
  void erase(device_address first, std::uint64_t bytes, const task* by) {
    auto lock = std::lock_guard{mutex_};
    for (auto g = first; g != first + bytes; g += granule_bytes)
      if (auto at = last_.find(g); at != last_.end() && at->second.get() == by)
        last_.erase(at);
  }

  /// Returns the tasks that have yet to unmap memory of this range.
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
