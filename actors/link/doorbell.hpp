#pragma once

namespace vgpu {

/// A doorbell is an eventfd with which any thread wakes the one thread that
/// sleeps on it. Thread-safe.
class doorbell {
public:
  /// Throws std::system_error when the process cannot get another descriptor.
  doorbell();
  ~doorbell();
  doorbell(const doorbell&) = delete;
  doorbell& operator=(const doorbell&) = delete;

  /// Returns the descriptor, which is readable from ring() until silence().
  int fd() const noexcept { return fd_; }
  /// Makes fd() readable.
  void ring() noexcept;
  /// Makes fd() unreadable again.
  void silence() noexcept;

private:
  int fd_;
};

} // namespace vgpu
