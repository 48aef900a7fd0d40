#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vgpu {

/// Describes a program to run as a child.
struct child_spec {
  std::vector<std::string> argv; // argv[0]: the path of the program
  std::string input;             // all of its stdin
  bool input_later = false;      // feed() gives the input later
  /// Holds descriptors that the child gets under the same numbers. `keeps`
  /// keeps them open until then.
  std::vector<int> descriptors;
  std::shared_ptr<const void> keeps;
  /// Gives all such children the same memory layout, which differs from that of
  /// other programs. Where the host does not allow it, the child is like any
  /// other.
  bool same_addresses = false;
  /// Holds the quotas of its session on all devices together, in bytes, from
  /// which the limit of its host memory follows; 0: no limit.
  std::uint64_t quota = 0;
};

/// Reports that a child began, or could not.
struct child_started {
  std::uint64_t tag = 0;
  std::uint32_t pid = 0;
  std::string failure; // empty: it began
};

struct child_exited {
  std::uint64_t tag = 0;
  std::string how;    // "exit 0", "signal 9"
  bool clean = false; // exit 0
};

/// Receives reports on children: the node's supervisor.
using child_listener = caf::typed_actor<
    // A child runs, or could not be started. The spawner sends it.
    caf::reacts_to<child_started>,
    // A child ended. The spawner sends it.
    caf::reacts_to<child_exited>>;

/// Runs children. All calls return at once and may come from any thread. The
/// spawner sends `listener` the outcome as child_started and then, once,
/// child_exited. The caller chooses the tags, and never reuses one.
class spawner {
public:
  virtual ~spawner() = default;
  virtual void start(std::uint64_t tag, child_spec what,
                     child_listener listener) = 0;
  /// Gives a child its whole stdin, if it was to come later. Call it once.
  virtual void feed(std::uint64_t tag, std::string input) = 0;
  /// Changes the quota of a child. The default does nothing.
  virtual void resize(std::uint64_t /*tag*/, std::uint64_t /*quota*/) {}
  /// Does nothing when the child is gone already.
  virtual void signal(std::uint64_t tag, int number) = 0;
};

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::child_started)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::child_exited)
