// How many messages a link may pass on before its consumer handles them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace vgpu {

/// Counts the messages that a link has passed on and that nobody has dropped
/// yet. While there are many, the link reads no more. The kernel then slows the
/// senders down, and a flood takes no memory here.
class unhandled {
public:
  /// Gives the messages, and their bytes on the wire, at which a link pauses.
  static constexpr std::size_t most = 512;
  static constexpr std::size_t most_bytes = std::size_t{8} << 20;

  /// Returns the message, which counts until its last owner drops it.
  template <class T>
  std::shared_ptr<const T> count(T message, std::size_t bytes) {
    auto out = std::make_shared<counted<T>>(std::move(message), total_, bytes);
    return {out, &out->message};
  }

  /// Returns whether the link should wait. A single message is never too much.
  bool is_full() const noexcept {
    return total_->messages.load() >= most || total_->bytes.load() > most_bytes;
  }

private:
  struct sums {
    std::atomic<std::size_t> messages = 0;
    std::atomic<std::size_t> bytes = 0;
  };

  template <class T>
  struct counted {
    counted(T x, std::shared_ptr<sums> in, std::size_t size)
        : message(std::move(x)), total(std::move(in)), bytes(size) {
      ++total->messages;
      total->bytes += bytes;
    }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    ~counted() {
      --total->messages;
      total->bytes -= bytes;
    }

    T message;
    std::shared_ptr<sums> total;
    std::size_t bytes;
  };

  std::shared_ptr<sums> total_ = std::make_shared<sums>();
};

} // namespace vgpu
