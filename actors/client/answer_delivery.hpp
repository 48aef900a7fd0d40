// Writes the answers of a forwarded worker into the program's memory.
#pragma once

#include "actors/client/opened_session.hpp"
#include "actors/link/data_head.hpp"
#include "schema/log/session_area.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace vgpu {

/// Writes the answers of a forwarded worker to where the program waits for
/// them: its reply slots, reply arena, pinned memory and consoles.
///
/// It checks everything in an answer against the session's areas, so a worker
/// cannot write anywhere else. It drops answers for which the program does not
/// wait any more, so a replay answers no call twice. It changes the session's
/// memory only, and belongs to the session_client's thread.
class answer_delivery {
public:
  /// `opened` must outlive the object.
  explicit answer_delivery(const opened_session& opened) : opened_(opened) {}

  /// Returns true where the answer ended a call in a reply slot.
  bool deliver(const data::answer& x, std::span<const std::byte> payload);

private:
  bool place(const data::answer& x, std::span<const std::byte> payload);
  bool place_in_arena(const data::answer& x,
                      std::span<const std::byte> payload);
  bool place_in_host(const data::answer& x, std::span<const std::byte> payload);
  void merge_zero_copy(std::span<const std::byte> payload);
  bool is_awaited(call_number call);
  bool view_host();
  void write_host(std::uint64_t offset, std::span<const std::byte> bytes);

  const opened_session& opened_;
  slot_index awaited_in_ = 1; // slot of the last partial answer
  // Are mapped when first needed, and are empty where there are no addresses.
  std::optional<mapping> host_view_;
  std::optional<mapping> host_known_;
};

} // namespace vgpu
