// The program's session: its log, its windows of addresses, its devices.
#pragma once

#include "interposer/session/address_space.hpp"
#include "interposer/session/guest_channel.hpp"
#include "interposer/session/log_ahead.hpp"
#include "interposer/session/reply_slots.hpp"
#include "interposer/session/thread_pool.hpp"
#include "schema/log/call_log.hpp"
#include "schema/log/snapshot_files.hpp"
#include "schema/wire/call_codec.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

namespace vgpu::interposer {

/// Thrown by a call that would wait for ever: no client can be had any more.
struct session_lost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A session. There is one a process; it is never destroyed. Thread-safe.
class session {
public:
  /// Makes the shared memory, finds or starts the client, and waits for the
  /// lease. A fault says why there is no vGPU.
  static result<std::unique_ptr<session>> open();

  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session();

  // -- devices
  // -----------------------------------------------------------------

  /// Those that the program sees, as it counts them: CUDA_VISIBLE_DEVICES may
  /// hide some of the lease's and order the rest. All device numbers of this
  /// library but those in the log are indices into this.
  const std::vector<device_facts>& devices() const noexcept { return devices_; }

  /// Chooses the devices that the program sees, by CUDA_VISIBLE_DEVICES as it
  /// is now, and reserves their addresses: once, before all that follows. Until
  /// then a session is a lease and no more. After a fault it may be tried
  /// again.
  status use_devices();
  /// All devices of the session, whether the program sees them or not.
  const std::vector<device_facts>& leased_devices() const noexcept {
    return grant_.devices;
  }
  /// Bytes that it has allocated on such a device. After use_devices().
  std::uint64_t used_of_leased(std::size_t index) const;
  /// Percent of the last second that it worked for the session.
  unsigned busy_of_leased(std::size_t index) const noexcept {
    return busy_word::percent(
        area_.header().busy[index].load(std::memory_order_relaxed),
        busy_word::clock::now());
  }
  /// Bytes a device; may change while the program runs.
  std::uint64_t quota() const noexcept {
    auto now = area_.header().quota.load(std::memory_order_relaxed);
    return now != 0 ? now : grant_.quota;
  }

  /// The error that the session's work ended in, or CUDA_SUCCESS.
  CUresult sticky() const noexcept {
    auto code = area_.header().sticky_error.load(std::memory_order_relaxed);
    return static_cast<CUresult>(
        code != 0 ? code : lost_.load(std::memory_order_relaxed));
  }

  // -- calls
  // -------------------------------------------------------------------

  /// Appends a call without a reply.
  template <class Call>
  call_number send(const Call& x, std::uint8_t device) {
    static_assert(Call::kind == call::answer::none);
    return call::append(
        log_, x, wire_[device], 0, 0, [](auto&&) {}, idle_);
  }

  /// As send(), with a payload of at most max_payload bytes that `fill`
  /// writes; `fill` must not throw.
  template <class Call, class Fill>
  call_number send(const Call& x, std::uint8_t device,
                   std::uint32_t payload_bytes, const Fill& fill) {
    return call::append(log_, x, wire_[device], 0, payload_bytes, fill, idle_);
  }

  /// The same, with a payload that lies in memory as it is.
  template <class Call>
  call_number send(const Call& x, std::uint8_t device,
                   std::span<const std::byte> payload) {
    auto number = call::append(log_, x, wire_[device], 0, payload, idle_);
    ahead_.wrote(payload.size());
    return number;
  }

  /// Appends calls `part(offset)` that carry max_payload bytes each of a long
  /// payload, which several threads write. Precondition: it is a multiple of
  /// that, and longest_payload() at most. The number of the last one.
  template <class Part>
  call_number send_parts(const Part& part, std::uint8_t device,
                         std::span<const std::byte> payload) {
    auto places = log_.reserve_run(call::message_words(part(0)), max_payload,
                                   payload.size() / max_payload, idle_);
    for (std::size_t i = 0; i < places.size(); ++i)
      call::encode(part(i * max_payload), wire_[device], places[i].message());
    write_parts(places, payload);
    ahead_.wrote(payload.size());
    return places.back().call();
  }
  template <class Call>
  std::size_t longest_payload(const Call& x) const noexcept {
    return log_.longest_run(call::message_words(x), max_payload) * max_payload;
  }

