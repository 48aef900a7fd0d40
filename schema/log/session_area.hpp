// The memory that a program shares with whoever serves its session: reply
// slots, console, reply arena and host memory. (The log itself: call_log.hpp.)
//
// The program owns it and is not trusted: the reader's side copies a value out
// once and checks the copy; nothing it finds here can make it leave the areas,
// whose sizes it took from the kernel and not from the program.
#pragma once

#include "schema/base/busy_word.hpp"
#include "schema/base/console.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
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

/// A memfd of a fixed size that nobody can shrink or grow.
result<unique_fd> make_sealed_memory(const char* name, std::uint64_t bytes);

/// The size of such a memfd, as the kernel tells it; a fault when its size is
/// not sealed (its owner could cut it under the reader's feet).
result<std::uint64_t> sealed_size(int fd);

/// Wakes threads that sleep on a word of shared memory, in any process.
void wake_all(const std::atomic<std::uint32_t>& word) noexcept;
/// Wakes so many of them.
void wake_some(const std::atomic<std::uint32_t>& word,
               unsigned threads) noexcept;
/// Sleeps while the word has this value, for at most `patience`. May return
/// early.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                 std::chrono::nanoseconds patience) noexcept;

// -- layout -------------------------------------------------------------------

/// What becomes of a synchronising call's place to be answered in.
enum class slot_state : std::uint32_t {
  free = 0,
  waiting = 1,        // its call is in the log
  waiting_asleep = 2, // and a thread sleeps on the word
  called = 3,         // a host function may run now
  answered = 4,
};

/// One reply slot: 64 bytes. The program takes it and frees it; the reader of
/// the log answers it, once, and only while it waits for that very call. Hence
/// a replay answers nothing twice.
struct alignas(64) slot {
  std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> result; // CUresult
  std::atomic<std::uint64_t> call;   // call number it waits for
  std::atomic<std::uint64_t> value;  // what the call returns in 64 bits
  std::array<std::uint64_t, 5> unused;
};
static_assert(sizeof(slot) == 64);

/// Index of a slot; 0 is "no slot".
using slot_index = std::uint16_t;
inline constexpr std::size_t slot_count = 4096;
/// Of host memory.
inline constexpr std::uint64_t page_bytes = 4096;
/// Of each console.
inline constexpr std::uint64_t console_bytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t arena_bytes = std::uint64_t{64} << 20;
inline constexpr std::size_t ticket_bytes = 960;
/// Of one session.
inline constexpr std::size_t most_devices = 64;
/// The kernel lets one thread at a time write to a file: a log lies in so many,
/// a stripe in each in turns, and large payloads are written by as many
/// threads.
inline constexpr std::size_t log_files = 4;
/// How long a stripe is. Each is a mapping in each process, which takes some
/// microseconds, and a fork of the program as many: in a long log they are
/// longer.
constexpr std::uint64_t log_stripe(std::uint64_t capacity) noexcept {
  return std::max(std::min(std::uint64_t{16} << 20, capacity / log_files),
                  capacity / 1024);
}
/// A log holds at least so many bytes, and at most maximum_log.
inline constexpr std::uint64_t minimum_log = std::uint64_t{16} << 20;
inline constexpr std::uint64_t maximum_log = std::uint64_t{1} << 40;
/// So much of a log's beginning is mapped behind its end as well.
inline constexpr std::uint64_t mirror_bytes = minimum_log;

enum class protection : std::uint32_t { none = 0, journal = 1 };

/// The control area's first page. A line has one writer, and what is written
/// at each call lies apart from what the other side reads at each call: a
/// shared line costs both sides a cache miss a call.
struct control_header {
  static constexpr std::uint64_t the_magic = 0x36304c4c41435547; // "GUCALL06"
  std::uint64_t magic;
  std::uint64_t log_capacity; // bytes, a power of two

  // Written by the program: at each call,
  alignas(64) std::atomic<std::uint64_t> tail; // where the next record goes
  // and now and then.
  alignas(64) std::atomic<std::uint64_t> trimmed; // the log begins here
  std::atomic<std::uint32_t> protection_level;
  // bytes of text taken
  std::array<std::atomic<std::uint64_t>, console_count> console_read;
  // a writer waits for `executed`, or for `covered`
  std::atomic<std::uint32_t> room_wanted;

  // Written by whoever reads the log: when it goes to sleep,
  alignas(64) std::atomic<std::uint32_t> reader_asleep;
  // at each call,
  alignas(
      64) std::atomic<std::uint64_t> executed; // nothing before it is needed
  std::atomic<std::uint64_t> charged; // before it, all is in an account
  // and now and then.
  alignas(64) std::atomic<std::uint32_t> sticky_error; // CUresult
  std::array<std::atomic<std::uint64_t>, console_count> console_written;
  std::atomic<std::uint32_t> upcalls; // grows with each host function called
  std::atomic<std::uint64_t> served_epoch;

  // Written by the client: what a restarted one needs to take the session up
  // (a wire.capnp Adopt).
  alignas(64) std::atomic<std::uint32_t> ticket_size;
  std::atomic<std::uint64_t> quota; // bytes a device; 0: as granted at first
  std::array<std::byte, ticket_bytes> ticket;
  // and what it has of snapshots: the place (snapshot_files.hpp) of the newest
  // complete one, counted from 1, or 0; calls before `covered` are in it.
  std::atomic<std::uint32_t> newest;
  std::atomic<std::uint64_t> covered;
  // The program tells when so many bytes of calls are in none.
  std::atomic<std::uint64_t> snapshot_after;
  // Since when it waits for its vGPU: nanoseconds of the host's steady clock.
  std::atomic<std::uint64_t> waits_since;
  // Odd while the worker has a copy of its own of host memory; grows when that
  // begins and when it ends.
  std::atomic<std::uint64_t> host_apart;
  // One of program and client compares host memory with what is known of it, or
  // writes both: host_guard.
  std::atomic<std::uint32_t> host_taken;

