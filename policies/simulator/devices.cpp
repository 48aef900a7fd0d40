#include "policies/simulator/devices.hpp"

#include <algorithm>
#include <utility>

namespace vgpu::simulator {

namespace {

/// Gives the largest load that counts as no overload, because sums of loads are
/// inexact.
constexpr double can_give = 1 + 1e-9;

} // namespace

shared_devices::shared_devices(std::size_t pgpus, policy::share_policy how,
                               listener changed)
    : how_(how), changed_(std::move(changed)), pgpus_(pgpus) {}

std::size_t shared_devices::seat_of(const device& x, std::uint32_t user) {
  return static_cast<std::size_t>(
      std::find(x.numbers.begin(), x.numbers.end(), user) - x.numbers.begin());
}

void shared_devices::add(std::uint32_t pgpu, std::uint32_t user,
                         const policy::share_claim& claim) {
  auto& to = pgpus_[pgpu];
  to.numbers.push_back(user);
  to.users.push_back({claim, 0});
  settle(to);
}

void shared_devices::remove(std::uint32_t pgpu, std::uint32_t user) {
  auto& from = pgpus_[pgpu];
  auto i = static_cast<std::ptrdiff_t>(seat_of(from, user));
  from.numbers.erase(from.numbers.begin() + i);
  from.users.erase(from.users.begin() + i);
  settle(from);
}

void shared_devices::want(std::uint32_t pgpu, std::uint32_t user,
                          double wants) {
  auto& at = pgpus_[pgpu];
  at.users[seat_of(at, user)].wants = wants;
  settle(at);
}

double shared_devices::granted(std::uint32_t pgpu, std::uint32_t user) const {
  const auto& at = pgpus_[pgpu];
  auto i = seat_of(at, user);
  return i < at.grants.size() ? at.grants[i] : 0;
}

void shared_devices::settle(device& x) {
  x.grants = policy::grants_of(how_, x.users);
  overloaded_ -= x.wanted > can_give ? 1 : 0;
  auto was_busy = std::exchange(x.busy, 0);
  x.wanted = 0;
  for (std::size_t i = 0; i < x.users.size(); ++i) {
    x.wanted += x.users[i].wants;
    x.busy += x.grants[i];
  }
  overloaded_ += x.wanted > can_give ? 1 : 0;
  busy_ += x.busy - was_busy;
  for (auto user : x.numbers)
    changed_(user);
}

} // namespace vgpu::simulator
