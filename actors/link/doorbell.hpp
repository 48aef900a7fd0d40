#pragma once

namespace vgpu {

/// A file descriptor that one thread sleeps on and others wake it with.
/// Thread-safe.
class doorbell {
public:
  /// Throws std::system_error when the process has no descriptor left.
  doorbell();
  ~doorbell();
  doorbell(const doorbell&) = delete;
  doorbell& operator=(const doorbell&) = delete;

  /// Readable while the bell rings.
  int fd() const noexcept { return fd_; }
  void ring() noexcept;
  void silence() noexcept;

private:
  int fd_;
};

} // namespace vgpu
