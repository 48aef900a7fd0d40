#include "policies/compute/share_copy.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::policy {

namespace {

/// Makes the compiler read shared memory once.
void read_once() noexcept {
  asm volatile("" ::: "memory");
}

/// Copies the part of a table from one member to another. It is plain data.
void copy_between(share_table& to, const share_table& from, const void* begin,
                  const void* end) {
  auto at =
      static_cast<const char*>(begin) - reinterpret_cast<const char*>(&from);
  std::memcpy(reinterpret_cast<char*>(&to) + at, begin,
              static_cast<std::size_t>(static_cast<const char*>(end) -
                                       static_cast<const char*>(begin)));
}

/// Copies all but the seats.
void copy_rest(share_table& to, const share_table& from) {
  copy_between(to, from, &from, &from.seats);
  copy_between(to, from, &from.seated, &from + 1);
}

void repair_policy(share_rules& rules) {
  std::uint32_t number = 0;
  std::memcpy(&number, &rules.policy, sizeof(number));
  if (number <= static_cast<std::uint32_t>(share_policy::priority))
    return;
  const auto usual = share_rules{}.policy;
  std::memcpy(&rules.policy, &usual, sizeof(usual));
}

} // namespace

share_table& share_copy::take(const share_table& shared) {
  copy_rest(own_, shared);
  read_once();
  own_.seated = std::min(own_.seated, static_cast<std::uint32_t>(most_seats));
  own_.turns.repair_numbers();
  own_.concurrent.repair_numbers();
  own_.rules.repair_numbers();
  repair(own_.virtual_now);
  repair_policy(own_.rules);
  std::copy_n(shared.seats.begin(), own_.seated, own_.seats.begin());
  read_once();
  for (std::uint32_t i = 0; i < own_.seated; ++i)
    own_.seats[i].repair_numbers();
  for (auto i = own_.seated; i < seated_; ++i)
    own_.seats[i] = {};
  seated_ = own_.seated;
  return own_;
}

void share_copy::give(share_table& shared) {
  seated_ = std::max(
      seated_, std::min(own_.seated, static_cast<std::uint32_t>(most_seats)));
  std::copy_n(own_.seats.begin(), seated_, shared.seats.begin());
  copy_rest(shared, own_);
}

} // namespace vgpu::policy
