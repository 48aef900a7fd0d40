// Words of host memory that the device reads and writes.
#pragma once

#include "devices/nvidia/driver/driver.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu::device::nvidia {

/// A word in a cache line of its own, at the same address for both sides.
struct alignas(64) shared_word {
  std::atomic<std::uint32_t> value;

  CUdeviceptr address() const noexcept {
    return reinterpret_cast<CUdeviceptr>(&value);
  }
};

/// Belongs to whoever holds it; what it holds then stays for the next.
using word_ref = std::shared_ptr<shared_word>;

/// Hands out words. They come from the process and stay until it ends, so that
/// no work finds one gone. Thread-safe; the calling thread has the context.
class shared_words {
public:
  explicit shared_words(driver_ptr api) : api_(std::move(api)) {}
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
