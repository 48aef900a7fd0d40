// The memory that a program shares with the process that serves its session:
// reply slots, consoles, the reply arena and host memory. (call_log.hpp has the
// log itself.)
//
// The program owns the memory and is not trusted. The reader's side copies each
// value once and checks the copy. Nothing that it finds here can make it leave
// the areas, whose sizes it gets from the kernel and not from the program.
#pragma once

#include "schema/base/busy_word.hpp"
#include "schema/base/console.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace vgpu {

/// Owns a file descriptor.
class unique_fd {
public:
  unique_fd() = default;
  explicit unique_fd(int fd) noexcept : fd_(fd) {}
  unique_fd(unique_fd&& other) noexcept : fd_(other.release()) {}
  unique_fd& operator=(unique_fd&& other) noexcept;
  ~unique_fd();

  int get() const noexcept { return fd_; }
  int release() noexcept;
  explicit operator bool() const noexcept { return fd_ >= 0; }

private:
  int fd_ = -1;
};

/// Returns another descriptor of an open file, or none where `fd` is none or
/// the process has no more of them.
unique_fd duplicate_of(int fd) noexcept;

/// Owns a range of address space.
class mapping {
public:
  mapping() = default;
  mapping(void* at, std::size_t bytes) noexcept : at_(at), bytes_(bytes) {}
  mapping(mapping&& other) noexcept;
  mapping& operator=(mapping&& other) noexcept;
  ~mapping();

  std::byte* data() const noexcept { return static_cast<std::byte*>(at_); }
  std::size_t size() const noexcept { return bytes_; }

private:
  void* at_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Makes a memfd whose size no process can change.
result<unique_fd> make_sealed_memory(const char* name, std::uint64_t bytes);

/// Returns the size of such a memfd, as the kernel reports it. Fails when its
/// size is not sealed, because its owner could then truncate it while it is in
/// use.
result<std::uint64_t> sealed_size(int fd);

/// Wakes all threads that sleep on a word of shared memory, in any process.
void wake_all(const std::atomic<std::uint32_t>& word) noexcept;
/// Wakes up to `threads` threads that sleep on the word.
void wake_some(const std::atomic<std::uint32_t>& word,
               unsigned threads) noexcept;
/// Sleeps while the word has this value, for at most `patience`. May return
/// early.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                 std::chrono::nanoseconds patience) noexcept;

// -- layout -------------------------------------------------------------------

/// Names the state of a reply slot.
enum class slot_state : std::uint32_t {
  free = 0,
  /// The call is in the log.
  waiting = 1,
  /// The call is in the log, and a thread sleeps on the word.
  waiting_asleep = 2,
  /// A host function may run now.
  called = 3,
  answered = 4,
};

/// Describes one reply slot of 64 bytes. The program takes and frees it. The
/// reader of the log answers it once, and only while it waits for exactly that
/// call, so a replay answers nothing twice.
struct alignas(64) slot {
  std::atomic<std::uint32_t> state;
  /// Holds a CUresult.
  std::atomic<std::uint32_t> result;
  /// Holds the number of the call that the slot waits for.
  std::atomic<std::uint64_t> call;
  /// Holds the call's 64-bit result.
  std::atomic<std::uint64_t> value;
  std::array<std::uint64_t, 5> unused;
};
static_assert(sizeof(slot) == 64);

/// Holds the index of a slot. 0 means "no slot".
using slot_index = std::uint16_t;
inline constexpr std::size_t slot_count = 4096;
/// Gives the size of a page of host memory.
inline constexpr std::uint64_t page_bytes = 4096;
/// Gives the size of each console's ring. Programs raise the limit of what
/// kernels print (CU_LIMIT_PRINTF_FIFO_SIZE) to tens of MiB. Pages that hold no
/// text cost nothing.
inline constexpr std::uint64_t console_bytes = std::uint64_t{64} << 20;
/// Gives the size of the reply arena.
inline constexpr std::uint64_t arena_bytes = std::uint64_t{64} << 20;
/// Gives the largest size of the client's ticket.
inline constexpr std::size_t ticket_bytes = 960;
/// Gives the largest number of devices of one session.
inline constexpr std::size_t most_devices = 64;
/// Gives the number of files of a log. Stripes of the log lie in them in turns,
/// because the kernel lets only one thread at a time write to a file. As many
/// threads write large payloads.
inline constexpr std::size_t log_files = 4;
/// Returns the length of a stripe. Each stripe is a mapping in each process,
/// which costs some microseconds to make and again in a fork of the program. So
/// the stripes of a long log are longer.
constexpr std::uint64_t log_stripe(std::uint64_t capacity) noexcept {
  return std::max(std::min(std::uint64_t{16} << 20, capacity / log_files),
                  capacity / 1024);
}
/// Gives the smallest capacity of a log, in bytes.
inline constexpr std::uint64_t minimum_log = std::uint64_t{16} << 20;
/// Gives the largest capacity of a log, in bytes.
inline constexpr std::uint64_t maximum_log = std::uint64_t{1} << 40;
/// Gives the part of a log's beginning that is also mapped behind its end.
inline constexpr std::uint64_t mirror_bytes = minimum_log;

/// Says what the log keeps for a recovery: nothing, or the journal.
enum class protection : std::uint32_t { none = 0, journal = 1 };

/// Names the ways in which a program's touches of managed memory are served.
/// Each later one serves all that the earlier ones do.
enum class fault_service : std::uint32_t {
  /// The program has used no managed memory.
  unused = 0,
  /// A handler of SIGSEGV serves the program's own instructions. System calls
  /// fail with EFAULT, and a thread that blocks SIGSEGV dies.
  signal = 1,
  /// A thread serves the program's own instructions. System calls fail with
  /// EFAULT.
  program = 2,
  /// A thread serves the program's instructions and its system calls.
  kernel = 3,
};
/// Returns a text such as "served by a thread, for the program and its system
/// calls", or an empty one for `unused` and for values that have no name.
std::string_view to_text(fault_service x) noexcept;

/// Describes the first page of the control area. Each cache line has one
/// writer. Values that one side writes at each call are apart from those that
/// the other side reads at each call, because a shared line would cost both
/// sides a cache miss per call.
struct control_header {
  static constexpr std::uint64_t the_magic = 0x37304c4c41435547; // "GUCALL07"
  std::uint64_t magic;
  /// Is a power of two, in bytes.
  std::uint64_t log_capacity;

