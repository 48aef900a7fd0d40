#include "policies/compute/share_seating.hpp"

#include <algorithm>

namespace vgpu::policy {

std::int32_t share_seating::sit(const share_claim& claim, share_ns now) {
  for (auto i = std::int32_t{0}; i < std::int32_t{most_seats}; ++i) {
    auto& x = accounts_.at(i);
    if (x.taken != 0)
      continue;
    x = {};
    x.taken = 1;
    table_.seated = std::max(table_.seated, static_cast<std::uint32_t>(i) + 1);
    x.claim = claim;
    // A new session must not start from the virtual time of a saturated one.
    x.virtual_time =
        table_.rules.processors == 0
            ? std::max(table_.virtual_now, accounts_.average_of_active())
            : table_.virtual_now;
    x.credit = accounts_.most_kept();
    x.credited_at = now;
    accounts_.reweigh();
    concurrent_.part_anew();
    return i;
  }
  return share_table::nobody;
}

void share_seating::stand(std::int32_t seat) {
  turns_.leave(seat);
  threads_.leave(seat);
  accounts_.at(seat) = {};
  while (table_.seated != 0 && table_.seats[table_.seated - 1].taken == 0)
    --table_.seated;
  accounts_.reweigh();
  concurrent_.part_anew();
}

void share_seating::set_claim(std::int32_t seat, const share_claim& claim,
                              share_ns now) {
  auto& x = accounts_.at(seat);
  accounts_.refill(x, now);
  x.claim = claim;
  accounts_.reweigh();
  concurrent_.part_anew();
}

void share_seating::settle(share_ns now) {
  for (auto& x : accounts_.seated())
    accounts_.refill(x, now);
}

void share_seating::begin_anew() {
  accounts_.reweigh();
  concurrent_.part_anew();
  for (auto& x : accounts_.seated()) {
    x.virtual_time = table_.virtual_now;
    x.credit = std::clamp(x.credit, 0.0, accounts_.most_kept());
  }
}

bool share_seating::contested() const {
  if (!policy_.schedules)
    return false;
  auto taken = 0;
  auto capped = false;
  for (const auto& x : accounts_.seated())
    if (x.taken != 0) {
      ++taken;
      capped = capped || accounts_.cap_of(x) < 1;
    }
  return taken > 1 || capped;
}

} // namespace vgpu::policy
