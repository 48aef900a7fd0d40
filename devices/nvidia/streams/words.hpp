// Words of host memory that the device reads and writes.
#pragma once

#include "devices/nvidia/driver/driver.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu::device::nvidia {

/// Holds a word in a cache line of its own, at the same address for host and
/// device.
struct alignas(64) shared_word {
  std::atomic<std::uint32_t> value;

  CUdeviceptr address() const noexcept {
    return reinterpret_cast<CUdeviceptr>(&value);
  }
};

/// Owns a word. The word keeps its value for the next owner.
using word_ref = std::shared_ptr<shared_word>;

/// Hands out words. They are memory of the process that stays until the process
/// ends, so that enqueued work never uses a freed word. Thread-safe; the
/// calling thread has the context current.
class shared_words {
public:
  explicit shared_words(driver_ptr api) : api_(std::move(api)) {}
  /// Returns a word that is not in use.
  result<word_ref> take();

private:
  struct free_words {
    std::mutex mutex;
    std::vector<shared_word*> all;
  };

  driver_ptr api_;
  std::shared_ptr<free_words> free_ = std::make_shared<free_words>();
};

} // namespace vgpu::device::nvidia
