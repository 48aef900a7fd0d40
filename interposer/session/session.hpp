// The program's session: its log, its windows of addresses, its devices.
#pragma once

#include "interposer/session/address_space.hpp"
#include "interposer/session/guest_channel.hpp"
#include "interposer/session/log_ahead.hpp"
#include "interposer/session/reply_slots.hpp"
#include "interposer/session/thread_pool.hpp"
#include "interposer/session/tracer.hpp"
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

/// Says that the session finds no client any more. A call that would otherwise
/// wait forever throws it.
struct session_lost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Represents a program's use of one vGPU. A process has at most one, and
/// nothing destroys it. Thread-safe.
class session {
public:
  /// Makes the shared memory, finds or starts the client, and waits for the
  /// lease. A fault says why the session gets no vGPU.
  static result<std::unique_ptr<session>> open();

  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session();

  // -- devices
  // -----------------------------------------------------------------

  /// Returns the devices that the program sees, in its order.
  /// CUDA_VISIBLE_DEVICES may hide some of the lease's devices and reorder the
  /// rest. All device numbers of this library, except those in the log, are
  /// indices of this list.
  const std::vector<device_facts>& devices() const noexcept { return devices_; }

  /// Chooses the devices that the program sees, by the present value of
  /// CUDA_VISIBLE_DEVICES, and reserves their addresses. It runs once, before
  /// all members below; until then a session is only a lease. After a fault the
  /// caller may try again.
  status use_devices();
  /// Returns all devices of the session, whether the program sees them or not.
  const std::vector<device_facts>& leased_devices() const noexcept {
    return grant_.devices;
  }
  /// Returns the bytes that the session has allocated on a leased device.
  /// Precondition: use_devices() succeeded.
  std::uint64_t used_of_leased(std::size_t index) const;
  /// Returns the percentage of the last second in which a leased device worked
  /// for the session.
  unsigned busy_of_leased(std::size_t index) const noexcept {
    return busy_word::percent(
        area_.header().busy[index].load(std::memory_order_relaxed),
        busy_word::clock::now());
  }
  /// Returns the bytes that the session may use on each device. It may change
  /// while the program runs.
  std::uint64_t quota() const noexcept {
    auto now = area_.header().quota.load(std::memory_order_relaxed);
    return now != 0 ? now : grant_.quota;
  }

  /// Returns the error that the session's work ended in, or CUDA_SUCCESS.
  CUresult sticky() const noexcept {
    auto code = area_.header().sticky_error.load(std::memory_order_relaxed);
    return static_cast<CUresult>(
        code != 0 ? code : lost_.load(std::memory_order_relaxed));
  }

  // -- calls
  // -------------------------------------------------------------------

  /// Appends a call that has no reply.
  template <class Call>
  call_number send(const Call& x, std::uint8_t device) {
    static_assert(Call::kind == call::answer::none);
    auto number = call::append(
        log_, x, wire_[device], 0, 0, [](auto&&) {}, idle_);
    tell_tracer(x, device, number);
    return number;
  }

  /// Appends a call with a payload of at most max_payload bytes, which `fill`
  /// writes. `fill` must not throw.
  template <class Call, class Fill>
  call_number send(const Call& x, std::uint8_t device,
                   std::uint32_t payload_bytes, const Fill& fill) {
    auto number =
        call::append(log_, x, wire_[device], 0, payload_bytes, fill, idle_);
    tell_tracer(x, device, number);
    return number;
  }

  /// Appends a call whose payload is a copy of this memory.
  template <class Call>
  call_number send(const Call& x, std::uint8_t device,
                   std::span<const std::byte> payload) {
    auto number = call::append(log_, x, wire_[device], 0, payload, idle_);
    ahead_.wrote(payload.size());
    tell_tracer(x, device, number);
    return number;
  }

