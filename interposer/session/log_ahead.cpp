#include "interposer/session/log_ahead.hpp"

#include "interposer/session/own_thread.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include <unistd.h>

namespace vgpu::interposer {

namespace {

/// Shorter copies do not prepare the log.
constexpr std::uint64_t long_from = std::uint64_t{1} << 20;
constexpr std::uint64_t most_ahead = std::uint64_t{64} << 20;
/// Holds the first pause between two samples of the host's load. The pause
/// doubles while copies continue.
constexpr std::chrono::microseconds first_nap{500};
constexpr std::chrono::microseconds last_nap{8000};
/// The thread takes at most this many samples while no copy is made.
constexpr auto most_samples = 10;

/// Tells whether a processor is idle apart from this thread: /proc/loadavg
/// counts the host's running threads (proc(5)).
bool is_a_processor_idle() {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{
      std::fopen("/proc/loadavg", "re"), &std::fclose};
  long running = 0;
  return file && std::fscanf(file.get(), "%*s %*s %*s %ld/", &running) == 1 &&
         running < ::sysconf(_SC_NPROCESSORS_ONLN);
}

} // namespace

void log_ahead::wrote(std::uint64_t bytes) {
  if (bytes < long_from)
    return;
  std::lock_guard guard{mutex_};
  if (!std::exchange(started_, true) && !start_own_thread([this] { serve(); }))
    return;
  written_ += bytes;
  if (std::exchange(asleep_, false))
    wanted_.notify_one();
}

void log_ahead::serve() {
  std::unique_lock guard{mutex_};
  for (std::uint64_t done = 0;;) {
    asleep_ = true;
    wanted_.wait(guard, [&] { return written_ != done; });
    asleep_ = false;
    auto before = std::exchange(done, written_);
    auto found = false;
    auto nap = first_nap;
    for (auto samples = 0; !found && samples < most_samples; ++samples) {
      guard.unlock();
      std::this_thread::sleep_for(nap);
      found = is_a_processor_idle();
      guard.lock();
      if (std::exchange(done, written_) == written_)
        continue;
      // A write that follows so soon belongs to the copy before.
      found = false;
      samples = 0;
      nap = std::min(2 * nap, last_nap);
    }
    if (!found)
      continue;
    guard.unlock();
    log_.prepare(std::min(most_ahead, done - before + segment_bytes));
    guard.lock();
  }
}

} // namespace vgpu::interposer
