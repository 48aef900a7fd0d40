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

/// Gives the version of this interface. It grows whenever this header or one
/// that it includes changes its meaning or its layout. A plug-in of another
/// version is refused when it is loaded.
inline constexpr unsigned placement_interface = 2;

/// Decides where a vGPU runs. One object is made, and one thread calls it. The
/// view exists only for the length of a call, so keep copies and no references.
class placement_policy {
public:
  placement_policy() = default;
  placement_policy(const placement_policy&) = delete;
  placement_policy& operator=(const placement_policy&) = delete;
  virtual ~placement_policy() = default;

  /// Returns the place for `what`, or nothing to let it wait; it is called
  /// again when something changes. A place is `what.gpus` different pGPUs of
  /// one node that is alive. Each must be healthy, have `what.memory` bytes
  /// free (`memory - reserved`) and meet the constraints. Any other answer is
  /// ignored: the vGPU waits, and its status says why. After an exception it
  /// waits too, with the exception's text.
  virtual std::optional<place> choose(const cluster_view& cluster,
                                      const demand& what) = 0;
};

} // namespace vgpu::policy

/// Defines the entry points. Use it once in each shared object.
#define VGPU_PLACEMENT_POLICY(type)                                            \
  extern "C" {                                                                 \
  extern const unsigned vgpu_placement_interface;                              \
  const unsigned vgpu_placement_interface =                                    \
      ::vgpu::policy::placement_interface;                                     \
  ::vgpu::policy::placement_policy* vgpu_make_placement_policy() {             \
    return new type; /* NOLINT(bugprone-macro-parentheses): a type */          \
  }                                                                            \
  }
