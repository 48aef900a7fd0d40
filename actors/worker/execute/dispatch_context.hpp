// What an executed call uses and changes.
#pragma once

#include "actors/worker/session/answer_digest.hpp"
#include "actors/worker/session/session_objects.hpp"
#include "schema/wire/call_codec.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace vgpu {

/// Describes one call of a session on one of its devices. The functions of
/// call_dispatch.hpp take it, and use nothing else.
struct dispatch_context {
  session_objects& session;
  device_slot& slot;
  const record& what;
  /// Keeps the record's payload.
  const std::shared_ptr<const void>& owner;
  /// Tells that the call has answered with an error of its own, so that nothing
  /// of it lasts although its execution did not fail.
  bool refused = false;

  device::device& device() { return *slot.device; }
  vgpu_state& state() { return slot.state; }
  stream_order& order() { return slot.order; }
  event_times& times() { return slot.times; }
  waiter who() const { return {what.slot, what.call}; }
  void answer(std::uint64_t value = 0, CUresult result = CUDA_SUCCESS) const {
    session.sink->answer(who(), result, value);
  }

  /// Returns whether the program got the call's outcome from an earlier worker.
  bool is_answered() const { return !session.sink->wanted(who()); }
  /// Returns whether the call was appended while an earlier worker served the
  /// session.
  bool is_replayed() const { return what.end <= session.replay_until; }

  /// Returns the result that the program got of this call, of so many bytes.
  earlier_result earlier(std::uint64_t bytes) const {
    earlier_result out{what.digest, {}};
    if (bytes <= kept_result_bytes && what.payload.size() == bytes)
      out.bytes.assign(what.payload.begin(), what.payload.end());
    return out;
  }

  /// Records that a copy or memset was enqueued. Programs expect a synchronous
  /// one, which uses the legacy stream, to be done before anything that they
  /// enqueue next, even in streams that do not wait for the legacy stream.
  void settle(stream_id stream) {
    if (stream == legacy_stream)
      order().after_legacy();
  }

  /// Returns a completion that answers this call when the device is done.
  device::completion completion(work_meter::done_mark idle = {}) const {
    return [sink = session.sink, health = session.health, who = who(),
            idle](CUresult result) {
      idle();
      if (!health->note(*sink, result))
        return;
      auto is_told = result == CUDA_SUCCESS && sink->wanted(who);
      sink->answer(who, is_told ? health->take_late() : result, 0);
    };
  }

  /// Returns the digest of an answer, which a replay compares with its own; 0
  /// where none is kept.
  std::uint32_t digest_of(std::span<const std::byte> answer) const {
    return session.sink->keeps_digests() ? fold_digest(row_hash(answer)) : 0;
  }

  /// Waits until the device is done, for at most ten seconds. Freed memory
  /// becomes available when the work that may use it is done. An allocation
  /// that finds none left waits for that, as cuMemFree does on a GPU.
  bool wait_for_device();

  /// Waits, in a replay, for the work that the program knew to be done. Call it
  /// before something goes at once that such work may use: the program waited
  /// before it let that go, but a replay has not waited.
  status await_users() const {
    return is_replayed() ? session.await_known() : status{};
  }

  /// Gives the session up here, because something that the program has is not
  /// the same on this device. Another worker tries.
  fault unlike(const std::string& why) const {
    auto text = "call " + std::to_string(what.call.value) + ": " + why;
    session.health->cannot_be_like(text);
    return cuda_fault(CUDA_ERROR_DEVICE_UNAVAILABLE, text);
  }
  /// Returns how the device made something. In a replay, the program has it,
  /// and may have used it: a device that cannot make it is given up.
  status made(status how) const {
    if (how || !is_replayed() || session_health::is_loss(cuda_code(how)))
      return how;
    return unlike(how.why().what);
  }

  /// Counts the memory that this session freed and another one still has. Call
  /// it whenever something that may be shared is freed.
  void count_left();
};

/// Returns the fault of a call that names a kernel which its module does not
/// have.
inline fault no_such_kernel(std::uint32_t index) {
  return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                    "the module has no kernel " + std::to_string(index));
}

/// Returns the fault of a call that needs virtual memory management where the
/// device has none.
inline fault no_memory_unit() {
  return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                    "this device has no virtual memory management");
}

} // namespace vgpu
