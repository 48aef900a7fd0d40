#pragma once

#include <caf/all.hpp>

#include <cstddef>

namespace vgpu {

/// Configures each process's actor system. A few threads share the work, and
/// sleep when there is none, where CAF's default scheduler polls.
class system_config : public caf::actor_system_config {
public:
  explicit system_config(std::size_t threads = 2) {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", threads);
    set("logger.verbosity", caf::atom("quiet"));
  }
};

} // namespace vgpu
