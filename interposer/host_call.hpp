// Functions of the program that have their turn in a stream.
#pragma once

#include "interposer/reply_slots.hpp"
#include "interposer/stream_event.hpp"

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

/// Runs host functions, in the order in which the worker says that their turn
/// has come, on one thread that is started with the first of them. Thread-safe.
class host_caller {
public:
  /// cuLaunchHostFunc.
  CUresult add(stream& in, CUhostFn function, void* data);
  /// cuStreamAddCallback: also called when the stream ends in an error.
  CUresult add(stream& in, CUstream handle, CUstreamCallback function,
               void* data);

  /// Waits until none is pending: host memory may be what they write. At once
  /// on the thread that runs them.
  void wait_for_all();

  /// Something was appended to a stream. Behind a pending function there is
  /// room for so much work and no more: a driver's queue is finite, and a
  /// worker that is held up by it would not read on to where the function's end
  /// is told. Waits like the driver when its queue is full.
  void work_appended() {
    if (pending_.load(std::memory_order_relaxed) != 0)
      hold_back();
  }

private:
  struct entry {
    ticket asked{};
    std::uint8_t device = 0;
    CUhostFn function = nullptr;
    CUstreamCallback callback = nullptr;
    CUstream handle = nullptr;
    void* data = nullptr;
  };

  CUresult enqueue(stream& in, entry what);
  void start();
  [[noreturn]] void serve();
  void hold_back();
  /// One that may run now, taken out of the list of those that wait.
  bool next(entry& out, CUresult& status);
  void run(const entry& x, CUresult status);

  std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable ended_;
  std::vector<entry> waiting_;
  std::atomic<std::size_t> pending_{0};
  std::atomic<std::size_t> behind_{0}; // what was appended since one is pending
  bool started_ = false;
};

host_caller& host_calls();

} // namespace vgpu::interposer
