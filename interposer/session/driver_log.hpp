// The log that a program can read of what its calls failed with (CUDA driver
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

/// Messages, of which the newest are kept. Thread-safe; callbacks run on the
/// thread that adds a message, and no lock is held meanwhile.
class driver_log {
public:
  /// As many as driver 580 keeps, and as long: 25600 bytes, says cuda.h.
  static constexpr std::size_t most_messages = 100;
  static constexpr std::size_t longest_message = 256;

  void add(CUlogLevel level, std::string_view text);

  /// What is kept from `first` on, a line each, and the number of the message
  /// that will be next. A line ahead says where older ones are missing.
  struct excerpt {
    std::string text;
    CUlogIterator next = 0;
  };
  /// Of at most `room` bytes, the newest. Nothing where `first` is beyond the
  /// end, or where not even one line fits.
  std::optional<excerpt> read(CUlogIterator first, std::size_t room) const;
  /// The number of the message that will be next.
  CUlogIterator end() const;

  CUlogsCallbackHandle add_callback(CUlogsCallback call, void* data);
  /// False for what is none.
  bool remove_callback(CUlogsCallbackHandle handle);

private:
  struct callback {
    CUlogsCallback call;
    void* data;
  };

  void tell(CUlogLevel level, const std::string& message);

  mutable std::mutex mutex_;
  std::deque<std::string> lines_;
  CUlogIterator first_ = 0; // of lines_
  std::map<std::uintptr_t, callback> callbacks_;
  std::uintptr_t last_callback_ = 0;
};

/// The process's log. Precondition: the driver's state is made.
driver_log& the_driver_log() noexcept;

} // namespace vgpu::interposer
