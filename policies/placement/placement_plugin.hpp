// A placement policy of your own, as a shared object. Everything that one needs
// is here and in views.hpp:
//
//   #include "policies/placement/placement_plugin.hpp"
//
//   struct first_fit : vgpu::policy::placement_policy {
//     std::optional<vgpu::policy::place>
//     choose(const vgpu::policy::cluster_view& cluster,
//            const vgpu::policy::demand& what) override;
//   };
//   VGPU_PLACEMENT_POLICY(first_fit)
//
//   c++ -std=c++20 -shared -fPIC -I SOURCE first_fit.cpp -o libfirst_fit.so
//   vgpu-manager --placement-policy ./libfirst_fit.so
//   vgpu simulate --generate --placement least-loaded,./libfirst_fit.so
//
// examples/placement is a complete one.
#pragma once

#include "policies/placement/views.hpp"

#include <optional>

namespace vgpu::policy {

/// Grows whenever this header or what it includes changes its meaning or its
/// layout. An object of another version is refused when it is loaded.
inline constexpr unsigned placement_interface = 2;

/// Decides where a vGPU runs. Made once, called by one thread, by who holds the
/// view for the length of the call: keep copies, not references.
class placement_policy {
public:
  placement_policy() = default;
  placement_policy(const placement_policy&) = delete;
  placement_policy& operator=(const placement_policy&) = delete;
  virtual ~placement_policy() = default;

  /// The place for `what`, or nothing where it is to wait; it is asked again
  /// when something changes. A place is `what.gpus` different pGPUs of one node
  /// that is alive, each healthy and with `what.memory` bytes free
  /// (`memory - reserved`), and meets the constraints that must be met. An
  /// answer that is none of these is not used: the vGPU waits, and is told why.
  /// So it does after an exception, with its text.
  virtual std::optional<place> choose(const cluster_view& cluster,
                                      const demand& what) = 0;
};

} // namespace vgpu::policy

/// Once in each shared object.
#define VGPU_PLACEMENT_POLICY(type)                                            \
  extern "C" {                                                                 \
  extern const unsigned vgpu_placement_interface;                              \
  const unsigned vgpu_placement_interface =                                    \
      ::vgpu::policy::placement_interface;                                     \
  ::vgpu::policy::placement_policy* vgpu_make_placement_policy() {             \
    return new type; /* NOLINT(bugprone-macro-parentheses): a type */          \
  }                                                                            \
  }
