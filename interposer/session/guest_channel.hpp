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

/// These are a device's properties in the driver API, as the lease gave them.
struct device_facts {
  static constexpr int attribute_limit = 512;

  std::string name;
  std::array<std::uint8_t, 16> uuid{};
  std::uint64_t total_memory = 0; ///< This is in bytes.
  /// The index is a CUdevice_attribute. An entry is empty where the device has
  /// no such attribute.
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

/// The client's answer grants a session its vGPU and devices.
struct grant {
  std::uint64_t session = 0;
  std::uint64_t vgpu = 0;
  std::uint64_t quota = 0; ///< This is in bytes for each device.
  std::vector<device_facts> devices;
};

/// This is what one program uses of one device.
struct device_use {
  std::size_t device = 0; ///< This is an index of group_view::devices.
  unsigned pid = 0;
  /// The quota and the memory in use are in bytes.
  std::uint64_t quota = 0, used = 0;
  /// This is the percentage of the last second in which the device worked.
  unsigned busy = 0;
};
/// This shows the devices and sessions of this process's group (VGPU_GROUP).
struct group_view {
  std::vector<device_facts> devices; ///< This lists each device once.
  std::vector<device_use> uses;
};

/// Asks the client for the group's use of its devices. Does not start a client;
/// gives a fault where none answers.
result<group_view> watch_group();

/// The channel is a Unix socket to the client of this user and manager. It
/// starts a client where none listens. Not thread-safe; the session guards it.
class guest_channel {
public:
  /// Connects, hands over the shared areas, the doorbell and the files for
  /// snapshots, and waits until the client grants or refuses. `resumed` tells
  /// that the areas already hold a running session.
  result<grant> greet(const session_area& area, int doorbell,
                      std::span<const int> states, bool resumed);

  /// Tells whether the client is gone. It costs one system call.
  bool hung_up() const noexcept;

  /// Tells the client how many bytes the journal holds, as it fills. Does not
  /// wait.
  void report_filling(std::uint64_t bytes) noexcept;
  /// Tells the client that the session shares memory or events with another
  /// one, so that nothing protects it any more. Does not wait.
  void report_sharing() noexcept;

  /// Closes this process's copy of the socket. Async-signal-safe.
  void close() noexcept;

private:
  template <class Fill>
  void notify(const Fill& fill) noexcept;

  unique_fd socket_;
};

} // namespace vgpu::interposer
