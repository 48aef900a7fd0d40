// Who has been idle for so long that others may have its place.
#pragma once

#include "policies/simulator/scene.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace vgpu::simulator {

/// Idle vGPUs that may be suspended, a few at a time.
class idle_guests {
public:
  explicit idle_guests(const scene& all) : scene_(all) {}

  /// It is idle, and may be suspended if it has been for long enough.
  void note(std::uint32_t i);
  /// It may not be any more.
  void forget(std::uint32_t i) { idle_.erase({scene_.guests[i].idle_from, i}); }
  /// Who is suspended now; each until it has_left().
  std::vector<std::uint32_t> choose();
  void has_left() { --suspending_; }

private:
  const scene& scene_;
  std::set<std::pair<double, std::uint32_t>> idle_; // by since when
  std::size_t suspending_ = 0;
};

} // namespace vgpu::simulator
