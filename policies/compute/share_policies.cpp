#include "policies/compute/share_policies.hpp"

namespace vgpu::policy {

std::optional<share_policy> parse_share_policy(std::string_view name) {
  for (auto i = 0u; i < share_policies.size(); ++i)
    if (share_policies[i].name == name)
      return static_cast<share_policy>(i);
  return {};
}

std::string list_share_policies() {
  std::string out;
  for (auto i = 0u; i < share_policies.size(); ++i) {
    if (i != 0)
      out += i + 1 == share_policies.size() ? " or " : ", ";
    out += share_policies[i].name;
  }
  return out;
}

} // namespace vgpu::policy
