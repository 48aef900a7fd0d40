// The figures of a running session that other threads may read.
#pragma once

#include "actors/compute/busy_meter.hpp"
#include "actors/compute/usage_meter.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace vgpu {

/// Holds a session's figures. The server's thread updates them; any thread may
/// read.
struct session_gauges {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> position{0};
  std::atomic<std::uint64_t> memory{0}; // bytes
  std::atomic<std::uint64_t> quota{0};  // bytes a device
  /// Hold what the session costs its devices besides `memory`
  /// (control::side_memory).
  std::atomic<std::int64_t> variables{-1}, code{-1}, context{-1};
  std::atomic<std::uint32_t> error{0};
  usage_meter account;
  busy_meter busy;

  explicit session_gauges(std::shared_ptr<usage_page> page = nullptr)
      : account(std::move(page)) {}
};

} // namespace vgpu
