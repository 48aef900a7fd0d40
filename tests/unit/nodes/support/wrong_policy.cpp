// Shared objects that are no placement policy; WRONG says in which way.
#include "policies/placement/placement_plugin.hpp"

#include <stdexcept>

#if WRONG == 1 // of another release
extern "C" {
extern const unsigned vgpu_placement_interface;
const unsigned vgpu_placement_interface = vgpu::policy::placement_interface + 1;
vgpu::policy::placement_policy* vgpu_make_placement_policy() {
  return nullptr;
}
}
#elif WRONG == 2 // half of it
extern "C" {
extern const unsigned vgpu_placement_interface;
const unsigned vgpu_placement_interface = vgpu::policy::placement_interface;
}
#elif WRONG == 3 // it fails
struct failing : vgpu::policy::placement_policy {
  failing() { throw std::runtime_error{"no licence"}; }
  std::optional<vgpu::policy::place>
  choose(const vgpu::policy::cluster_view&,
         const vgpu::policy::demand&) override {
    return std::nullopt;
  }
};
VGPU_PLACEMENT_POLICY(failing)
#else            // something else altogether
extern "C" int nothing_of_ours() {
  return 0;
}
#endif
