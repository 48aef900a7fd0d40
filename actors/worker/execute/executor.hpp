// Executes a session's calls on its devices: decode, audit, device, answer.
#pragma once

#include "actors/worker/execute/state_copier.hpp"
#include "actors/worker/session/session_objects.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace vgpu {

struct dispatch_context;

/// One session's executor. It owns what the session has (session_objects.hpp)
/// and is called by one thread, except for what says that it is thread-safe.
/// What it enqueues on the devices completes on their threads.
class executor {
public:
  /// Device d serves the session's window d with at most `quota` bytes. Throws
  /// std::runtime_error where the addresses of a window are taken.
  executor(std::vector<std::unique_ptr<device::device>> devices,
           std::uint64_t quota);

  // -- before the first call --------------------------------------------------

  /// Sends answers to this sink from now on. May change between calls.
  void serve(std::shared_ptr<answer_sink> sink);
  /// The session's host window is mapped at its addresses, and files of the
  /// program's may be shown there.
  void host_mapped(std::uint64_t bytes, std::shared_ptr<host_files> files) {
    objects_.host.mapped(bytes, std::move(files));
  }
  /// Puts answers' bytes into this memory, which stays as long as the executor.
  void answers_into(std::span<std::byte> arena);
  /// Makes memory of the worker's own at the host window's addresses, because
  /// the program is elsewhere. It does nothing after host_mapped().
  status host_shadow() { return objects_.host.make_shadow(); }
  /// What kernels use in place of that memory; null where there is none.
  const std::shared_ptr<zero_copy_shadow>& zero_copy() const noexcept {
    return objects_.host.zero_copy();
  }
  /// Where the session's work waits for its turn on each device. Set it before
  /// the first call. Without, work never waits.
  share_gates& gates() noexcept { return objects_.gates; }
  device::device& on(std::size_t ordinal) {
    return *objects_.devices[ordinal].device;
  }

  // -- calls ------------------------------------------------------------------

  /// Executes one call. `owner` keeps the record's payload. It never throws for
  /// what the program did: the program gets its error, at once where it waits
  /// and at its next synchronising call where it does not. Returns false where
  /// it is not the session's turn: nothing was done, and the call is to be
  /// executed again after gates().wait().
  bool execute(const record& what, std::shared_ptr<const void> owner);

  /// Looks at a call that lies ahead while one before it is executed and takes
  /// long, because it may end what that one waits for: a driver waits for all
  /// streams now and then, and one of them for the program. Thread-safe.
  void look_ahead(const record& at);

  /// Notes that calls before this position were appended while an earlier
  /// worker served the session.
  void replays_until(std::uint64_t position) noexcept {
    objects_.replay_until = position;
  }
  /// Returns what a replay brought differently since the last call of this.
  replay_differences take_differences() {
    return objects_.checks->take_differences();
  }
  /// Returns how many calls were executed.
  std::uint64_t calls() const noexcept { return objects_.calls.load(); }
  /// Returns the position before which the log is no longer needed.
  std::uint64_t executed() const;

  // -- quota and accounts -----------------------------------------------------

  /// Raises the quota. It is never lowered: a replay makes again what was
  /// allocated under the largest, and the program's side refuses at once what
  /// exceeds the present one.
  void allow(std::uint64_t quota);
  std::uint64_t quota() const noexcept { return quota_; }
  /// Sets how a device hears of a raised quota.
  void when_allowed(std::function<void(device::device&, std::uint64_t)> tell) {
    tell_quota_ = std::move(tell);
  }
  session_account& account() noexcept { return objects_.account; }
  const session_account& account() const noexcept { return objects_.account; }
  /// Returns the bytes of device memory that the session has. Thread-safe.
  std::uint64_t used_bytes() const noexcept { return objects_.account.bytes(); }
  /// Asks devices without a meter of their own to tell when they are idle. Call
  /// it when no call is at hand.
  void rest();

  // -- errors -----------------------------------------------------------------

  /// The first sticky error of the session, or CUDA_SUCCESS. Thread-safe.
  CUresult error() const noexcept { return objects_.health->error(); }
  /// The error by which a device failed without the program's doing (lost,
  /// ECC), or CUDA_SUCCESS. From then on nothing is answered, so that another
  /// worker can take the session up unseen. Thread-safe.
  CUresult lost() const noexcept { return objects_.health->lost(); }
  /// Sets what is called once, by any thread, when that happens.
  void when_lost(std::function<void()> call) {
    objects_.health->when_lost(std::move(call));
  }
  void inject(std::size_t device, injected_fault what);

