// pGPUs whose time flows to those who use them.
#pragma once

#include "policies/compute/share_grants.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace vgpu::simulator {

/// Compute as a fluid: at each moment every user of a pGPU gets what its share
/// policy would give it in the long run (policy::grants_of()). Users and pGPUs
/// are numbers.
class shared_devices {
public:
  /// Called with a user whose grants may have changed.
  using listener = std::function<void(std::uint32_t user)>;

  shared_devices(std::size_t pgpus, policy::share_policy how, listener changed);

  void add(std::uint32_t pgpu, std::uint32_t user,
           const policy::share_claim& claim);
  void remove(std::uint32_t pgpu, std::uint32_t user);
  /// What it would use alone, in [0, 1].
  void want(std::uint32_t pgpu, std::uint32_t user, double wants);

  /// What it gets of the pGPU now.
  double granted(std::uint32_t pgpu, std::uint32_t user) const;
  /// What all get of all pGPUs.
  double busy() const noexcept { return busy_; }
  /// What all want of this one; above 1, somebody is slowed down.
  double wanted(std::uint32_t pgpu) const { return pgpus_[pgpu].wanted; }
  std::size_t users(std::uint32_t pgpu) const {
    return pgpus_[pgpu].users.size();
  }
  /// How many pGPUs are wanted more than they can give.
  std::size_t overloaded() const noexcept { return overloaded_; }

private:
  struct device {
    std::vector<std::uint32_t> numbers;    // of its users
    std::vector<policy::share_user> users; // in the same order
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
