// The main thread of one of our processes.
#pragma once

#include "actors/link/doorbell.hpp"
#include "actors/node/spawner.hpp"
#include "nodes/sandbox/worker_groups.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu {

/// Sleeps until a signal, a child's end, a descriptor or a post wakes it. It
/// owns the process's children and forks them on this thread, because the
/// kernel ties PR_SET_PDEATHSIG to the thread that forked.
///
/// Make it first in main, before any thread: it blocks SIGINT, SIGTERM and
/// SIGHUP in all of them, and ignores SIGPIPE and SIGXFSZ.
class main_loop {
public:
  /// Throws std::system_error when the kernel provides no descriptors.
  main_loop();
  ~main_loop();
  main_loop(const main_loop&) = delete;
  main_loop& operator=(const main_loop&) = delete;

  /// Sets the reaction to SIGINT, SIGTERM and SIGHUP. The default is stop().
  void on_signal(std::function<void()> what);

  /// Calls `ended` once, at the end of file of `fd`. Takes the descriptor over.
  void watch_owner(int fd, std::function<void()> ended);

  /// Runs `what` on the main thread. Thread-safe.
  void post(std::function<void()> what);

  /// Ends run(). Thread-safe.
  void stop();

  /// Handles events until stop().
  void run();

  /// Returns the spawner, which starts children of this process. Any thread may
  /// use it while this loop exists. The children die when this process dies,
  /// even by SIGKILL.
  std::shared_ptr<spawner> children();

  /// Limits what the children take of this host. Call it before run().
  void limit_children(std::unique_ptr<worker_groups> groups);

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
