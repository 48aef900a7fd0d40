// What is done in all streams of a context (cuCtxRecordEvent, cuCtxWaitEvent
// and those for green contexts).
#pragma once

#include "interposer/stream/stream_event.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

/// A context's default stream, and a list of all others. A green context's own
/// set is empty: its streams, also its default stream, are in its root's, which
/// knows them by stream::within. Thread-safe; while something is done in all of
/// them none is made and none goes.
class stream_set : public context_streams {
public:
  explicit stream_set(context& of) : of_(of) {}

  void begin() override;
  void end() override;

  /// Precondition of these: this is the set of the stream's owner.
  void add(stream& x);
  void remove(stream& x);
  /// How many there are; of a root, with its green contexts' ones.
  std::size_t size();

  /// `x` is done when all is that was enqueued in the context so far, and in
  /// its green contexts. CUDA_ERROR_INVALID_HANDLE for an event of another
  /// context; CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the captures are
  /// broken, where a stream of its own is captured.
  CUresult record(event& x);
  /// All that is enqueued in the context from now on waits for the event's
  /// latest record, also in streams that are made later.
  CUresult wait(event& x);

private:
  /// A stream that nobody else has, and an event to pass on what it is behind.
  struct relay {
    std::unique_ptr<stream> in;
    std::unique_ptr<event> mark;
  };

  /// Forgets all, and retires its own.
  void clear();
  relay& made(std::unique_ptr<relay>& x);
  template <class F>
  CUresult each(const F& f);
  CUresult check_captures();
  /// What a stream that is made now must wait for.
  void catch_up(stream& x);

  context& of_;
  std::unique_ptr<stream> legacy_; // the context's default stream
  std::mutex mutex_; // of a root's alone; guards its green contexts' too
  std::vector<stream*> all_;
  std::unique_ptr<relay> gathered_; // waits for all streams
  std::unique_ptr<relay> gate_;     // for what all streams wait for
};

/// The context's streams as what stream/ made them.
inline stream_set& streams_of(const context& x) noexcept {
  return static_cast<stream_set&>(*x.streams);
}

} // namespace vgpu::interposer
