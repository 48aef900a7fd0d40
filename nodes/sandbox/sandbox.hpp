// The rights that a worker's process gives up.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Lists the parts of a sandbox that a process has, and those that its host
/// does not give, each with the reason.
class sandbox_report {
public:
  void has(std::string part);
  void lacks(const std::string& part, const std::string& why);
  /// Returns whether the process has this part.
  bool gives(const std::string& part) const;
  /// Adds the parts of a report that write() returned.
  void read(const std::string& written);
  /// Returns the report with one part a line, for another process.
  std::string write() const;

  /// Returns one line, such as
  /// `no-new-privs, seccomp; not: files (the kernel has no Landlock)`.
  std::string text() const;

private:
  std::vector<std::string> has_;
  std::vector<std::string> lacks_;
};

/// Says what a worker needs in spite of its sandbox.
struct sandbox_needs {
  /// Tells whether the process loads NVIDIA's driver. The driver's needs are
  /// not documented, so its worker keeps more than that of a cpu device.
  bool nvidia = false;
  /// Tells whether the worker accepts calls at a TCP port.
  bool tcp_port = false;
  /// Holds the folder in which the worker makes its socket; empty: none.
  std::string socket_folder;
  /// Tells whether the node connects the worker to others, so that it needs no
  /// abstract socket of another process.
  bool connected_by_node = false;
};

/// Gives up privileges, core dumps, resources, and files. Call it before the
/// process has another thread, because several of these belong to a thread and
/// its later children. A part that the host does not give is reported and
/// left out.
void enter_sandbox(const sandbox_needs& needs, sandbox_report& report);

/// Gives up system calls, in all threads. Call it when the devices are open,
/// the sockets are bound and the link to the node is up, because none of these
/// can be opened after it. The code that a session brings runs later.
void seal_sandbox(const sandbox_needs& needs, sandbox_report& report);

/// Returns what a worker with these needs gets on this host: a child of this
/// process enters the sandbox and reports. Call it before the process has
/// another thread.
sandbox_report try_sandbox(const sandbox_needs& needs);

} // namespace vgpu
