// All streams of a context, for work that concerns them all (cuCtxRecordEvent,
// cuCtxWaitEvent and their green-context forms).
#pragma once

#include "interposer/stream/stream_event.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

/// Holds a context's default stream, and a list of its other streams. A green
/// context's own set is empty: the set of its root holds its streams, which
/// stream::within identifies. Thread-safe. While a member works on all streams,
/// no stream is made or destroyed.
class stream_set : public context_streams {
public:
  explicit stream_set(context& of) : of_(of) {}

  void begin() override;
  void end() override;

  /// Adds a stream. Precondition: this is the set of the stream's owner.
  void add(stream& x);
  /// Removes a stream. Precondition: this is the set of the stream's owner.
  void remove(stream& x);
  /// Notes that the work of blocking streams before this call is done, because
  /// the legacy stream waited for it.
  void learn_done(std::uint64_t call);
  /// Counts the streams. A green context's streams count in its root.
  std::size_t size();

  /// Records the event after all work so far in the context and in its green
  /// contexts. Returns CUDA_ERROR_INVALID_HANDLE for an event of another
  /// context. Where one of the context's own streams is captured, breaks the
  /// captures and returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
  CUresult record(event& x);
  /// Waits for all work so far in the context and in its green contexts, and
  /// writes out what its kernels print. Returns at once where a stream of the
  /// context is captured or its session has failed.
  void finish();
  /// Makes all later work in the context wait for the event's latest record,
  /// also in streams that are made later.
  CUresult wait(event& x);

private:
  /// Holds a private stream, and an event that makes other streams wait for it.
  struct relay {
    std::unique_ptr<stream> in;
    std::unique_ptr<event> mark;
  };

  /// Clears the list and retires the relays.
  void clear();
  relay& made(std::unique_ptr<relay>& x);
  template <class F>
  CUresult each(const F& f);
  CUresult check_captures();
  /// Makes a new stream wait for the events that all streams wait for.
  void catch_up(stream& x);

  context& of_;
  // The context's default stream
  std::unique_ptr<stream> legacy_;
  // Only a root's mutex is used; it guards its green contexts too.
  std::mutex mutex_;
  std::vector<stream*> all_;
  // Waits for all streams
  std::unique_ptr<relay> gathered_;
  // All streams wait for it
  std::unique_ptr<relay> gate_;
};

/// Returns the context's streams as the type that stream/ gave them.
inline stream_set& streams_of(const context& x) noexcept {
  return static_cast<stream_set&>(*x.streams);
}

} // namespace vgpu::interposer
