// Executes a session's calls on its devices: decode, audit, device, answer.
#pragma once

#include "actors/compute/call_traffic.hpp"
#include "actors/compute/share_gate.hpp"
#include "actors/compute/work_meter.hpp"
#include "actors/lend/host_files.hpp"
#include "actors/lend/share_broker.hpp"
#include "actors/link/protocol.hpp"
#include "actors/state/event_times.hpp"
#include "actors/state/living_calls.hpp"
#include "actors/state/vgpu_state.hpp"
#include "actors/worker/execute/answers.hpp"
#include "actors/worker/execute/replay_checks.hpp"
#include "actors/worker/execute/replayed_waits.hpp"
#include "actors/worker/execute/stream_order.hpp"
#include "actors/worker/execute/zero_copy_shadow.hpp"
#include "devices/interface/change_unit.hpp"
#include "devices/interface/condition_unit.hpp"
#include "devices/interface/device.hpp"
#include "devices/interface/file_unit.hpp"
#include "devices/interface/memory_unit.hpp"
#include "devices/interface/sharing_unit.hpp"
#include "devices/interface/tensor_map_unit.hpp"
#include "devices/interface/texture_unit.hpp"
#include "devices/interface/value_unit.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <unordered_set>
#include <vector>

namespace vgpu {

class snapshot_base;
struct state_lent;

/// Tells how far a log is no longer needed, while payloads are still being
/// copied out of it. Thread-safe.
class payload_pins {
public:
  /// Holds the payload of the call at this place until the result is dropped.
  /// `owner` is dropped with it.
  static std::shared_ptr<const void> pin(std::shared_ptr<payload_pins> self,
                                         std::uint64_t position,
                                         std::shared_ptr<const void> owner);

  /// Everything before `position` was executed, payloads perhaps excepted.
  /// Returns up to where nothing is needed any more.
  std::uint64_t advance(std::uint64_t position);

private:
  std::mutex lock_;
  std::multiset<std::uint64_t> held_;
  std::uint64_t position_ = 0;
};

/// One session's executor. Owned and called by one thread; what it enqueues on
/// the devices completes on theirs.
class executor {
public:
  /// Device d serves the session's window d with at most `quota` bytes.
  executor(std::vector<std::unique_ptr<device::device>> devices,
           std::uint64_t quota);
  /// Waits for nothing: devices stop what they do.
  ~executor();

  /// Where answers go from now on. May change between calls.
  void serve(std::shared_ptr<answer_sink> sink);

  /// Host memory of the session's host window lies at its address, and files of
  /// the program's may be shown there.
  void host_mapped(std::uint64_t bytes, std::shared_ptr<host_files> files) {
    host_bytes_ = bytes;
    host_files_ = std::move(files);
  }
  /// Answers' bytes go into this memory, which stays as long as the executor.
  void answers_into(std::span<std::byte> arena);
  /// The program is elsewhere: memory of our own stands at the host window's
  /// addresses. Not when host_mapped() was called.
  status host_shadow();
  /// Of such memory, what kernels use in place; null where there is none.
  const std::shared_ptr<zero_copy_shadow>& zero_copy() const noexcept {
    return zero_copy_;
  }

  /// Executes one call. `owner` keeps the record's payload alive. Never throws
  /// for what the program did: the program gets its error, at once where it
  /// waits and at its next synchronising call where it does not. False: it is
  /// not the session's turn, nothing was done, and the call is to be executed
  /// again after gates().wait().
  bool execute(const record& what, std::shared_ptr<const void> owner);

  /// A call that lies ahead, while one before it is executed and takes long:
  /// what it waits for may be told here. A driver waits for all streams now and
  /// then, and one of them for the program. Thread-safe, as nothing else is.
  void look_ahead(const record& at);

  /// Raises the quota. It is never lowered: a replay makes again what was
  /// allocated under the largest, and the program's side refuses at once what
  /// exceeds the present one.
  void allow(std::uint64_t quota);
  std::uint64_t quota() const noexcept { return quota_; }

  // -- accounts (executor_usage.cpp) ------------------------------------------

  /// What was used so far, memory aside. Thread-safe.
  control::usage used() const;
  /// Of that, the bytes that calls moved.
  control::usage traffic() const;
  /// Calls before this were appended while another worker executed them, or
  /// was to.
  void replays_until(std::uint64_t position) noexcept {
    replay_until_ = position;
  }
  /// What was done before is done again from now on: it is charged apart,
  void begin_recovery();
  /// until now. Work that is enqueued already still counts as such.
  void end_recovery();
  /// So much of the devices' time was ours, not the program's.
  void charge_apart(std::chrono::nanoseconds time);
  /// How long the devices worked for the session, in all. Thread-safe.
  std::chrono::nanoseconds device_time() const;
  /// The same of each. Thread-safe.
  std::vector<std::chrono::nanoseconds> device_times() const;
  /// What they did of all that they could, as shares count it. Thread-safe.
  std::chrono::nanoseconds worked() const;
  /// No call is at hand: devices without a meter of their own are asked to
  /// tell when they are idle.
  void rest();