  /// Appends a call that will be answered.
  template <class Call>
  ticket begin(const Call& x, std::uint8_t device) {
    static_assert(Call::kind == call::answer::sync);
    auto slot = slots_.take(idle_);
    auto number = call::append(
        log_, x, wire_[device], slot, 0, [](auto&&) {}, idle_);
    return {slot, number};
  }

  /// The same, with a slot that the caller has and keeps.
  template <class Call>
  ticket begin(const Call& x, std::uint8_t device, slot_index slot) {
    static_assert(Call::kind == call::answer::sync);
    auto number = call::append(
        log_, x, wire_[device], slot, 0, [](auto&&) {}, idle_);
    return {slot, number};
  }

  /// Waits for the answer; the ticket is used up.
  outcome finish(const ticket& x) { return slots_.finish(x, idle_); }

  /// Appends a call and waits for its answer.
  template <class Call>
  outcome ask(const Call& x, std::uint8_t device) {
    return finish(begin(x, device));
  }

  reply_slots& slots() noexcept { return slots_; }
  reply_arena& arena() noexcept { return arena_; }

  /// Where the next call will go.
  std::uint64_t tail() const noexcept { return log_.tail(); }

  // -- synchronising
  // -----------------------------------------------------------

  /// Waits for all work on the device; at once when nothing was appended since
  /// the last time. Delivers what kernels printed.
  CUresult synchronise(std::uint8_t device);

  /// All work of the device at log positions up to this is done.
  std::uint64_t done_until(std::uint8_t device) const noexcept {
    return done_[device].load(std::memory_order_acquire);
  }

  /// Writes what kernels printed to the program's stdout.
  void deliver_console();

  // -- memory
  // ------------------------------------------------------------------

  address_space& space(std::uint8_t device) noexcept {
    return *spaces_[device];
  }
  address_space& host_space() noexcept { return *host_space_; }

  /// Whose window the address lies in; nothing for host memory.
  std::optional<std::uint8_t> device_of(device_address at) const noexcept;
  /// Whether the address lies in the window of pinned memory.
  bool is_pinned(device_address at) const noexcept {
    return in_host_window(at, area_.host_bytes());
  }
  /// Gives the pages of freed pinned memory back.
  void forget_pages(device_address at, std::uint64_t bytes) noexcept;

  /// What this session does has to do with another's from now on: it is not
  /// protected any more. Before the program learns of what it shares.
  void begin_sharing();

  // -- images
  // ------------------------------------------------------------------

  /// Puts an image into the log, once a session.
  call::digest publish_image(std::span<const std::byte> image);

  // -- life
  // --------------------------------------------------------------------

  /// In the child of a fork: releases what is the parent's.
  void abandon_in_child() noexcept;
  /// At exit.
  void finish() noexcept;

  session_area& area() noexcept { return area_; }
  /// Called while a thread waits: finds a new client when the old one is gone.
  /// Throws session_lost.
  const std::function<void()>& idle() const noexcept { return idle_; }

private:
  session(session_area area, unique_fd doorbell, busy_poll_limits limits);

  /// Fills devices_ and wire_.
  status choose_devices();
  status reserve_windows();
  void check_client();
  void write_parts(std::span<const reservation> places,
                   std::span<const std::byte> payload);

  session_area area_;
  unique_fd doorbell_;
  state_places states_;
  guest_channel channel_;
  thread_pool writers_; // of large payloads, into the log
  log_writer log_;
  log_ahead ahead_{log_};
  reply_slots slots_;
  reply_arena arena_;
  grant grant_;
  std::vector<device_facts> devices_;
  std::vector<std::uint8_t> wire_; // of each device, its index in the lease
  std::function<void()> idle_;
  std::vector<mapping> windows_;
  std::vector<std::unique_ptr<address_space>> spaces_;
  std::unique_ptr<address_space> host_space_;
  bool host_mapped_ = false;
  std::array<std::atomic<std::uint64_t>, 256> done_{};
  /// The log's tail after the last device_sync of each device.
  std::array<std::atomic<std::uint64_t>, 256> clean_{};
  std::atomic<std::uint32_t> lost_{0};
  std::atomic<bool> shares_{false};
  std::mutex channel_mutex_;
  std::mutex console_mutex_;
  std::mutex images_mutex_;
  std::set<call::digest> images_;
};

} // namespace vgpu::interposer
