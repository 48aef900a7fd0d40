// Starts and ends the processes of a cluster on this host.
#pragma once

#include "nodes/support/overcommit_option.hpp"
#include "schema/base/fault.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vgpu {

struct cluster_options {
  std::string run_dir;
  unsigned nodes = 1; // named a, b, c, ...
  unsigned gpus_per_node = 1;
  std::string device = "auto";
  std::string memory = "4GiB";       // of each cpu pGPU
  std::string capability = "9.0";    // likewise
  std::string listen;                // empty: manager.sock in the run directory
  std::string bind = "ipc";          // vgpu-node's --bind
  std::uint32_t lost_after_ms = 0;   // 0: the manager's default
  std::uint32_t client_grace_ms = 0; // 0: the manager's default
  /// The folder with vgpu-manager and vgpu-node; empty: this program's.
  std::string programs;
  std::uint32_t end_when_idle_ms = 0; // 0: it does not end by itself
  std::string worker;                 // another worker program, for tests
  std::string balance;   // vgpu-manager's --balance; empty: its default
  overcommit promises;   // its --overcommit and --swap-part
  std::string placement; // and its --placement-policy
};

/// A process that was started. `birth` tells it from a later one that got the
/// same number.
struct process_record {
  std::string name; // `manager` or a node's name
  int pid = 0;
  std::uint64_t birth = 0;
  std::vector<std::string> argv;
};

struct cluster_record {
  std::string run_dir;
  std::string endpoint;
  bool made_run_dir = false;
  process_record manager;
  std::vector<process_record> nodes;
};

/// How the processes are tied to the caller.
struct launch_ties {
  /// Read end of a pipe, or -1: its end of file tells them to end.
  int owner_fd = -1;
  /// They log to the caller's stderr rather than to RUN_DIR/NAME.log.
  bool inherit_stderr = false;
  /// The nodes end when the manager does, however it ends.
  bool nodes_follow_manager = false;
  /// CUDA_VISIBLE_DEVICES is meant for a program that is to run on the cluster,
  /// not for the cluster.
  bool all_devices = false;
  /// The last of them to end removes the run directory.
  bool remove_run_dir = false;
};

/// Starts a manager and its nodes, each in a session of its own, and returns
/// when all nodes are registered. When one cannot start, those that did are
/// ended again, and the reason has the last lines of its log. Callable from
/// any thread.
result<cluster_record> launch_cluster(const cluster_options& options,
                                      const launch_ties& ties);

/// launch_cluster() for `vgpu up`: notes the cluster in RUN_DIR/cluster.json,
/// and refuses when one is up there.
result<cluster_record> cluster_up(const cluster_options& options);

/// What cluster_up() noted, or why there is nothing.
result<cluster_record> read_record(const std::string& run_dir);
status write_record(const cluster_record& x);

/// Ends everything that the record names, SIGTERM first, then SIGKILL, and
/// waits for it.
void end_processes(const cluster_record& x);

/// Removes what a cluster leaves in its run directory, and the directory
/// itself if it was made for it.
void clean_run_dir(const cluster_record& x);

/// Starts the record's manager again.
status relaunch_manager(cluster_record& x);

/// Whether that very process runs.
bool is_running(const process_record& x);

/// Kills it and waits until it is gone; false when it was gone before.
bool kill_process(const process_record& x);

/// The record of a process that runs now; birth 0 when there is none.
process_record process_of(int pid, const std::string& name);

} // namespace vgpu