  /// Holds the position of the next record. The program writes it at each call.
  alignas(64) std::atomic<std::uint64_t> tail;
  /// Holds the position at which the log begins. The program writes it now and
  /// then.
  alignas(64) std::atomic<std::uint64_t> trimmed;
  /// Holds a `protection`. The program writes it, and the client may lower it.
  std::atomic<std::uint32_t> protection_level;
  /// Counts the bytes of text that the program has taken from each console.
  std::array<std::atomic<std::uint64_t>, console_count> console_read;
  /// Is not 0 while a writer waits for `executed` or `covered`.
  std::atomic<std::uint32_t> room_wanted;
  /// Holds a `fault_service`. The program writes it.
  std::atomic<std::uint32_t> managed_faults;

  /// Is not 0 while the reader of the log sleeps.
  alignas(64) std::atomic<std::uint32_t> reader_asleep;
  /// Holds the position before which no call is needed any more, except by a
  /// replay. The reader of the log writes it at each call.
  alignas(64) std::atomic<std::uint64_t> executed;
  /// Holds the position before which every call is charged to the account.
  std::atomic<std::uint64_t> charged;
  /// Holds the error that every further call returns. The reader of the log and
  /// the client write it.
  alignas(64) std::atomic<std::uint32_t> sticky_error;
  /// Counts the bytes of text that the session has written to each console.
  std::array<std::atomic<std::uint64_t>, console_count> console_written;
  /// Counts the host functions that were called.
  std::atomic<std::uint32_t> upcalls;
  /// Holds the epoch of the worker that serves the session.
  std::atomic<std::uint64_t> served_epoch;

