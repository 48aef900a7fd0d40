// Executes a session's calls on its devices: decode, audit, device, answer.
#pragma once

#include "actors/worker/execute/state_copier.hpp"
#include "actors/worker/session/session_objects.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace vgpu {

struct dispatch_context;
class state_capture;

/// Says how a state is restored.
struct restore_terms {
  /// Says that nobody else needs the file, so that its pages may become the
  /// session's memory, unchecked.
  bool adopt = false;
  /// Says that the session has snapshots, and that the next ones may be
  /// written over those of a former worker.
  bool snapshots = false;
  /// Holds the memory that comes with the state, which is copied.
  std::vector<unique_fd> lent{};
};

/// Executes one session's calls. It owns the session's objects
/// (session_objects.hpp). One thread calls it, except for the members marked as
/// thread-safe. Its devices run completions on their own threads.
class executor {
public:
  /// Serves the session's window d with device d, with at most `quota` bytes
  /// each. Throws std::runtime_error where the addresses of a window are taken.
  executor(std::vector<std::unique_ptr<device::device>> devices,
           std::uint64_t quota);

  // -- before the first call --------------------------------------------------

  /// Sends answers to this sink from now on. The sink may change between calls.
  void serve(std::shared_ptr<answer_sink> sink);
  /// Records that the session's host window is mapped at its addresses. `files`
  /// maps files of the program there.
  void host_mapped(std::uint64_t bytes, std::shared_ptr<host_files> files) {
    objects_.host.mapped(bytes, std::move(files));
  }
  /// Writes answers' bytes into this memory, which must outlive the executor.
  void answers_into(std::span<std::byte> arena);
  /// Makes memory of the worker's own at the host window's addresses, because
  /// the program is elsewhere. It does nothing after host_mapped().
  status host_shadow() { return objects_.host.make_shadow(); }
  /// Returns the copy of host memory that kernels use in place; null where the
  /// worker maps the program's own.
  const std::shared_ptr<zero_copy_shadow>& zero_copy() const noexcept {
    return objects_.host.zero_copy();
  }
  /// Returns the gates at which the session's work waits for its turn on each
  /// device. Set them before the first call. Without gates, work never waits.
  share_gates& gates() noexcept { return objects_.gates; }
  device::device& on(std::size_t ordinal) {
    return *objects_.devices[ordinal].device;
  }

  // -- calls ------------------------------------------------------------------

  /// Executes one call. `owner` keeps the record's payload. Never throws
  /// because of the program's mistakes: the program gets the error at once if
  /// it waits, and else at its next synchronising call. Returns false where it
  /// is not the session's turn, or too much of its work is pending. Then
  /// nothing was done; wait with await_turn() and execute the call again. It
  /// also does so for a read that needs cover.
  bool execute(const record& what, const std::shared_ptr<const void>& owner);

  /// Returns what the program may read (result_cover.hpp).
  result_cover& cover() noexcept { return objects_.cover; }
  /// Returns whether execute() returned false because the next call reads
  /// results that need cover.
  bool lacks_cover() const noexcept { return lacks_cover_; }

  /// Sleeps, after execute() returned false, until another attempt may succeed.
  void await_turn(std::chrono::nanoseconds at_most);
  /// Returns whether execute() returned false because too much work is pending.
  bool waits_for_room() const noexcept { return objects_.pending.is_waiting(); }

  /// Examines a later call while an earlier one takes long, because the later
  /// one may end what the earlier one waits for: a driver sometimes waits for
  /// all streams, and a stream may wait for the program. `owner` keeps the
  /// payload; without it, the payload stays until the call is executed.
  /// Thread-safe.
  void look_ahead(const record& at, std::shared_ptr<const void> owner);
  /// Lets streams continue whose calls have ended in what was examined before.
  /// Thread-safe.
  void look_again() { objects_.functions.calls->finish_ahead(); }

  /// Ends the waits of a replay that end in what was examined.
  void end_waits_ahead() { objects_.end_waits_ahead(); }

