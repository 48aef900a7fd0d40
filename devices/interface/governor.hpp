// The governor, which decides which threads of a device may run.
#pragma once

#include <chrono>
#include <memory>

namespace vgpu::device {

/// A governor shares processors between the devices of several sessions. A
/// thread with work calls begin(), then go_on() from time to time, then end().
/// Where begin() or go_on() returns false, the thread calls wait().
/// Thread-safe.
class governor {
public:
  virtual ~governor() = default;

  /// Tells whether threads have to ask at all. Costs one load.
  virtual bool governs() const noexcept = 0;
  /// Tells whether a running thread should call go_on() now, because another
  /// thread is to run in its place. Costs one load.
  virtual bool hurries() const noexcept = 0;

  /// Asks to start working; returns whether the thread may.
  virtual bool begin() = 0;
  /// Asks to continue working; returns whether the thread may. `worked` is the
  /// processor time that it had since it last asked.
  virtual bool go_on(std::chrono::nanoseconds worked) = 0;
  /// Says that the thread has no more work. `worked` is the processor time that
  /// it had since it last asked.
  virtual void end(std::chrono::nanoseconds worked) = 0;
  /// Blocks until the thread may work. Returns true when it may, and end() must
  /// follow, or false when threads no longer have to ask.
  virtual bool wait() = 0;

  /// Ends governing: no thread waits or has to ask any more, because the
  /// remaining work only has to end.
  virtual void release() = 0;
};

/// A device whose threads can be stopped in the middle of their work implements
/// this interface.
class governed {
public:
  virtual ~governed() = default;

  /// Sets the governor. The caller does so before it enqueues work.
  virtual void govern_by(std::shared_ptr<governor> who) = 0;
};

} // namespace vgpu::device