  /// Holds the size of the ticket, or 0.
  alignas(64) std::atomic<std::uint32_t> ticket_size;
  /// Holds the memory quota for each device, in bytes. 0: the one granted at
  /// first.
  std::atomic<std::uint64_t> quota;
  /// Holds the message (wire.capnp Adopt) from which a restarted client
  /// continues the session. The client writes it.
  std::array<std::byte, ticket_bytes> ticket;
  /// Holds the place (snapshot_files.hpp) of the newest complete snapshot,
  /// counted from 1, or 0. The client writes it.
  std::atomic<std::uint32_t> newest;
  /// Holds the position before which that snapshot covers all calls.
  std::atomic<std::uint64_t> covered;
  /// The program requests a snapshot when so many bytes of calls are in none.
  std::atomic<std::uint64_t> snapshot_after;
  /// Says since when the session waits for its vGPU, in nanoseconds of the
  /// host's steady clock.
  std::atomic<std::uint64_t> waits_since;
  /// Holds a number that is odd while the worker has its own copy of host
  /// memory. It grows when that begins and when it ends.
  std::atomic<std::uint64_t> host_apart;
  /// Holds the lock of host_guard.
  std::atomic<std::uint32_t> host_taken;

  /// Counts the bytes that the program has allocated on each device of the
  /// lease. The program writes it.
  alignas(64) std::array<std::atomic<std::uint64_t>, most_devices> used;
  /// Holds a busy_word for each device of the lease. The reader of the log, or
  /// the client for a worker on another host, writes it several times a second.
  alignas(64) std::array<std::atomic<std::uint64_t>, most_devices> busy;
};
static_assert(sizeof(control_header) <= 4096);

/// Locks the memory of view_host_known() and the host memory that it describes,
/// between program and client. A waiting process continues after `patience`,
/// because the other one may have died with the lock.
class host_guard {
public:
  host_guard(std::atomic<std::uint32_t>& taken,
             std::chrono::microseconds patience) noexcept;
  ~host_guard() { taken_.store(0, std::memory_order_release); }
  host_guard(const host_guard&) = delete;
  host_guard& operator=(const host_guard&) = delete;

private:
  std::atomic<std::uint32_t>& taken_;
};

/// Returns how many bytes a journal of this capacity may grow before a
/// snapshot, after one of `state` bytes. It is long enough that snapshots cost
/// only a part of what writing the journal costs, and not longer, because
/// memory that was just returned is faster than memory that was never used.
constexpr std::uint64_t snapshot_after(std::uint64_t capacity,
                                       std::uint64_t state) noexcept {
  constexpr std::uint64_t least = std::uint64_t{512} << 20;
  return std::min(capacity / 2, std::max(least, 4 * std::min(state, capacity)));
}

/// Describes a position of the log, as a place in one of its files.
struct log_place {
  /// Counts from 0.
  std::size_t file;
  int fd;
  std::uint64_t offset;
  /// Counts the bytes from there to the end of the stripe.
  std::uint64_t bytes;
};

/// A session_area is both sides' view of the control area, the log and the host
/// memory. Thread-safe as far as its atomics are.
class session_area {
public:
  /// Makes the areas, on the program's side. `log_capacity` is a power of two
  /// of at least minimum_log, and `host_bytes` the size of the host window.
  static result<session_area> create(std::uint64_t log_capacity,
                                     std::uint64_t host_bytes);
  /// Maps areas that came from a program, on the reader's side, and checks
  /// everything. It takes the first descriptor_count of the given descriptors,
  /// in the order of descriptors(). Fails where there are fewer.
  static result<session_area> open(std::span<unique_fd> handed);

  static constexpr std::size_t descriptor_count = 2 + log_files;
  static constexpr auto at_end = std::numeric_limits<std::uint64_t>::max();
  /// Returns the descriptors to pass to the other side.
  std::array<int, descriptor_count> descriptors() const noexcept;

  control_header& header() const noexcept;
  /// Returns a slot. Precondition: 0 < index < slot_count.
  slot& at(slot_index index) const noexcept;
  std::span<std::byte> arena() const noexcept;
  /// Returns the log: log_capacity() bytes, and then the first mirror_bytes of
  /// them again, so that anything up to that size is contiguous.
  std::byte* log_data() const noexcept { return log_map_.data(); }
  std::uint64_t log_capacity() const noexcept { return log_capacity_; }
  std::uint64_t host_bytes() const noexcept { return host_bytes_; }