  // For who watches, of each device of the lease. Written by the program: bytes
  // that it has allocated there;
  alignas(64) std::array<std::atomic<std::uint64_t>, most_devices> used;
  // by whoever reads the log, or the client for one elsewhere, some times a
  // second: a busy_word.
  alignas(64) std::array<std::atomic<std::uint64_t>, most_devices> busy;
};
static_assert(sizeof(control_header) <= 4096);

/// Keeps program and client from each other's way in view_host_known() and what
/// it is of. Who waits goes on after `patience`: the other may have died with
/// it.
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

/// How long a journal of this capacity grows before a snapshot pays, after one
/// of `state` bytes: so long that making them costs a part of what writing the
/// journal does, and not longer, as memory that was just given back is faster
/// than memory that was never used.
constexpr std::uint64_t snapshot_after(std::uint64_t capacity,
                                       std::uint64_t state) noexcept {
  constexpr std::uint64_t least = std::uint64_t{512} << 20;
  return std::min(capacity / 2, std::max(least, 4 * std::min(state, capacity)));
}

/// Where in which of its files a part of the log lies.
struct log_place {
  std::size_t file; // from 0
  int fd;
  std::uint64_t offset;
  std::uint64_t bytes; // that follow it there, in the same stripe
};

/// Both sides' view of the control area and the host memory. Thread-safe as
/// its atomics are.
class session_area {
public:
  /// The program's side: makes the areas. `log_capacity` is a power of two of
  /// at least minimum_log; `host_bytes` is the size of the host window.
  static result<session_area> create(std::uint64_t log_capacity,
                                     std::uint64_t host_bytes);
  /// The reader's side: maps what came from a program, checking everything.
  /// Takes the first descriptor_count of what was handed over, which are those
  /// of descriptors(); a fault where there are fewer.
  static result<session_area> open(std::span<unique_fd> handed);

  static constexpr std::size_t descriptor_count = 2 + log_files;
  /// To be handed over.
  std::array<int, descriptor_count> descriptors() const noexcept;

  control_header& header() const noexcept;
  /// Precondition: 0 < index < slot_count.
  slot& at(slot_index index) const noexcept;
  std::span<std::byte> arena() const noexcept;
  /// `capacity` bytes, and the first mirror_bytes of them once more: nothing up
  /// to that size is cut.
  std::byte* log_data() const noexcept { return log_map_.data(); }
  std::uint64_t log_capacity() const noexcept { return log_capacity_; }
  std::uint64_t host_bytes() const noexcept { return host_bytes_; }

  log_place log_at(std::uint64_t position) const noexcept;

  int control_fd() const noexcept { return control_.get(); }
  int host_fd() const noexcept { return host_.get(); }

  /// Whole pages of the host window, which is mapped, show a file from this
  /// offset on in place of the host memory. After a fault they are as before.
  status show_file(device_address address, std::uint64_t bytes, int file,
                   std::uint64_t offset) const;
  /// They show the host memory again.
  status show_own(device_address address, std::uint64_t bytes) const;
  /// Maps the host memory at vgpu::host_window. A fault when that is taken.
  status map_host();
  /// The host memory at some other address, for who serves several programs.
  result<mapping> view_host() const;
  /// Of each byte of it, what both sides knew of last, where kernels use it in
  /// place and the worker has a copy of its own.
  result<mapping> view_host_known() const;
  /// Whether [address, address + bytes) lies in it.
  bool in_host(device_address address, std::uint64_t bytes) const noexcept;

  // -- reader's side ----------------------------------------------------------

  /// Tells the program that nothing before `position` is needed any more.
  void publish_executed(std::uint64_t position) const noexcept;
  /// What the calls before this one used is in the session's account. Never
  /// goes back: a replay charges nothing that was charged.
  void note_charged(std::uint64_t position) const noexcept {
    auto& charged = header().charged;
    if (position > charged.load(std::memory_order_relaxed))
      charged.store(position, std::memory_order_relaxed);
  }
  /// How busy a device was of late; nothing beyond most_devices.
  void note_busy(std::size_t device, unsigned percent,
                 busy_word::clock::time_point now) const noexcept {
    if (device < most_devices)
      header().busy[device].store(busy_word::of(percent, now),
                                  std::memory_order_relaxed);
  }
  /// Tells it that a snapshot covers all calls before `position`.
  void publish_covered(std::uint64_t position) const noexcept;
  /// From now on the log is trimmed as it is executed. False if it was so.
  bool lower_protection() const noexcept;

  /// Whether this slot still waits for this call.
  bool waits(slot_index index, call_number call) const noexcept;
  /// Answers the slot if it waits for this call, and wakes its thread.
  void answer(slot_index index, call_number call, CUresult result,
              std::uint64_t value) const noexcept;
  /// Notes in the log what a call has brought the program; no effect where the
  /// log no longer holds that call, or it has been noted.
  void note_digest(call_number call, std::uint32_t digest) const noexcept;
  /// Lets a host function run: waiting → called. No effect a second time.
  void call_host(slot_index index, call_number call) const noexcept;
  /// Appends text that begins at byte `position` of all that the session wrote
  /// to this console; what the program has been given before is skipped. The
  /// oldest text is lost when the ring is full, as in CUDA.
  void print(console where, std::uint64_t position,
             std::string_view text) const noexcept;
  /// Whether there is text that was not yet taken.
  bool has_text(console where) const noexcept;
  /// Text that was not yet taken; moves console_read.
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
