// The ticket of a sealed port, between the port's owner and the guard of its
// context.
#pragma once

#include "actors/link/seal/frame_seal.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace vgpu {

/// Keeps the one ticket that opens a connection to a sealed port. A ticket
/// crosses that port's network in the clear when it is used, so it is good for
/// one connection. Thread-safe.
class sealed_tickets {
public:
  /// Permits one connection with this ticket, and none with a former one.
  /// Returns its number.
  std::uint64_t permit(const seal_ticket& ticket);

  /// Uses the ticket up. Returns its number, or nullopt where it is not
  /// permitted or was used.
  std::optional<std::uint64_t> use(std::string_view shown);

private:
  std::mutex mutex_;
  std::string ticket_; // empty: none
  std::uint64_t number_ = 0;
};

/// Returns the name that ZeroMQ gives to who used the ticket of this number. It
/// is the name of no key.
std::string ticket_holder(std::uint64_t number);
/// Returns whether it is such a name.
bool is_ticket_holder(std::string_view name) noexcept;

} // namespace vgpu