  // -- standing still ---------------------------------------------------------

  /// Whether everything that was begun ends without a further call: no host
  /// function has its turn still before it.
  bool may_stop() const noexcept { return objects_.may_stop(); }
  /// Waits for what the program knew to be done before a replay.
  status await_known() { return objects_.await_known(); }
  /// Calls `then`, from any thread, when all work enqueued so far is done.
  void when_idle(const std::function<void()>& then) {
    objects_.when_idle(then);
  }
  /// Whether the process may be checkpointed as it is. The fault says what is
  /// broken, or what others use.
  status may_checkpoint_process() const;
  /// Notes that the driver has taken the process's device memory to the host,
  /// or has brought it back.
  void note_off_devices(bool is) noexcept {
    objects_.account.note_off_devices(is);
  }

  // -- states (schema/wire/state.capnp) ---------------------------------------

  /// Whether all that the session has can be described. The fault says what
  /// cannot.
  status describable() const;
  /// Writes the session's state into a file, in place of what the file holds,
  /// and returns its size. Call it only while all devices are idle and
  /// may_stop(). After a fault, where there is something that cannot be
  /// described, nothing has changed. `lent`: memory comes along as descriptors
  /// in place of being copied, and nothing may use the session's memory while
  /// another worker does.
  result<std::uint64_t>
  capture(int file, bool compress,
          std::vector<device::shared_descriptor>* lent = nullptr);
  /// Makes what a state describes, and returns the position at which the
  /// session goes on. Call it only before any call, and after host_mapped() or
  /// host_shadow(). After a fault this executor is of no use. `adopt`: nobody
  /// else needs the file any more, and memory may become what lies in it,
  /// unchecked. `lent`: the memory that comes along with the state, which is
  /// copied.
  result<std::uint64_t> restore(int file, bool adopt = false,
                                std::vector<unique_fd> lent = {});
  /// Whether a worker on these pGPUs of this host, one for each device, could
  /// use the session's memory where it lies.
  bool can_lend_to(std::span<const std::uint32_t> pgpus) const;

  // -- variables that a GPU's driver placed (dry_run.hpp) ---------------------

  /// Whether the session has such variables, and no dry run has shown that they
  /// would lie in the same places again. It cannot be described before.
  bool needs_dry_run() const noexcept { return objects_.needs_dry_run(); }
  /// Writes the objects, without contents, for a dry run. May be called at any
  /// call's boundary.
  status capture_for_dry_run(int file);
  /// Notes that a dry run of what was written at this position succeeded. What
  /// is loaded later does not change where these variables lie.
  void dry_run_done(std::uint64_t position) noexcept {
    objects_.tried_until = position;
  }
  /// Makes the objects again, without what they hold, and compares where
  /// variables lie. The executor is of no other use then.
  status dry_run(int file);

  // -- a state that is copied ahead (state_copier.hpp) ------------------------

  bool copies_ahead() const { return copier_.is_possible(); }
  status begin_copy(int file, bool keep, std::function<void()> ring) {
    return copier_.begin(file, keep, std::move(ring));
  }
  result<bool> copy_on() { return copier_.go_on(); }
  /// Completes the state, as capture() does, with what is left to copy.
  result<std::uint64_t> finish_copy();
  void abandon_copy() noexcept { copier_.abandon(); }
  void forget_copies() noexcept { copier_.forget(); }
  bool copies() const noexcept { return copier_.is_copying(); }

private:
  struct performed {
    status outcome;
    bool waits = false;     // the program waits for it
    bool held_back = false; // it is not the session's turn; nothing was done
  };
  performed perform(const record& what, std::shared_ptr<const void> owner,
                    bool in_turn);
  template <class Call>
  void perform(const Call& x, dispatch_context& on, bool in_turn,
               performed& out);

  session_objects objects_;
  state_copier copier_{objects_};
  std::uint64_t quota_ = 0;
  std::function<void(device::device&, std::uint64_t)> tell_quota_;
};

} // namespace vgpu