  /// Appends the calls `part(offset)`, each with max_payload bytes of a long
  /// payload. Several threads write the payload. Returns the number of the last
  /// call. Precondition: the payload is a multiple of max_payload, and at most
  /// longest_payload().
  template <class Part>
  call_number send_parts(const Part& part, std::uint8_t device,
                         std::span<const std::byte> payload) {
    auto places = log_.reserve_run(call::message_words(part(0)), max_payload,
                                   payload.size() / max_payload, idle_);
    for (std::size_t i = 0; i < places.size(); ++i)
      call::encode(part(i * max_payload), wire_[device], places[i].message());
    write_parts(places, payload);
    ahead_.wrote(payload.size());
    for (std::size_t i = 0; i < places.size(); ++i)
      tell_tracer(part(i * max_payload), device, places[i].call());
    return places.back().call();
  }
  /// Returns the largest payload of send_parts() for this call, in bytes.
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
    tell_tracer(x, device, number);
    return {slot, number};
  }

  /// Appends a call that will be answered, and that brings so many bytes. Few
  /// bytes are kept in the log as well, where it is kept for a replay.
  template <class Call>
  ticket begin_read(const Call& x, std::uint8_t device, std::uint64_t bytes) {
    return begin_read(x, device, bytes, slots_.take(idle_));
  }

  /// Does so in a slot that the caller keeps.
  template <class Call>
  ticket begin_read(const Call& x, std::uint8_t device, std::uint64_t bytes,
                    slot_index slot) {
    static_assert(Call::kind == call::answer::sync);
    auto room = bytes <= kept_result_bytes && area_.is_journalled()
                    ? static_cast<std::uint32_t>(bytes)
                    : 0;
    auto number = call::append(
        log_, x, wire_[device], slot, room, [](auto&&) {}, idle_);
    tell_tracer(x, device, number);
    return {slot, number};
  }

  /// Appends a call that will be answered in a slot that the caller keeps.
  template <class Call>
  ticket begin(const Call& x, std::uint8_t device, slot_index slot) {
    static_assert(Call::kind == call::answer::sync);
    auto number = call::append(
        log_, x, wire_[device], slot, 0, [](auto&&) {}, idle_);
    tell_tracer(x, device, number);
    return {slot, number};
  }

  /// Waits for the answer and uses up the ticket.
  outcome finish(const ticket& x) {
    auto out = slots_.finish(x, idle_);
    if (auto* by = traced_by(); by != nullptr) [[unlikely]]
      by->answered(x.call);
    return out;
  }

  /// Appends a call and waits for its answer.
  template <class Call>
  outcome ask(const Call& x, std::uint8_t device) {
    return finish(begin(x, device));
  }

  reply_slots& slots() noexcept { return slots_; }
  reply_arena& arena() noexcept { return arena_; }

  /// Returns the log position of the next call.
  std::uint64_t tail() const noexcept { return log_.tail(); }

  // -- synchronising
  // -----------------------------------------------------------

  /// Waits for all work on the device, and writes out the text of kernels.
  /// Returns at once when nothing was appended since the last time.
  CUresult synchronise(std::uint8_t device);

  /// Returns the log position up to which all work of the device is done.
  std::uint64_t done_until(std::uint8_t device) const noexcept {
    return done_[device].load(std::memory_order_acquire);
  }

  /// Writes the text of kernels to the program's stdout and stderr.
  void deliver_console();

  // -- memory
  // ------------------------------------------------------------------

  address_space& space(std::uint8_t device) noexcept {
    return *spaces_[device];
  }
  address_space& host_space() noexcept { return *host_space_; }

  /// Returns the device in whose window the address lies, or nothing for host
  /// memory.
  std::optional<std::uint8_t> device_of(device_address at) const noexcept;
  /// Tells whether the address lies in the window of pinned memory.
  bool is_pinned(device_address at) const noexcept {
    return in_host_window(at, area_.host_bytes());
  }
  /// Gives the pages of freed pinned memory back to the system.
  void forget_pages(device_address at, std::uint64_t bytes) noexcept;

  /// Ends the session's protection, because from now on its work depends on
  /// another session. Callers use it before they return the shared object to
  /// the program.
  void begin_sharing();

  // -- images
  // ------------------------------------------------------------------

  /// Appends an image to the log, unless the session's log already holds it.
  call::digest publish_image(std::span<const std::byte> image);

  // -- life
  // --------------------------------------------------------------------

  /// Releases, in the child of a fork, what belongs to the parent's session.
  void abandon_in_child() noexcept;
  /// Ends the session as the program exits.
  void finish() noexcept;

  session_area& area() noexcept { return area_; }
  /// Tells whether calls are forwarded, because the worker cannot map the log.
  bool apart() const noexcept {
    return area_.header().host_apart.load() % 2 == 1;
  }
  /// Returns the function that runs while a thread waits. It finds a new client
  /// when the old one has ended, and throws session_lost where it cannot.
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
  // Threads that write large payloads into the log
  thread_pool writers_;
  log_writer log_;
  log_ahead ahead_{log_};
  reply_slots slots_;
  reply_arena arena_;
  grant grant_;
  std::vector<device_facts> devices_;
  // Maps each device to its index in the lease
  std::vector<std::uint8_t> wire_;
  std::function<void()> idle_;
  std::vector<mapping> windows_;
  std::vector<std::unique_ptr<address_space>> spaces_;
  std::unique_ptr<address_space> host_space_;
  bool host_mapped_ = false;
  std::array<std::atomic<std::uint64_t>, 256> done_{};
  /// Holds, for each device, the log's tail after its latest device_sync.
  std::array<std::atomic<std::uint64_t>, 256> clean_{};
  std::atomic<std::uint32_t> lost_{0};
  std::atomic<bool> shares_{false};
  std::mutex channel_mutex_;
  std::mutex console_mutex_;
  std::mutex images_mutex_;
  std::set<call::digest> images_;
};

} // namespace vgpu::interposer