  /// How a device is told.
  void when_allowed(std::function<void(device::device&, std::uint64_t)> tell) {
    tell_quota_ = std::move(tell);
  }

  /// Where the session's work waits for its turn on each device. Set before
  /// the first call; without, it never waits.
  share_gates& gates() noexcept { return gates_; }
  device::device& on(std::size_t ordinal) { return *devices_[ordinal]; }

  /// Calls executed so far, and up to where the log is no longer needed.
  std::uint64_t calls() const noexcept { return calls_.load(); }
  std::uint64_t executed() const;
  /// What it costs its devices beside that, as of the last module that was
  /// loaded or unloaded. Thread-safe.
  control::side_memory beside() const noexcept;
  std::uint64_t used_bytes() const noexcept {
    return aside_ ? 0 : used_.load();
  }
  /// The error by which a device failed without the program's doing (lost,
  /// ECC), or CUDA_SUCCESS: from then on nothing is answered, so that another
  /// worker can take the session up unseen. Thread-safe.
  CUresult lost() const noexcept;
  /// Called once, by any thread, when that happens.
  void when_lost(std::function<void()> call);

  /// The first sticky error of the session, or CUDA_SUCCESS. Thread-safe.
  CUresult error() const noexcept;

  void inject(std::size_t device, device::injected_fault what);

  // -- replay and state (executor_state.cpp)
  // --------------------------------

  /// What a replay brought differently, since the last call.
  replay_differences take_differences() { return checks_->take_differences(); }

  /// Whether everything that was begun ends without a further call: no host
  /// function has its turn still before it.
  bool may_stop() const noexcept { return open_host_calls_ == 0; }
  /// Waits for what the program knew to be done, in a replay.
  status await_known();
  /// Calls `then`, from any thread, when all work enqueued so far is done.
  void when_idle(std::function<void()> then);
  /// Whether all there is can be described; a fault says what cannot.
  status describable() const;
  /// Whether its process may be put aside as it is: a fault where that would
  /// keep what is broken, or what others use.
  status may_go_aside() const;
  /// Its devices' memory is taken to the host, or is back: what is aside holds
  /// none of theirs.
  void note_aside(bool is) noexcept { aside_ = is; }
  /// Writes the session's state (schema/wire/state.capnp) into a file, in place
  /// of what it holds: its size. Only while all devices are idle and
  /// may_stop(). A fault where there is something that cannot be described;
  /// nothing has changed then. `lent`: memory comes along as descriptors in
  /// place of being copied; nothing may use the session's memory while another
  /// worker does.
  result<std::uint64_t>
  capture(int file, bool compress,
          std::vector<device::shared_descriptor>* lent = nullptr);
  /// Makes what a state describes. Only before any call, and after the host
  /// window was mapped, or its shadow made. After a fault this executor is of
  /// no use. `adopt`: nobody else needs the file any more, and memory may
  /// become what lies in it, unchecked. The position at which the session goes
  /// on.
  /// `lent`: the memory that comes along with it, which is copied.
  result<std::uint64_t> restore(int file, bool adopt = false,
                                std::vector<unique_fd> lent = {});

  // -- memory that is handed over (executor_lending.cpp)
  // --------------------------------

  /// Whether a worker on these pGPUs of this host, one for each device, could
  /// use the memory of the session where it lies.
  bool can_lend_to(std::span<const std::uint32_t> pgpus) const;

  // -- variables that a GPU's driver placed (dry_run.hpp)
  // --------------------------------

  /// Whether the session has some, and nobody has tried yet whether a worker
  /// that makes its objects again would get them in the same places. It cannot
  /// be described before.
  bool needs_dry_run() const noexcept {
    return driver_placed_ && *driver_placed_ >= dry_run_outcome_;
  }
  /// Writes the objects, without contents, for make a dry run(): at any call's
  /// boundary.
  status capture_for_dry_run(int file);
  /// Another process was told to make a dry run() what was written at this
  /// position, and could. What is loaded later does not change where these
  /// variables lie.
  void dry_run_done(std::uint64_t position) noexcept {
    dry_run_outcome_ = position;
  }
  /// Makes the objects again, without what they hold, and compares where
  /// variables lie. The executor is of no other use then.
  status dry_run(int file);

  // -- a state that is copied ahead (executor_capture.cpp)
  // --------------------------------

  /// Whether memory can be copied while calls are executed, and what changed
  /// since is noticed.
  bool copies_ahead() const;
  /// Begins a state in this file, for finish_copy() in place of capture(), not
  /// compressed. Where it is a file of which the contents were kept, what did
  /// not change since stays; any other is emptied. `keep`: it will be kept up
  /// again. copy_on() is called now, and whenever `ring` was, from any thread.
  status begin_copy(int file, bool keep, std::function<void()> ring);
  /// True when what changes is so little, or so much, that the session should
  /// stand still for the rest. After a fault the copy is to be abandoned.
  result<bool> copy_on();
  /// As capture(), of what is left.
  result<std::uint64_t> finish_copy();
  void abandon_copy() noexcept { copying_.reset(); }
  /// Of no file the contents are known any more.
  void forget_copies() noexcept { kept_.clear(); }
  bool copies() const noexcept { return copying_ != nullptr; }

private:
  friend struct call_dispatch;

