// The interposer's connection to vgpu-client, which represents the program.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vgpu::interposer {

/// Holds a device's properties in the driver API, as the lease reports them.
struct device_facts {
  static constexpr int attribute_limit = 512;

  std::string name;
  std::array<std::uint8_t, 16> uuid{};
  std::uint64_t total_memory = 0; ///< in bytes
  /// Holds the attributes by CUdevice_attribute. An entry is empty where the
  /// device has no such attribute.
  std::vector<std::optional<int>> attributes;

  /// Returns an attribute's value, or nothing where the device has none.
  std::optional<int> attribute(int key) const noexcept {
    if (key < 0 || static_cast<std::size_t>(key) >= attributes.size())
      return std::nullopt;
    return attributes[static_cast<std::size_t>(key)];
  }
  /// Returns an attribute's value, or 0 where the device has none.
  int value_of(int key) const noexcept { return attribute(key).value_or(0); }
};

/// Holds the client's answer that grants a session its vGPU and devices.
struct grant {
  std::uint64_t session = 0;
  std::uint64_t vgpu = 0;
  std::uint64_t quota = 0; ///< in bytes, for each device
  std::vector<device_facts> devices;
};

/// Describes one program's use of one device.
struct device_use {
  std::size_t device = 0; ///< index of group_view::devices
  unsigned pid = 0;
  /// Hold the quota and the used memory, in bytes.
  std::uint64_t quota = 0, used = 0;
  /// Holds the percentage of the last second in which the device worked.
  unsigned busy = 0;
};
/// Describes the devices and sessions of this process's group (VGPU_GROUP).
struct group_view {
  std::vector<device_facts> devices; ///< each device once
  std::vector<device_use> uses;
};

/// Asks the client for the group's use of its devices. Does not start a client,
/// and returns a fault where none answers.
result<group_view> watch_group();

/// Connects to the client of this user and manager by a Unix socket. Starts a
/// client where none listens. Not thread-safe; the session guards it.
class guest_channel {
public:
  /// Connects, passes the shared areas, the doorbell and the files for
  /// snapshots to the client, and waits until the client grants or refuses.
  /// With `resumed` the areas already hold a running session.
  result<grant> greet(const session_area& area, int doorbell,
                      std::span<const int> states, bool resumed);

  /// Tells whether the client has closed the connection. Costs one system call.
  bool hung_up() const noexcept;

  /// Reports to the client how many bytes the journal holds, as it fills. Does
  /// not wait.
  void report_filling(std::uint64_t bytes) noexcept;
  /// Reports to the client that the session shares memory or events with
  /// another one, and so is no longer protected. Does not wait.
  void report_sharing() noexcept;

  /// Closes this process's copy of the socket. Async-signal-safe.
  void close() noexcept;

private:
  template <class Fill>
  void notify(const Fill& fill) noexcept;

  unique_fd socket_;
};

} // namespace vgpu::interposer