  /// Sets the position before which calls were appended while an earlier worker
  /// served the session.
  void replays_until(std::uint64_t position) noexcept {
    objects_.replay_until = position;
  }
  /// Returns the calls whose results differ in the replay, once each.
  replay_differences take_differences() {
    return objects_.checks->take_differences();
  }
  /// Returns them all, so far.
  replay_differences replay_differences_so_far() {
    return objects_.checks->differences();
  }
  /// Returns whether a result differs in the replay. Thread-safe.
  bool replay_differs() const noexcept { return objects_.checks->differs(); }
  /// Returns whether all results that the executed calls repeat were compared.
  bool replay_compared() { return objects_.checks->is_idle(); }
  /// Sets the function to call, on any thread, when that becomes true. Call it
  /// before the first call.
  void when_compared(std::function<void()> call) {
    objects_.checks->when_idle(std::move(call));
  }
  /// Returns how many calls were executed.
  std::uint64_t calls() const noexcept { return objects_.calls.load(); }
  /// Returns the position before which the log is no longer needed.
  std::uint64_t executed() const;

  // -- quota and accounts -----------------------------------------------------

  /// Raises the quota. It never falls, because a replay repeats allocations
  /// that were made under the largest one. The program's side refuses at once
  /// what exceeds the present one.
  void allow(std::uint64_t quota);
  std::uint64_t quota() const noexcept { return quota_; }
  /// Sets the function that announces a raised quota to a device.
  void when_allowed(std::function<void(device::device&, std::uint64_t)> tell) {
    tell_quota_ = std::move(tell);
  }
  /// Sets the function that has others give back memory of the devices, which
  /// this session needs. It waits for that, and returns whether there is more.
  void when_short(std::function<bool()> ask) {
    ask_for_memory_ = std::move(ask);
  }
  /// Sets how the session reaches the workers that lend it something. Without
  /// it, it connects to them itself.
  void connect_by(worker_connector connect) {
    objects_.connect = std::move(connect);
  }
  session_account& account() noexcept { return objects_.account; }
  const session_account& account() const noexcept { return objects_.account; }
  /// Returns the bytes of device memory that the session has. Thread-safe.
  std::uint64_t used_bytes() const noexcept { return objects_.account.bytes(); }
  /// Asks devices without a meter of their own to report when they are idle.
  /// Call it when no call is waiting.
  void rest();

  // -- errors -----------------------------------------------------------------

  /// Returns the first sticky error of the session, or CUDA_SUCCESS.
  /// Thread-safe.
  CUresult error() const noexcept { return objects_.health->error(); }
  /// Returns the error with which a device failed without the program's fault
  /// (lost, ECC), or CUDA_SUCCESS. From then on the executor answers nothing,
  /// so that another worker can recover the session unnoticed. Thread-safe.
  CUresult lost() const noexcept { return objects_.health->lost(); }
  /// Says how. Precondition: lost() is an error.
  std::string loss() const { return objects_.health->loss(); }
  /// Sets the function to call when that happens, once and on any thread.
  void when_lost(std::function<void()> call) {
    objects_.health->when_lost(std::move(call));
  }
  void inject(std::size_t device, injected_fault what);

  // -- coming to rest ---------------------------------------------------------

  /// Returns whether all work ends without a further call
  /// (session_objects.hpp).
  bool may_stop() const { return objects_.may_stop(); }
  /// Waits for the work that the program knew to be done before a replay.
  status await_known() { return objects_.await_known(); }
  /// Calls `then`, on any thread, when all work enqueued so far is done.
  void when_idle(const std::function<void()>& then) {
    objects_.when_idle(then);
  }
  /// Has the devices note in error() whether the work enqueued so far fails.
  void note_outcome();
  /// Returns a fault unless the driver may checkpoint the process. The fault
  /// names what is broken, or what other sessions use.
  status may_checkpoint_process() const;
  /// Records that the driver has taken the process's device memory to the host,
  /// or has brought it back.
  void note_off_devices(bool is) noexcept {
    objects_.account.note_off_devices(is);
  }

  // -- states (schema/wire/state.capnp) ---------------------------------------

  /// Returns a fault unless the whole session can be described. The fault names
  /// what cannot.
  status describable() const;
  /// Writes the session's state into a file, replaces the file's contents, and
  /// returns its size. Call it only while all devices are idle and may_stop()
  /// is true. A session that cannot be described stays unchanged. `lent`
  /// receives memory as descriptors in place of a copy; nothing may use the
  /// session's memory while another worker does.
  result<std::uint64_t>
  capture(int file, bool compress,
          std::vector<device::shared_descriptor>* lent = nullptr);
  /// Restores a state, and returns the position of the next call. Call it only
  /// before any call, and after host_mapped() or host_shadow(). After a fault
  /// this executor is useless.
  result<std::uint64_t> restore(int file, restore_terms how = {});
  /// Returns whether restore() lets pages of a file become the session's
  /// memory, where it may.
  bool adopts_files() const;
  /// Returns whether a worker on these pGPUs of this host, one for each device,
  /// could use the session's memory in place.
  bool can_lend_to(std::span<const std::uint32_t> pgpus) const;

