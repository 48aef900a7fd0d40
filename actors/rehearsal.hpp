// Trying beforehand whether a session's next worker would get variables where
// this one has them (executor_rehearsal.cpp says why).
#pragma once

#include "schema/fault.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace vgpu {

/// One that is under way, in another process; it ends with this.
class rehearsal {
public:
  rehearsal() = default;
  rehearsal(const rehearsal&) = delete;
  rehearsal& operator=(const rehearsal&) = delete;
  virtual ~rehearsal() = default;

  /// Nothing while it goes on. Of the thread that began it.
  virtual std::optional<status> outcome() = 0;
};

/// Begins one: a process like the next worker calls executor::rehearse with
/// this file. `ring` is called, from any thread, when there is an outcome.
using begin_rehearsal = std::function<result<std::unique_ptr<rehearsal>>(
    int file, std::function<void()> ring)>;

} // namespace vgpu
