// The driver's log of failed calls, which the program can read (CUDA driver
// API, "Error Log Management Functions").
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace vgpu::interposer {

/// Keeps the newest messages. Thread-safe. Callbacks run on the thread that
/// adds a message, without a lock.
class driver_log {
public:
  /// Holds the number of messages that the log keeps, as in driver 580.
  static constexpr std::size_t most_messages = 100;
  /// Holds the size in bytes to which the log cuts a message. A full log then
  /// has the 25600 bytes that cuda.h states.
  static constexpr std::size_t longest_message = 256;

  /// Appends a message, drops the oldest beyond the bound, and calls the
  /// callbacks.
  void add(CUlogLevel level, std::string_view text);

  /// Holds messages, one in each line, and the number that the next message
  /// will get. Its first line says so where older messages are missing.
  struct excerpt {
    std::string text;
    CUlogIterator next = 0;
  };
  /// Returns the messages from `first` on. If they exceed `room` bytes, returns
  /// the newest that fit. Returns nothing where `first` is beyond the end, or
  /// where not even one line fits.
  std::optional<excerpt> read(CUlogIterator first, std::size_t room) const;
  /// Returns the number that the next message will get.
  CUlogIterator end() const;

  /// Registers a callback for each message and returns its handle.
  CUlogsCallbackHandle add_callback(CUlogsCallback call, void* data);
  /// Removes a callback. Returns false where the handle names none.
  bool remove_callback(CUlogsCallbackHandle handle);

private:
  struct callback {
    CUlogsCallback call;
    void* data;
  };

  void tell(CUlogLevel level, const std::string& message);

  mutable std::mutex mutex_;
  std::deque<std::string> lines_;
  // The number of the first of lines_
  CUlogIterator first_ = 0;
  std::map<std::uintptr_t, callback> callbacks_;
  std::uintptr_t last_callback_ = 0;
};

/// Returns the process's log. Precondition: the driver's state is made.
driver_log& the_driver_log() noexcept;

} // namespace vgpu::interposer