  // -- variables that a GPU's driver placed (dry_run.hpp) ---------------------

  /// Returns whether the session has such variables, and no dry run has shown
  /// that they would get the same addresses. It cannot be described before
  /// that.
  bool needs_dry_run() const noexcept { return objects_.needs_dry_run(); }
  /// Writes the objects, without contents, for a dry run. May be called between
  /// any two calls.
  status capture_for_dry_run(int file);
  /// Records that a dry run of the objects at this position succeeded. Later
  /// modules do not change where these variables lie.
  void dry_run_done(std::uint64_t position) noexcept {
    objects_.tried_until = position;
  }
  /// Makes the objects without contents, and compares the addresses of
  /// variables. It needs neither a host window nor the session's quota. The
  /// executor is useless afterwards.
  status dry_run(int file);

  // -- objects that are made ahead (state_objects.hpp) ------------------------

  /// Tells what prepare() has done.
  struct preparation {
    /// Is a fault where not all objects exist. The others are made when the
    /// state is restored.
    status made;
    /// Is a fault where variables lie elsewhere. Then no state of the session
    /// can be restored here.
    status like;
  };
  /// Makes objects of the state in `file`, before the state that restore()
  /// takes comes. Call it once, only before any call, and from no second
  /// thread. It ends soon after `stop` is set.
  preparation prepare(int file, const std::atomic<bool>& stop);
  /// Returns whether objects were made for a state that has not come. Then
  /// nothing but restore() is of use.
  bool awaits_state() const noexcept { return awaits_state_; }
  /// Begins to describe the objects, as capture_for_dry_run() does, for another
  /// process to prepare(). The file must outlive the description.
  result<std::shared_ptr<state_capture>> begin_description(int file);
  /// Returns whether the program sent images, whose modules take long to load.
  bool has_images() const noexcept { return !objects_.images.empty(); }

  // -- a state that is copied ahead (state_copier.hpp) ------------------------

  bool copies_ahead() const { return copier_.is_possible(); }
  status begin_copy(int file, bool snapshot, std::function<void()> ring) {
    return copier_.begin(file, snapshot, std::move(ring));
  }
  result<bool> copy_on() { return copier_.go_on(); }
  /// Fixes what the state will be. The conditions are those of capture().
  status describe_copy() { return copier_.describe(); }
  result<std::uint64_t> finish_copy() { return copier_.finish(); }
  /// Returns for how long the copies of the last state have delayed others on
  /// this host's processors.
  std::chrono::nanoseconds copies_delayed() const noexcept {
    return copier_.delayed();
  }
  void abandon_copy() noexcept { copier_.abandon(); }
  void forget_copies() noexcept { copier_.forget(); }
  bool copies() const noexcept { return copier_.is_copying(); }
  /// Returns whether devices keep contents that the file does not have yet.
  bool keeps_copies() const noexcept { return copier_.has_room(); }

private:
  struct performed {
    status outcome;
    bool waits = false;     // the program waits for it
    bool held_back = false; // not the session's turn: nothing was done
    bool ends = false;      // ends an object
  };
  performed perform(const record& what,
                    const std::shared_ptr<const void>& owner, bool in_turn);
  static bool lacks_memory(const performed& x);
  template <class Call>
  void perform(const Call& x, dispatch_context& on, bool in_turn,
               performed& out);

  std::function<status(const record&)> performer();
  void note_restored(const std::vector<state_chunk>& contents);
  bool needs_cover(const dispatch_context& on, device_address at) const;
  bool ends_by_itself() const;
  /// Deals with a call that failed after the program had gone on.
  void note_refused(const record& what, const performed& x);

  session_objects objects_;
  state_copier copier_{objects_};
  std::uint64_t quota_ = 0;
  std::function<bool()> ask_for_memory_{};
  bool lacks_cover_ = false;
  bool awaits_state_ = false;
  /// Tells whether the device had no memory for an object of the program.
  bool refused_late_ = false;
  std::function<void(device::device&, std::uint64_t)> tell_quota_;
};

} // namespace vgpu
