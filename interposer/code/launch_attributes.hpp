// The attributes of a launch or a kernel node: which there are, which values
// they may have, and who serves them.
#pragma once

#include "schema/base/launch_hint.hpp"
#include "schema/catalogue/calls.hpp"

#include <cuda.h>

#include <cstdint>
#include <map>
#include <vector>

namespace vgpu::interposer {

/// Describes the shape of a launch: its grid, blocks, clusters and shared
/// memory.
struct launch_shape {
  call::dim3 grid{};
  call::dim3 block{};
  // 0 where the launch asks for no clusters
  call::dim3 cluster{0, 0, 0};
  std::uint32_t shared_bytes = 0;
  bool cooperative = false;
};

/// Says what attributes are for, because not each is valid everywhere.
enum class attribute_use : std::uint8_t {
  launch,   ///< a launch that runs now
  captured, ///< a launch that becomes a kernel node
  node,     ///< a kernel node
};

/// An event that a launch records. The event is recorded after the kernel,
/// which CUDA allows (cuda.h, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT).
struct launch_event {
  CUevent event = nullptr;
  /// Says on which of a kernel node's ports others may wait for it.
  unsigned char port = 0;
};

/// Holds the attributes of one launch or node that do not concern its shape.
class launch_attributes {
public:
  /// Takes a launch's attributes. Those of the shape go to `shape`. Returns
  /// CUDA_ERROR_INVALID_VALUE for an attribute that does not exist or is not
  /// valid here, and for a value out of its range, and CUDA_ERROR_NOT_SUPPORTED
  /// for a node that kernels update.
  CUresult take(attribute_use use, std::uint8_t device,
                const CUlaunchConfig& config, launch_shape& shape);
  /// Sets one attribute, as take() does.
  CUresult set(attribute_use use, std::uint8_t device, int which,
               const CUlaunchAttributeValue& value, launch_shape& shape);
  /// Gets a kernel node's attribute. Returns CUDA_ERROR_INVALID_VALUE for one
  /// that nodes do not have.
  CUresult get(int which, const launch_shape& shape,
               CUlaunchAttributeValue& out) const;

  /// Sets the attributes that a captured launch has from its stream, where the
  /// launch does not set them itself.
  void inherit(int which, const CUlaunchAttributeValue& value);

  void drop(int which) { kept_.erase(which); }

  /// Returns what a kernel node keeps of a captured launch.
  launch_attributes of_node() const;

  bool empty() const noexcept { return kept_.empty() && events_.empty(); }
  const std::vector<launch_event>& events() const noexcept { return events_; }
  /// Tells whether the kernel may begin before the previous one has ended.
  bool overlaps() const noexcept;
  int priority() const noexcept;

  /// Returns what goes to this device with each launch.
  std::vector<launch_hint> hints(std::uint8_t device) const;

private:
  std::map<int, CUlaunchAttributeValue> kept_;
  std::vector<launch_event> events_;
};

} // namespace vgpu::interposer
