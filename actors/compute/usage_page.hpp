// The memory in which a worker keeps its account, where its node finds it when
// the worker is dead.
#pragma once

#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace vgpu {

/// One a worker: its node makes it, the worker maps it and writes its totals
/// there, and however the worker ends, what it had written is what is charged.
/// Each member is written by one thread at a time, as a whole; any may read.
class usage_page {
public:
  /// Makes the memory. A fault when the kernel gives none.
  static result<std::shared_ptr<usage_page>> create();
  /// Maps the memory behind this descriptor; a fault when it is no such page.
  static result<std::shared_ptr<usage_page>> open(unique_fd memory);

  int fd() const noexcept { return memory_.get(); }

  /// All but the bytes that calls moved,
  void write(const control::usage& x) noexcept;
  /// and these, which another thread may write meanwhile.
  void write_traffic(const control::usage& x) noexcept;
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
