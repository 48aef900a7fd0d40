// A link that renews its key when its manager asks for that.
#pragma once

#include "actors/link/curve_keys.hpp"
#include "actors/link/managers/renewing_link_actor.hpp"
#include "schema/base/fault.hpp"

#include <caf/all.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// Keeps the keys of who joined a cluster, beyond the process's life. Other
/// processes may have the same ones, and renew them at the same time.
class key_renewal {
public:
  key_renewal() = default;
  key_renewal(const key_renewal&) = delete;
  key_renewal& operator=(const key_renewal&) = delete;
  virtual ~key_renewal() = default;

  /// Returns the keys for a rotation. They are kept before this returns, and
  /// are the same ones when it is called again.
  virtual result<std::shared_ptr<const link_keys>>
  begin(const control::rotate_key& order) = 0;

  /// Makes the key of begin() with this public half the only one, because the
  /// manager admits it.
  virtual status finish(const std::string& open) = 0;
};

/// Describes the state of the actor renewing_link().
struct renewing_link_state {
  renewing_link_state() = default;

  static constexpr const char* name = "vgpu.renewing_link";
  link_actor link;
  control_consumer consumer;
  std::shared_ptr<key_renewal> kept;
  /// Is the manager's order, from its arrival until it is answered.
  std::optional<control::rotate_key> order;
  /// Holds the keys that the manager is asked to permit.
  std::shared_ptr<const link_keys> next;
  std::uint64_t request = 0;
};

/// Stands between a link that connects and its consumer, and passes everything
/// on. It takes control::rotate_key: makes another key, has the manager permit
/// it, gives it to the link (link_rekey), and keeps it once the link has
/// connected with it. It reports link_event::kind::rekeyed after that. A
/// process that dies in between continues at its next start.
renewing_link_actor::behavior_type
renewing_link(renewing_link_actor::stateful_pointer<renewing_link_state> self,
              link_actor link, std::shared_ptr<key_renewal> kept,
              std::shared_ptr<const link_keys> next);

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<vgpu::key_renewal>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<const vgpu::link_keys>)
