// The main thread of a process of ours.
#pragma once

#include "actors/link/doorbell.hpp"
#include "actors/node/spawner.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu {

/// Sleeps until a signal, a child's end, a descriptor or somebody's post wakes
/// it. Owns the process's children: they are forked on this thread, because
/// the kernel ties PR_SET_PDEATHSIG to the thread that forked.
///
/// Make it first in main, before any thread: it blocks SIGINT, SIGTERM and
/// SIGHUP for all of them, and ignores SIGPIPE.
class main_loop {
public:
  /// Throws std::system_error when the kernel gives no descriptors.
  main_loop();
  ~main_loop();
  main_loop(const main_loop&) = delete;
  main_loop& operator=(const main_loop&) = delete;

  /// What a SIGINT, SIGTERM or SIGHUP does; by default, stop().
  void on_signal(std::function<void()> what);

  /// Calls `ended` once when `fd` says end of file. Takes the descriptor.
  void watch_owner(int fd, std::function<void()> ended);

  /// Runs `what` on the main thread. Thread-safe.
  void post(std::function<void()> what);

  /// Ends run(). Thread-safe.
  void stop();

  /// Until stop().
  void run();

  /// Starts children of this process; safe from any thread while this lives.
  /// They die when it dies, even by SIGKILL.
  std::shared_ptr<spawner> children();

private:
  class child_table;

  void add(int fd);
  void remove(int fd);
  void read_signal();
  void run_posted();
  void dispatch(int fd);

  int epoll_ = -1;
  int signals_ = -1;
  doorbell bell_;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  std::function<void()> on_signal_;
  std::map<int, std::function<void()>> watched_;
  std::shared_ptr<child_table> children_;
  bool running_ = true;
};

} // namespace vgpu
