// Who says which threads of a device may work.
#pragma once

#include <chrono>
#include <memory>

namespace vgpu::device {

/// Shares what several sessions' devices run on. A thread that has something to
/// do begin()s, go_on()s now and then, and end()s. Where one of the first two
/// says no, it wait()s. Thread-safe.
class governor {
public:
  virtual ~governor() = default;

  /// Whether threads have to ask at all. One load.
  virtual bool governs() const noexcept = 0;
  /// Whether who runs should go_on() now, as another one is to run in its
  /// place. One load.
  virtual bool hurries() const noexcept = 0;

  /// Whether a thread may work from now on.
  virtual bool begin() = 0;
  /// Whether it may work on, having had a processor for so long since it was
  /// asked last.
  virtual bool go_on(std::chrono::nanoseconds worked) = 0;
  /// It has nothing to do any more.
  virtual void end(std::chrono::nanoseconds worked) = 0;
  /// Returns when it may work: true, and end() is to follow, or false where
  /// nobody has to ask any more.
  virtual bool wait() = 0;

  /// Nobody waits or has to ask any more: what is still to be done only ends.
  virtual void release() = 0;
};

/// What a device may also be: threads that can be stopped in the middle of
/// their work.
class governed {
public:
  virtual ~governed() = default;

  /// Before it is given any work.
  virtual void govern_by(std::shared_ptr<governor> who) = 0;
};

} // namespace vgpu::device
