// pGPUs whose time is divided among their users.
#pragma once

#include "policies/compute/share_grants.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace vgpu::simulator {

/// Models compute as a fluid: at each moment every user of a pGPU gets what the
/// share policy would give it in the long run (policy::grants_of()). Users and
/// pGPUs are numbers.
class shared_devices {
public:
  /// Called with each user whose grants may have changed.
  using listener = std::function<void(std::uint32_t user)>;

  shared_devices(std::size_t pgpus, policy::share_policy how, listener changed);

  /// Adds a user to a pGPU, with its claim.
  void add(std::uint32_t pgpu, std::uint32_t user,
           const policy::share_claim& claim);
  /// Removes a user from a pGPU.
  void remove(std::uint32_t pgpu, std::uint32_t user);
  /// Sets the load that the user would have alone, in [0, 1].
  void want(std::uint32_t pgpu, std::uint32_t user, double wants);

  /// Returns the part of the pGPU that the user gets now.
  double granted(std::uint32_t pgpu, std::uint32_t user) const;
  /// Returns the sum of all grants of all pGPUs.
  double busy() const noexcept { return busy_; }
  /// Returns the sum of the loads on this pGPU. Above 1, some user is slowed
  /// down.
  double wanted(std::uint32_t pgpu) const { return pgpus_[pgpu].wanted; }
  std::size_t users(std::uint32_t pgpu) const {
    return pgpus_[pgpu].users.size();
  }
  /// Returns the number of pGPUs whose load is above 1.
  std::size_t overloaded() const noexcept { return overloaded_; }

private:
  struct device {
    /// Holds the users' numbers.
    std::vector<std::uint32_t> numbers;
    /// Holds the users in the same order.
    std::vector<policy::share_user> users;
    std::vector<double> grants;
    double wanted = 0;
    double busy = 0;
  };

  static std::size_t seat_of(const device& x, std::uint32_t user);
  void settle(device& x);

  policy::share_policy how_;
  listener changed_;
  std::vector<device> pgpus_;
  double busy_ = 0;
  std::size_t overloaded_ = 0;
};

} // namespace vgpu::simulator
