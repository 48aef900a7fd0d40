// Granules whose memory is about to be taken away.
#pragma once

#include "devices/cpu/run/scheduler.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace vgpu::device::cpu {

/// Remembers the granules whose memory goes when earlier work is done, each
/// with the last task that takes it away. New memory must wait for that task:
/// the work before it may be done while the task has yet to run. Thread-safe;
/// the threads that take memory away use it too.
class leaving_granules {
public:
  /// Notes that task `by` will take the memory of this range away.
  void insert(device_address first, std::uint64_t bytes, const task_ptr& by) {
    auto lock = std::lock_guard{mutex_};
    for (auto g = first; g != first + bytes; g += granule_bytes)
      last_[g] = by;
  }

  /// Notes that task `by` has taken the memory of this range away.
  void erase(device_address first, std::uint64_t bytes, const task* by) {
    auto lock = std::lock_guard{mutex_};
    for (auto g = first; g != first + bytes; g += granule_bytes)
      if (auto at = last_.find(g); at != last_.end() && at->second.get() == by)
        last_.erase(at);
  }

  /// Returns the tasks that have yet to take memory of this range away.
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
