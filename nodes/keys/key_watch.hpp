// Keeps a running manager's permitted keys as its file says.
#pragma once

#include "actors/link/curve_keys.hpp"
#include "nodes/keys/manager_keys.hpp"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace vgpu {

/// Reads a manager's file of keys whenever it changes, so that a key which is
/// revoked or expires is out within a second. While the file cannot be read,
/// the keys that it had last hold.
class key_watch {
public:
  /// Takes the keys when the manager's own ones, or its rotation, change. It
  /// runs on the watching thread, and must not wait.
  using listener = std::function<void(const manager_keys&)>;

  /// Starts a thread.
  key_watch(key_folder where, manager_keys begin);
  key_watch(const key_watch&) = delete;
  key_watch& operator=(const key_watch&) = delete;
  ~key_watch();

  const std::shared_ptr<permitted_keys>& permitted() const noexcept {
    return permitted_;
  }

  /// Reads the file now. Thread-safe.
  void look_now();

  /// Returns the keys that hold. Thread-safe.
  manager_keys now();

  /// Calls `told` now, and at each change. Null: nobody any more. Thread-safe.
  void tell(listener told);

private:
  void watch();
  void look();
  void tell_changes(double now);
  std::string read();

  key_folder where_;
  manager_keys keys_;
  /// Is the file's text that was read last.
  std::string text_;
  std::string complaint_;
  permitted_keys::table shown_;
  listener told_;
  /// Is the rotation that was told last, and whether it was not over.
  std::pair<std::uint64_t, bool> told_of_;
  std::shared_ptr<permitted_keys> permitted_;
  std::mutex mutex_;
  std::condition_variable stops_;
  bool stopping_ = false;
  std::jthread thread_;
};

} // namespace vgpu
