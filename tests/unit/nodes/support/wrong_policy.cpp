// Shared objects that are not placement policies. WRONG selects the fault.
#include "policies/placement/placement_plugin.hpp"

#include <stdexcept>

#if WRONG == 1 // for another version of the interface
extern "C" {
extern const unsigned vgpu_placement_interface;
const unsigned vgpu_placement_interface = vgpu::policy::placement_interface + 1;
vgpu::policy::placement_policy* vgpu_make_placement_policy() {
  return nullptr;
}
}
#elif WRONG == 2 // without a constructor
extern "C" {
extern const unsigned vgpu_placement_interface;
const unsigned vgpu_placement_interface = vgpu::policy::placement_interface;
}
#elif WRONG == 3 // with a constructor that fails
struct failing : vgpu::policy::placement_policy {
  failing() { throw std::runtime_error{"no licence"}; }
  std::optional<vgpu::policy::place>
  choose(const vgpu::policy::cluster_view&,
         const vgpu::policy::demand&) override {
    return std::nullopt;
  }
};
VGPU_PLACEMENT_POLICY(failing)
#else            // without any of the symbols
extern "C" int nothing_of_ours() {
  return 0;
}
#endif
