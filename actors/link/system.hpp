#pragma once

#include <caf/all.hpp>

#include <cstddef>

namespace vgpu {

/// How every process of ours runs its actors: work shared among a few threads
/// that sleep when there is none (CAF's default polls).
class system_config : public caf::actor_system_config {
public:
  explicit system_config(std::size_t threads = 2) {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", threads);
    set("logger.verbosity", caf::atom("quiet"));
  }
};

} // namespace vgpu
