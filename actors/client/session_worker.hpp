// The connection to the worker that serves a session, of either transport.
#pragma once

#include "actors/client/worker_channel.hpp"

#include <memory>
#include <span>

namespace vgpu {

/// Owns the channel to the current lease's worker. Without a channel, messages
/// are lost. It belongs to the session_client's thread.
class session_worker {
public:
  /// Replaces the channel.
  void use(std::unique_ptr<worker_channel> channel);
  /// Closes the channel. The next sweep() destroys the object, because the call
  /// may come from the channel itself.
  void drop() noexcept;
  /// Destroys the channels that were dropped.
  void sweep() noexcept { dropped_.clear(); }

  /// Returns the channel, or null.
  worker_channel* channel() const noexcept { return channel_.get(); }
  /// Returns whether there is a worker that takes orders.
  bool ready() const noexcept { return channel_ && channel_->ready(); }
  bool is_mapped() const noexcept { return channel_ && channel_->is_mapped(); }
  bool has_answers(std::uint64_t count) const noexcept {
    return !channel_ || channel_->has_answers(count);
  }
  void send(data::body what) const;
  /// Precondition: is_mapped().
  void send_with(data::body what, std::span<const int> descriptors) const;

private:
  std::unique_ptr<worker_channel> channel_;
  std::vector<std::unique_ptr<worker_channel>> dropped_;
};

} // namespace vgpu
