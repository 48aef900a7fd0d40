// The memory in which a worker keeps its account, so that its node can read it
// after the worker's death.
#pragma once

#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace vgpu {

/// Holds one worker's account. The node makes it, and the worker maps it and
/// writes its totals there. However the worker ends, the last written totals
/// are charged. One thread at a time writes a member, as a whole; any thread or
/// process may read.
class usage_page {
public:
  /// Makes the memory. Fails when the kernel provides none.
  static result<std::shared_ptr<usage_page>> create();
  /// Maps the memory behind this descriptor. Fails when it is not such a page.
  static result<std::shared_ptr<usage_page>> open(unique_fd memory);

  int fd() const noexcept { return memory_.get(); }

  /// Writes everything except the bytes that calls moved.
  void write(const control::usage& x) noexcept;
  /// Writes the bytes that calls moved. Another thread may call write()
  /// meanwhile.
  void write_traffic(const control::usage& x) noexcept;
  /// Returns the last written totals.
  control::usage read() const noexcept;

private:
  struct layout {
    static constexpr std::uint64_t the_magic = 0x3130454741535556; // "VUSAGE01"
    std::uint64_t magic;
    std::array<std::atomic<std::uint64_t>, 6> values;
  };

  usage_page(unique_fd memory, mapping map)
      : memory_(std::move(memory)), map_(std::move(map)) {}
  static result<std::shared_ptr<usage_page>> map(unique_fd memory);
  void store(const control::usage& x, bool traffic) noexcept;
  layout* at() const noexcept { return reinterpret_cast<layout*>(map_.data()); }

  unique_fd memory_;
  mapping map_;
};

} // namespace vgpu
