#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vgpu {

/// A program to run as a child.
struct child_spec {
  std::vector<std::string> argv; // argv[0]: the path of the program
  std::string input;             // all that it reads from stdin
  bool input_later = false;      // it comes with feed()
  /// Descriptors that it has under the same numbers as this process, and what
  /// keeps them open until then.
  std::vector<int> descriptors;
  std::shared_ptr<const void> keeps;
  /// Every such child has its memory in the same places, and not in those where
  /// other programs have theirs. Where the host does not allow it, it is as
  /// any.
  bool same_addresses = false;
};

/// A child began, or could not.
struct child_started {
  std::uint64_t tag = 0;
  std::uint32_t pid = 0;
  std::string failure; // not empty: why there is no child
};

struct child_exited {
  std::uint64_t tag = 0;
  std::string how;    // "exit 0", "signal 9"
  bool clean = false; // exit 0
};

/// Hears what becomes of children: the node's supervisor.
using child_listener = caf::typed_actor<
    // A child runs, or could not be started. The spawner sends it.
    caf::reacts_to<child_started>,
    // A child ended. The spawner sends it.
    caf::reacts_to<child_exited>>;

/// Runs children. Both calls return at once and may come from any thread; what
/// came of a start is told to `listener` as child_started and then, once,
/// child_exited. Tags are the caller's, and are never reused.
class spawner {
public:
  virtual ~spawner() = default;
  virtual void start(std::uint64_t tag, child_spec what,
                     child_listener listener) = 0;
  /// All that a child reads from stdin whose input was to come later. Once.
  virtual void feed(std::uint64_t tag, std::string input) = 0;
  /// Nothing happens when the child is gone already.
  virtual void signal(std::uint64_t tag, int number) = 0;
};

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::child_started)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::child_exited)
