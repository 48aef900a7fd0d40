// The interposer's way to vgpu-client, the process that speaks for it.
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

/// What the driver API tells of a device, as it came with the lease.
struct device_facts {
  static constexpr int attribute_limit = 512;

  std::string name;
  std::array<std::uint8_t, 16> uuid{};
  std::uint64_t total_memory = 0; ///< bytes
  /// By CUdevice_attribute; nothing where the device has no such attribute.
  std::vector<std::optional<int>> attributes;

  std::optional<int> attribute(int key) const noexcept {
    if (key < 0 || static_cast<std::size_t>(key) >= attributes.size())
      return std::nullopt;
    return attributes[static_cast<std::size_t>(key)];
  }
  /// For the driver's own use: 0 where there is none.
  int value_of(int key) const noexcept { return attribute(key).value_or(0); }
};

/// The client's answer: what the program may use.
struct grant {
  std::uint64_t session = 0;
  std::uint64_t vgpu = 0;
  std::uint64_t quota = 0; ///< bytes a device
  std::vector<device_facts> devices;
};

/// What a program has of a device.
struct device_use {
  std::size_t device = 0; ///< of group_view::devices
  unsigned pid = 0;
  std::uint64_t quota = 0, used = 0; ///< bytes
  unsigned busy = 0;                 ///< percent of the last second
};
/// The vGPUs of this process's group (VGPU_GROUP).
struct group_view {
  std::vector<device_facts> devices; ///< each once
  std::vector<device_use> uses;
};

/// Asks the client, which is not started for it. A fault where none answers.
result<group_view> watch_group();

/// A Unix socket to the client of this user and manager, which is started when
/// none listens. Not thread-safe: the session guards it.
class guest_channel {
public:
  /// Connects, hands over the areas, the doorbell and the places for snapshots,
  /// and waits until the client grants or refuses. `resumed` says that the
  /// areas hold a session that runs already.
  result<grant> greet(const session_area& area, int doorbell,
                      std::span<const int> states, bool resumed);

  /// Whether the client is gone. Costs one system call.
  bool hung_up() const noexcept;

  /// Tells the client that the journal fills. Does not wait.
  void report_filling(std::uint64_t bytes) noexcept;
  /// Tells it that the session shares with another, and is not protected.
  void report_sharing() noexcept;

  /// Closes this process's copy; async-signal-safe.
  void close() noexcept;

private:
  template <class Fill>
  void notify(const Fill& fill) noexcept;

  unique_fd socket_;
};

} // namespace vgpu::interposer