  /// Returns where a position of the log lies in its files.
  log_place log_at(std::uint64_t position) const noexcept;

  int control_fd() const noexcept { return control_.get(); }
  int host_fd() const noexcept { return host_.get(); }

  /// Maps a file, from this offset on, over whole pages of the host window,
  /// which must be mapped. After a fault the pages are unchanged.
  status show_file(device_address address, std::uint64_t bytes, int file,
                   std::uint64_t offset) const;
  /// Maps the host memory over these pages again.
  status show_own(device_address address, std::uint64_t bytes) const;
  /// Maps the host memory at vgpu::host_window. Fails when that is in use.
  status map_host();
  /// Maps the host memory at another address, for a process that serves several
  /// programs.
  result<mapping> view_host() const;
  /// Maps the contents of host memory that both sides last knew. It is used
  /// where kernels access host memory in place and the worker has its own copy.
  result<mapping> view_host_known() const;
  /// Returns whether [address, address + bytes) lies in the host memory.
  bool in_host(device_address address, std::uint64_t bytes) const noexcept;

  // -- reader's side ----------------------------------------------------------

  /// Sets `executed`: nothing before `position` is needed any more.
  void publish_executed(std::uint64_t position) const noexcept;
  /// Raises `charged`. It never decreases, so a replay charges nothing twice.
  void note_charged(std::uint64_t position) const noexcept {
    auto& charged = header().charged;
    if (position > charged.load(std::memory_order_relaxed))
      charged.store(position, std::memory_order_relaxed);
  }
  /// Sets how busy a device was recently, in percent. Ignores devices beyond
  /// most_devices.
  void note_busy(std::size_t device, unsigned percent,
                 busy_word::clock::time_point now) const noexcept {
    if (device < most_devices)
      header().busy[device].store(busy_word::of(percent, now),
                                  std::memory_order_relaxed);
  }
  /// Sets `covered`: a snapshot covers all calls before `position`.
  void publish_covered(std::uint64_t position) const noexcept;
  /// Returns whether calls stay in the log until a snapshot covers them.
  bool is_journalled() const noexcept;
  /// Makes the log be trimmed as it is executed, from now on. Returns false if
  /// that was so already.
  bool lower_protection() const noexcept;

  /// Returns whether this slot still waits for this call.
  bool waits(slot_index index, call_number call) const noexcept;
  /// Answers the slot if it waits for this call, and wakes its thread.
  void answer(slot_index index, call_number call, CUresult result,
              std::uint64_t value) const noexcept;
  /// Sets the digest of a call's answer in the log, and keeps the answer's
  /// bytes where the record's payload has room for exactly these
  /// (kept_result_bytes). It has no effect where the log does not hold that
  /// call any more, or has a digest for it.
  void note_result(call_number call, std::uint32_t digest,
                   std::span<const std::byte> result) const noexcept;
  /// Lets a host function run: waiting → called. A repetition has no effect.
  void call_host(slot_index index, call_number call) const noexcept;
  /// Appends text that begins at byte `position` of everything that the session
  /// wrote to this console. It skips text that was written before. When the
  /// ring is full, the oldest text is lost, as in CUDA. Position `at_end` is
  /// the end of everything that was written.
  void print(console where, std::uint64_t position,
             std::string_view text) const noexcept;
  /// Returns whether there is text that the program has not taken.
  bool has_text(console where) const noexcept;
  /// Returns how many bytes were overwritten before the program took them.
  std::uint64_t lost_text(console where) const noexcept;
  /// Returns the text that the program has not taken, and moves console_read.
  std::string take_text(console where) const;

private:
  session_area() = default;
  status map_all();
  result<mapping> view_host_from(std::uint64_t offset) const;
  void wake_writers() const noexcept;
  std::byte* ring(console where) const noexcept;

  unique_fd control_, host_;
  std::array<unique_fd, log_files> log_;
  mapping control_map_, log_map_, host_map_;
  std::uint64_t log_capacity_ = 0;
  std::uint64_t stripe_ = 0;
  std::uint64_t host_bytes_ = 0;
};

} // namespace vgpu
