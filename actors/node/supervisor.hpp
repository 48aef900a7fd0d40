// A node's supervisor: registers its pGPUs with the manager, runs one worker
// process for each session, and reports on them to the manager.
#pragma once

#include "actors/compute/usage_page.hpp"
#include "actors/lend/switchboard.hpp"
#include "actors/link/protocol.hpp"
#include "actors/node/pgpu.hpp"
#include "actors/node/prepared_workers.hpp"
#include "actors/node/spawner.hpp"
#include "actors/node/supervisor_actor.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vgpu {

struct supervisor_options {
  std::string name; // `a`
  std::string host; // host_id()
  std::uint32_t pid = 0;
  std::vector<control::pgpu> pgpus;
  /// Holds the manager's peer name on its link: the endpoint.
  std::string manager_peer;
  std::string worker_program;  // path
  std::string worker_endpoint; // where workers connect
  /// Holds the endpoint that a worker binds: `tcp://HOST:*` or
  /// `ipc://DIR/worker-%s`, where %s becomes the node, the session, and a
  /// number of the process.
  std::string worker_bind;
  /// Tells whether the TCP ports of workers have keys, as the manager does.
  bool keyed = false;
  /// Tells whether workers listen on a network without keys.
  bool insecure_network = false;
  /// Limits the processes of workers for each pGPU. Not even so many take turns
  /// on it, but some may be ending, and some prepared.
  std::size_t most_workers = 2 * policy::most_seats;
  /// Gives the memory of each device that a standby takes for its context and
  /// its modules. There are standbys only where as much again stays free. With
  /// 0 there are none.
  std::uint64_t standby_memory = 0;
  /// Tells whether workers enter a sandbox, and says what they give up there.
  bool sandboxed = true;
  std::string sandbox;
  /// Connects workers to one another; may be null.
  std::shared_ptr<switchboard> lines;
  std::chrono::milliseconds hello_within{10'000};
  std::chrono::milliseconds stop_grace{2'000};
  /// Says how long a prepared worker waits for its orders.
  std::chrono::minutes orders_within{22};
};

struct supervisor_state {
  supervisor_state() = default;

  static constexpr const char* name = "vgpu.supervisor";

  enum class stage { reserving, starting, running, stopping };
  struct worker {
    control::start_worker order;
    supervisor_state::stage stage = supervisor_state::stage::reserving;
    std::uint64_t tag = 0; // of its process, once there is one
    std::uint32_t pid = 0;
    std::string peer; // its connection
    control::worker_endpoints where;
    control::session_load load;
    /// Holds the account that the worker writes; null where there was no
    /// memory.
    std::shared_ptr<usage_page> account;
    std::size_t grants_missing = 0;
    std::map<std::uint32_t, pgpu_answer> grants; // by pGPU
    /// Holds a resize to send to the worker as soon as it is connected.
    std::optional<control::resize_session> resized;
    bool reported = false; // the manager knows that it started, or failed
    /// Holds the deadline of its hello or of its end, by stage.
    std::chrono::steady_clock::time_point due;
    /// Holds the order of a later epoch, which begins when this process is
    /// dead.
    std::optional<control::start_worker> next;
  };

  supervisor_options opts;
  link_actor manager_link;
  link_actor worker_link;
  supervisor_watcher watcher;
  std::shared_ptr<spawner> children;
  std::map<std::uint32_t, pgpu_actor> pgpus;
  std::map<std::uint32_t, std::shared_ptr<share_board>> boards;
  std::map<session_id, worker> workers;
  std::optional<prepared_workers> prepared; // set once the actor runs
  /// Holds the workers that wait for the end of standbys, and their requests.
  std::vector<std::pair<std::string, std::uint64_t>> wait_for_standbys;
  /// Holds, by tag, workers whose successor runs already. They still give back
  /// their seats and quotas.
  std::map<std::uint64_t, worker> leaving;
  /// Holds the last report on a worker that ended, until the manager
  /// acknowledges it. `beat` is the heartbeat that first had it; 0: none yet.
  struct last_word {
    control::session_load load;
    std::uint64_t beat = 0;
  };
  static constexpr std::size_t most_last_accounts = 16'384;
  std::deque<last_word> ended;
  std::uint64_t last_tag = 0;

  bool connected = false;
  bool registered = false;
  bool was_ready = false;
  std::uint64_t incarnation = 0;
  std::uint64_t beats = 0;
  std::chrono::milliseconds beat_every{100};
  bool stopping = false;
  bool goodbye_heard = false;
  std::chrono::steady_clock::time_point stop_by;
};

/// Implements a node's supervisor. It spawns the actors of its pGPUs, and runs
/// its workers as `children`.
supervisor_actor::behavior_type
supervisor(supervisor_actor::stateful_pointer<supervisor_state> self,
           supervisor_options options, link_actor manager_link,
           link_actor worker_link, std::shared_ptr<spawner> children,
           supervisor_watcher watcher);

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::supervisor_options)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<vgpu::spawner>)