  struct host_calls;
  struct consoles;
  struct health;
  struct capturing;
  struct copying;
  struct restoring;
  struct recovery;

  struct performed {
    status outcome;
    bool waits = false;     // the program waits for it
    bool held_back = false; // it is not the session's turn; nothing was done
  };
  /// `in_turn`: work is brought to the devices in the session's turns alone.
  performed perform(const record& what, std::shared_ptr<const void> owner,
                    bool in_turn);
  void count(const call_traffic& x);
  status describable_now() const;
  std::map<device_address, std::uint64_t> contents_of(std::size_t device) const;
  std::map<device_address, std::uint64_t>
  outside_of_window(std::size_t device) const;
  static bool in_window(std::size_t device, device_address x) noexcept;
  void look_beside();
  void note_places(std::size_t device, call_number at,
                   std::span<const device::global_info> variables);
  std::map<device_address, std::uint64_t> lendable_of(std::size_t device) const;
  status lend(std::size_t device, std::vector<state_lent>& pieces,
              std::vector<device::shared_descriptor>& to) const;
  status take_lent(const state_lent& what, unique_fd memory);
  template <class F>
  status look_through(std::size_t device, memory_id memory, std::uint64_t bytes,
                      F f);
  /// Memory that stays when the module goes with which it came.
  void keep_for_good(std::size_t device, const device::global_info& x);

  std::vector<std::unique_ptr<device::device>> devices_;
  std::vector<device::texture_unit*> texture_units_; // of each, or null
  std::vector<device::memory_unit*> memory_units_;   // likewise
  /// Of each; `work_meters_` where the device has none of its own, or null.
  std::vector<const device::meter*> meters_;
  std::vector<std::unique_ptr<work_meter>> work_meters_;
  std::vector<device::timing_unit*> timing_units_;   // null where there is none
  std::vector<device::value_unit*> value_units_;     // likewise
  std::vector<device::sharing_unit*> sharing_units_; // likewise
  std::vector<device::condition_unit*> condition_units_;   // likewise
  std::vector<device::change_unit*> change_units_;         // likewise
  std::vector<device::file_unit*> file_units_;             // likewise
  std::vector<device::tensor_map_unit*> tensor_map_units_; // likewise
  std::vector<vgpu_state> states_;
  std::vector<stream_order> orders_;
  std::uint64_t replay_until_ = 0;
  replayed_waits replayed_waits_;
  /// Streams that the legacy stream waits for, and that wait for it.
  std::vector<std::unordered_set<stream_id>> blocking_;
  share_gates gates_;
  std::uint64_t quota_ = 0;
  std::function<void(device::device&, std::uint64_t)> tell_quota_;
  std::vector<event_times> times_;
  std::vector<std::vector<device::global_info>> kept_for_good_;
  living_calls living_;
  std::uint64_t open_host_calls_ = 0;
  /// Those of them that are waits for values, by their numbers.
  std::set<std::uint64_t> open_waits_;
  /// Where streams stood before each host_call whose function has not begun, by
  /// its number.
  std::map<std::uint64_t, event_id> before_host_calls_;
  std::shared_ptr<replay_checks> checks_ = std::make_shared<replay_checks>();
  std::shared_ptr<answer_sink> sink_;
  std::shared_ptr<payload_pins> pins_ = std::make_shared<payload_pins>();
  std::shared_ptr<host_calls> host_calls_;
  std::shared_ptr<consoles> consoles_;
  std::map<call::digest, std::vector<std::byte>> images_;
  std::uint64_t host_bytes_ = 0;
  mapping host_shadow_;
  std::shared_ptr<zero_copy_shadow> zero_copy_;
  std::shared_ptr<host_files> host_files_; // null: the program is elsewhere
  std::uint64_t position_ = 0;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> used_{0};
  std::atomic<bool> aside_{false};
  /// Bytes; less than 0: not known (control::side_memory).
  std::atomic<std::int64_t> variables_{-1}, code_{-1}, context_{-1};
  /// Bytes, which one thread counts.
  std::atomic<std::uint64_t> to_device_{0};
  std::atomic<std::uint64_t> from_device_{0};
  std::atomic<std::uint64_t> replayed_{0};
  bool recovers_ = false;
  std::shared_ptr<recovery> recovery_;
  /// Of the files that are kept up, the latest last.
  std::vector<std::shared_ptr<snapshot_base>> kept_;
  std::shared_ptr<copying> copying_;
  /// The last call by which a variable came to lie outside of the window.
  std::optional<std::uint64_t> driver_placed_;
  std::uint64_t dry_run_outcome_ = 0; // calls before this position
  std::shared_ptr<health> health_;
  /// Null until the session shares something.
  std::unique_ptr<share_broker> broker_;
};

} // namespace vgpu
