// Managed memory. The program and the device use the same address, and one of
// the two owns the current bytes.
#pragma once

#include "interposer/memory/page_faults.hpp"
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

/// Represents the session's managed memory. It behaves as CUDA documents it for
/// a device without concurrent managed access ("Unified Memory Programming",
/// coherency and concurrency). Enqueuing work moves all of it to the device.
/// When the program touches a page, the page's block moves back.
///
/// A block of pages belongs to the device (the program has no access), or the
/// host may read it, or the host may write it. A writable block is sent to the
/// device before the device owns it again. Memory that the device has never
/// owned is writable at once; only the pages that the program touched are in
/// the file.
///
/// All managed memory is one file, mapped twice: where the program sees it, and
/// a second time, always writable, for this class alone. So this class fills a
/// page before it gives the program access, and removes that access before it
/// reads a page.
///
/// Where the kernel permits it, a thread of this class serves the touches
/// (page_faults), and the handler of SIGSEGV otherwise. Thread-safe.
class managed_memory {
public:
  /// Describes a range of managed memory. Its pages may also hold bytes that
  /// are not managed memory.
  struct piece {
    device_address address = 0;
    std::uint64_t bytes = 0;
  };

  /// Adds an allocation, which the host owns at first. No other allocation
  /// shares its pages.
  CUresult add_allocation(const piece& what, std::uint8_t device);
  /// Adds a module's variables, which the device owns at first. Their pages may
  /// lie anywhere and may hold other variables too. Returns false where this
  /// process uses the addresses already.
  bool add_variables(std::span<const piece> what, std::uint8_t device);
  /// Removes the memory that was added with this address, and drops the host's
  /// writes to it.
  void remove(device_address at);

  /// Tells whether managed memory exists. While a record of the log is open, no
  /// bytes of managed memory may be copied into it, because touching them may
  /// append to the log.
  static bool exists() noexcept {
    return regions_there_.load(std::memory_order_relaxed) != 0;
  }
  /// Tells whether the host owns any of it. Callers ask this before they append
  /// work.
  static bool host_has_some() noexcept {
    return at_host_.load(std::memory_order_relaxed) != 0;
  }
  /// Moves all of it to the device, for the work that is appended next.
  void hand_over();
  /// Moves the part in [at, at + bytes) to the device, for the work that is
  /// appended next.
  void hand_over(device_address at, std::uint64_t bytes);

  /// Moves the block at this address, which the host touched, to the host.
  /// Returns false where the address is no managed memory. The signal handler
  /// calls this, at any point of the program.
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
    // Whether page_faults watches it, which begins when the device first has it
    bool watched = false;
  };
  using region_map = std::map<device_address, region>;

  bool open();
  void choose_service();
  [[noreturn]] void serve();
  void serve(const page_faults::touch& what) noexcept;
  bool insert(device_address begin, std::uint64_t bytes, std::uint8_t device,
              block first);
  bool show(device_address begin, std::uint64_t bytes, std::uint64_t offset,
            int access, int place);
  bool add_page_run(std::span<const piece> what, std::uint8_t device);
  region_map::iterator find(device_address at);
  std::optional<std::uint64_t> offset_of(device_address begin,
                                         std::uint64_t bytes);
  void note_at_host(region& x);
  void give(region_map::iterator first, region_map::iterator last);
  void close(region_map::iterator first, region_map::iterator last,
             std::uint64_t bytes);
  bool let_in(region_map::value_type& to, device_address at, bool writes);
  bool open_page(device_address at, bool for_writes);
  bool open_blocks(region_map::value_type& in, std::size_t first,
                   std::size_t last, bool for_writes);
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

  inline static std::atomic<std::uint32_t> at_host_{0}; // number of regions
  inline static std::atomic<std::uint32_t> regions_there_{0};

  std::mutex mutex_;
  // Is set before there are regions, and never changed then.
  std::optional<page_faults> faults_;
  // Has none where RLIMIT_FSIZE permits no file of this size
  unique_fd file_;
  mapping all_; // of the whole file or memory
  // The file offset of the next region outside the windows
  std::uint64_t beyond_ = 0;
  // Bytes that are read from the device arrive here.
  std::optional<reply_arena::range> room_;
  region_map regions_;
};

/// Returns the process's managed memory. Precondition: the driver's state is
/// made.
managed_memory& managed() noexcept;

/// Starts to handle SIGSEGV, so that touched managed memory moves to the host
/// although no thread serves the touches.
/// Other faults go to the previous handler. The next use of managed memory
/// repeats this where the program has set another handler since.
void watch_managed_memory() noexcept;

} // namespace vgpu::interposer
