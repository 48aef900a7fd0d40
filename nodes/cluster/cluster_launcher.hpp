// Starts and ends the processes of a cluster on this host.
#pragma once

#include "nodes/support/overcommit_option.hpp"
#include "schema/base/fault.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vgpu {

/// Describes the shape of a cluster and the options of its daemons.
struct cluster_options {
  std::string run_dir;
  /// Their names are a, b, c, ...
  unsigned nodes = 1;
  unsigned gpus_per_node = 1;
  std::string device = "auto";
  /// Holds the memory of each cpu pGPU.
  std::string memory = "4GiB";
  /// Holds the compute capability of each cpu pGPU.
  std::string capability = "9.0";
  /// Holds the manager's endpoint. Empty: manager.sock in the run directory.
  std::string listen;
  /// Holds the value of vgpu-node's --bind.
  std::string bind = "ipc";
  /// Says that manager and workers may listen on a network without keys.
  bool insecure_network = false;
  /// Holds the value of vgpu-manager's --lost-after. 0: its default.
  std::uint32_t lost_after_ms = 0;
  /// Holds the value of vgpu-manager's --client-grace. 0: its default.
  std::uint32_t client_grace_ms = 0;
  /// Holds the folder with vgpu-manager and vgpu-node. Empty: this program's
  /// folder.
  std::string programs;
  /// Holds the idle time after which the cluster ends by itself. 0: it does
  /// not.
  std::uint32_t end_when_idle_ms = 0;
  /// Holds another worker program, for tests.
  std::string worker;
  /// Holds the value of vgpu-manager's --balance. Empty: its default.
  std::string balance;
  /// Holds the values of vgpu-manager's --overcommit and --swap-part.
  overcommit promises;
  /// Holds the value of vgpu-manager's --placement-policy.
  std::string placement;
};

/// Describes a started process. `birth` distinguishes it from a later process
/// with the same number.
struct process_record {
  /// Is `manager` or a node's name.
  std::string name;
  int pid = 0;
  std::uint64_t birth = 0;
  std::vector<std::string> argv;
};

/// Describes the processes of a cluster on this host.
struct cluster_record {
  std::string run_dir;
  std::string endpoint;
  bool made_run_dir = false;
  process_record manager;
  std::vector<process_record> nodes;
};

/// Says how the processes depend on the caller.
struct launch_ties {
  /// Holds the read end of a pipe, or -1. Its end of file makes the processes
  /// end.
  int owner_fd = -1;
  /// The processes log to the caller's stderr instead of RUN_DIR/NAME.log.
  bool inherit_stderr = false;
  /// The nodes end when the manager ends for whatever reason.
  bool nodes_follow_manager = false;
  /// The cluster ignores CUDA_VISIBLE_DEVICES, because it is meant for a
  /// program on the cluster.
  bool all_devices = false;
  /// The last process to end removes the run directory.
  bool remove_run_dir = false;
};

/// Starts a manager and its nodes, each in a session of its own (setsid(2)),
/// and returns when all nodes are registered. When a process cannot start, it
/// ends the others, and the reason has the last lines of the process's log.
/// Thread-safe.
result<cluster_record> launch_cluster(const cluster_options& options,
                                      const launch_ties& ties);

/// Calls launch_cluster() for `vgpu up`. It records the cluster in
/// RUN_DIR/cluster.json, and refuses while a cluster is up there.
result<cluster_record> cluster_up(const cluster_options& options);

/// Returns the record that cluster_up() wrote, or why there is none.
result<cluster_record> read_record(const std::string& run_dir);
/// Writes the record into its run directory.
status write_record(const cluster_record& x);

/// Ends every process of the record, with SIGTERM first and SIGKILL later, and
/// waits for it.
void end_processes(const cluster_record& x);

/// Removes the files of a cluster from its run directory, and also the
/// directory if it was made for the cluster.
void clean_run_dir(const cluster_record& x);

/// Starts the record's manager again.
status relaunch_manager(cluster_record& x);

/// Returns whether exactly this process is running.
bool is_running(const process_record& x);

/// Kills the process and waits until it is gone. Returns false when it was gone
/// before.
bool kill_process(const process_record& x);

/// Returns the record of a running process. Its birth is 0 when there is none.
process_record process_of(int pid, const std::string& name);

} // namespace vgpu
