// Managed memory: one address for program and device, and one of the two that
// has the bytes.
#pragma once

#include "interposer/session/reply_slots.hpp"
#include "schema/base/ids.hpp"
#include "schema/log/session_area.hpp"

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace vgpu::interposer {

/// The session's managed memory, as CUDA has it for a device without concurrent
/// managed access ("Unified Memory Programming", coherency and concurrency):
/// work that is enqueued takes all of it to the device, and the program has it
/// back page by page when it touches it.
///
/// A block of pages is the device's (no access), the host's to read, or the
/// host's to write (then its bytes are sent before the device has it again).
/// Memory that the device has never had may be written at once: what the host
/// touched of it is what its file holds. All of it is a file's, mapped twice:
/// where the program sees it, and, always writable, where only this class does.
/// So a page is filled before the program sees it, and taken away before it is
/// read. Thread-safe.
class managed_memory {
public:
  /// Bytes of device memory that count; what else lies in their pages does not.
  struct piece {
    device_address address = 0;
    std::uint64_t bytes = 0;
  };

  /// An allocation, which the host has first. Its pages are its own.
  CUresult add_allocation(const piece& what, std::uint8_t device);
  /// Variables of a module, which the device has first. Their pages may lie
  /// anywhere, and hold other variables too. False where these addresses are
  /// taken in this process.
  bool add_variables(std::span<const piece> what, std::uint8_t device);
  /// What was added with this address is gone, whatever the host wrote to it.
  void remove(device_address at);

  /// Whether there is any. What is copied into the log while a record is open
  /// must not lie in it: touching it needs the log.
  static bool exists() noexcept {
    return regions_there_.load(std::memory_order_relaxed) != 0;
  }
  /// Whether the host has anything: asked before each piece of work.
  static bool host_has_some() noexcept {
    return at_host_.load(std::memory_order_relaxed) != 0;
  }
  /// The device has all of it, or what of it lies in [at, at + bytes), for the
  /// work that is appended next.
  void hand_over();
  void hand_over(device_address at, std::uint64_t bytes);

  /// The host touched this address: it has the block afterwards. False where it
  /// is no managed memory. Called by the handler of the signal, in the middle
  /// of anything that the program does.
  bool touch(device_address at, bool writes) noexcept;

private:
  enum class block : std::uint8_t { at_device, readable, writable, fresh };

  struct region {
    std::uint64_t bytes = 0;  // whole pages
    std::uint64_t offset = 0; // in the file
    std::uint8_t device = 0;
    std::vector<piece> pieces;
    std::vector<block> blocks;
    bool at_host = false;
  };
  using region_map = std::map<device_address, region>;

  bool open();
  bool insert(device_address begin, std::uint64_t bytes, std::uint8_t device,
              block first);
  bool add_page_run(std::span<const piece> what, std::uint8_t device);
  region_map::iterator find(device_address at);
  std::optional<std::uint64_t> offset_of(device_address begin,
                                         std::uint64_t bytes);
  void note_at_host(region& x);
  void give(region_map::iterator first, region_map::iterator last);
  void send(const region_map::value_type& x);
  void send_blocks(const region_map::value_type& x, std::size_t first,
                   std::size_t last, bool fresh);
  void send_pieces(const region& x, device_address begin, device_address end,
                   device_address region_begin);
  std::size_t run_from(const region& x, std::size_t at) const noexcept;
  void fetch(const region_map::value_type& x, std::size_t first,
             std::size_t last);
  void fetch_piece(const region_map::value_type& x, device_address at,
                   std::uint64_t bytes);
  std::span<std::byte> bytes_of(const region& x, device_address region_begin,
                                device_address at, std::uint64_t bytes) const;

  inline static std::atomic<std::uint32_t> at_host_{0}; // regions
  inline static std::atomic<std::uint32_t> regions_there_{0};

  std::mutex mutex_;
  unique_fd file_;
  mapping all_;              // the file
  std::uint64_t beyond_ = 0; // where the next region outside the windows goes
  std::optional<reply_arena::range> room_; // what was read lands here
  region_map regions_;
};

/// Gives the process's own. Precondition: the driver's state is made.
managed_memory& managed() noexcept;

/// Has touched managed memory brought back from now on: SIGSEGV is handled, and
/// passed on to whoever handled it before when it is about anything else. Done
/// again where the program has set another handler since.
void watch_managed_memory() noexcept;

} // namespace vgpu::interposer
