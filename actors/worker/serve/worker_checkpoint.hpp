// The checkpoints of a session, in its worker.
#pragma once

#include "actors/worker/checkpoint/checkpoint_files.hpp"
#include "actors/worker/checkpoint/checkpoint_phase.hpp"
#include "actors/worker/checkpoint/dry_run.hpp"
#include "actors/worker/checkpoint/gpu_release.hpp"
#include "actors/worker/checkpoint/next_preparation.hpp"
#include "actors/worker/checkpoint/session_standby.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/client_channel.hpp"
#include "actors/worker/serve/heartbeat_thread.hpp"
#include "actors/worker/serve/objects_ahead.hpp"
#include "actors/worker/serve/replay_progress.hpp"
#include "actors/worker/serve/session_identity.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vgpu {

/// Is called when a checkpoint ends: the session stands still and can be
/// described, or continues for the given reason.
using checkpoint_ended = std::function<void(const status&)>;

/// Takes a session through the phases of a checkpoint (checkpoint_phase.hpp),
/// and reports each to its client. A checkpoint is a state that another worker
/// restores, a snapshot after which the session continues, or, where the
/// session cannot be described, the checkpointed process. Not thread-safe.
class worker_checkpoint {
public:
  /// Holds the work that other processes do for the worker.
  struct helpers {
    /// Begins a dry run. Without it, a session with variables that a driver
    /// placed has no state.
    begin_dry_run dry_run;
    /// Begins a release. Without it, a session that cannot be described has no
    /// checkpoint.
    begin_gpu_move gpu_mover;
    /// Passes objects on to the session's next worker; may be empty.
    begin_preparation preparation;
    /// Tells the node what the session's standby is to do; may be empty.
    session_standby::teller standby;
  };

  /// Holds those who receive the outcome of a checkpoint besides the client.
  struct listeners {
    /// Ends the session, which another worker must recover.
    std::function<void(const std::string& why)> fail;
    /// Is called before the client learns of a checkpoint that was refused.
    checkpoint_ended ended;
  };

  /// Calls `ring`, on any thread, to wake the thread when look() has work.
  worker_checkpoint(const session_identity& identity, executor& exec,
                    replay_progress& progress, client_channel& client,
                    heartbeat_thread& heartbeats, helpers by,
                    std::function<void()> ring, listeners to)
      : identity_(identity), exec_(exec), progress_(progress), client_(client),
        heartbeats_(heartbeats), begin_dry_run_(std::move(by.dry_run)),
        begin_preparation_(std::move(by.preparation)),
        standby_(std::move(by.standby)),
        release_(std::move(by.gpu_mover), ring), ring_(std::move(ring)),
        to_(std::move(to)) {}

  checkpoint_phase phase() const noexcept { return phase_; }
  /// Returns whether the next call may be executed. A host function that began
  /// before the stop needs a later call to end.
  bool takes_calls() const noexcept {
    return runs_calls(phase_) ||
           (phase_ == checkpoint_phase::stopping && !exec_.may_stop());
  }

  /// Takes the file of the state that was restored, into which the next
  /// snapshot is written.
  void keep_restored(unique_fd file) noexcept {
    files_.keep_snapshot(std::move(file));
  }
  /// Begins a checkpoint, unless one is under way. `files` are files of a
  /// client of this host, in memory and perhaps on a disk. Without any, the
  /// worker uses a file of its own.
  void begin(const data::checkpoint& x, std::vector<unique_fd> files);
  /// Ends the checkpoint, if there is one, and lets the session continue.
  void go_on();
  /// Ends the checkpoint, if there is one, because of this, and tells the
  /// client.
  void give_up(const std::string& why) {
    if (phase_ != checkpoint_phase::running)
      refuse(why);
  }
  /// Takes the node's word on the standby.
  void standby_changed(const next_worker& to);
  /// Notes that the client's newest snapshot is of this position.
  void covered(std::uint64_t position);
  /// Takes the next step, if it is time. Call it between calls.
  void look();
  /// Returns the bytes of the state that a client elsewhere requests; null
  /// where there are none.
  std::shared_ptr<const std::vector<std::byte>>
  part(const data::state_wanted& x) const {
    return files_.part(x);
  }
  /// Returns a descriptor of the state's file, and its size. Fails where there
  /// is none.
  result<checkpoint_files::whole_state> state() const { return files_.whole(); }

private:
  using clock = std::chrono::steady_clock;
  using phase_told = data::checkpointing::phase;
  /// Says what is checkpointed.
  enum class subject : std::uint8_t { state, process };

  /// Returns whether a client ordered the checkpoint, and not a question to the
  /// vGPU state actor. Orders of clients have a number.
  bool is_ordered_by_client() const noexcept { return wanted_.order != 0; }
  /// Returns whether the state is written into the file that is kept for the
  /// next one: that of a snapshot, or of a state of which a client elsewhere
  /// has most. A state that lends memory is small.
  bool uses_kept_file() const noexcept {
    return wanted_.go_on || (is_ordered_by_client() && !wanted_.compress &&
                             !client_.is_on_this_host() && !wanted_.may_leave);
  }
  void tell(phase_told now);
  bool lends() const;

  void drop_kept();

  // a standby
  void look_beside();
  void end_beside(const status& how);
  void give_up_standby();

  // a state
  bool start_standby();
  void look_standby();
  int kept_elsewhere() const;
  result<objects_ahead> begin_objects(const next_worker& to, int contents);
  bool start_preparation();
  void look_preparation();
  void end_preparation(const status& how);
  void begin_state();
  bool start_dry_run();
  status launch_dry_run();
  void look_dry_run();
  status begin_copying();
  void copy_on();
  void stop_calls();
  void look_stopped();
  void take_state();
  status choose_file();
  result<std::optional<std::uint64_t>> write();
  result<std::uint64_t> write_lending();
  void complete_on();
  void hand_over(std::uint64_t bytes);
  void refuse(const std::string& why);
  void refuse_unlike(const fault& why);

  // the process
  bool begin_process(const std::string& why);
  void release();
  void look_moved();
  void released();
  void not_released(const fault& why);
  void restore_process();
  void is_back();

  const session_identity& identity_;
  executor& exec_;
  replay_progress& progress_;
  client_channel& client_;
  heartbeat_thread& heartbeats_;
  begin_dry_run begin_dry_run_;
  begin_preparation begin_preparation_;
  session_standby standby_;
  gpu_release release_;
  std::function<void()> ring_;
  listeners to_;

  checkpoint_phase phase_ = checkpoint_phase::running;
  subject of_ = subject::state;
  /// Holds the order; meaningless while the session runs.
  data::checkpoint wanted_;
  checkpoint_files files_;
  /// Holds what the next worker makes before the state is taken, until it has
  /// refused.
  std::optional<objects_ahead> next_;
  /// Holds what the standby makes while the session runs.
  std::optional<objects_ahead> beside_;
  /// Hold the dry run under way, and the time at which it began.
  std::unique_ptr<helper> dry_run_;
  clock::time_point tried_at_{};
  /// Holds the position of the objects of that dry run.
  std::uint64_t tried_ = 0;
  /// Tells whether the devices are idle.
  std::shared_ptr<std::atomic<bool>> settled_;
  /// Describes the state that was taken, before its file is complete.
  data::checkpointed taken_;
  /// Says why the driver could not release the process's memory.
  std::string stays_because_;
};

} // namespace vgpu
