// The control groups (cgroups(7)) of a node's workers.
#pragma once

#include "nodes/sandbox/sandbox.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace vgpu {

/// Limits the memory and the number of tasks of each worker, with control
/// groups of either version. Where the host lets this process make none, it
/// reports why and limits nothing. Not thread-safe.
class worker_groups {
public:
  /// Gives the largest number of a worker's threads and helpers.
  static constexpr unsigned most_tasks = 4096;

  /// Makes a folder for this process's workers in the groups to which the
  /// process belongs, and removes those that killed processes left.
  explicit worker_groups(sandbox_report& report);
  ~worker_groups();
  worker_groups(const worker_groups&) = delete;
  worker_groups& operator=(const worker_groups&) = delete;

  /// Makes the groups of a worker that may use this much memory of its host.
  /// Returns the files in which it must write `0` to enter them.
  std::vector<std::string> make(std::uint64_t worker, std::uint64_t bytes,
                                unsigned tasks = most_tasks);
  /// Changes the limit of a worker's memory.
  void limit(std::uint64_t worker, std::uint64_t bytes);
  /// Removes the groups of a worker that has ended.
  void remove(std::uint64_t worker);

private:
  /// Holds a folder below which groups are made, and the names of its limits.
  struct hierarchy {
    std::string folder;
    const char* memory; // null: it limits no memory
    const char* swap;
    const char* tasks; // null: it does not limit tasks
  };

  bool open_unified(sandbox_report& report);
  bool open_separate(sandbox_report& report);

  std::vector<hierarchy> all_;
  std::set<std::uint64_t> workers_;
};

/// Returns the memory of its host that a worker may use, if its session's quota
/// on all devices together is `quota`. A state that is being taken is as large
/// as the session's memory. The rest is for the log, host memory, code, and
/// whatever else the session shares with its program, of which the kernel
/// counts a page for the process that touched it first.
std::uint64_t memory_of_worker(std::uint64_t quota);

} // namespace vgpu
