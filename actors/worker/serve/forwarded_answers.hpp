// Answers for a program on another host. They are numbered, kept until the
// client acknowledges them, and sent again when it reconnects without them.
#pragma once

#include "actors/link/data_head.hpp"
#include "actors/worker/session/answers.hpp"
#include "actors/worker/session/zero_copy_shadow.hpp"

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace vgpu {

/// Holds an answer to send: the head, and the payload if there is one.
struct outbound_answer {
  data::answer head;
  std::span<const std::byte> payload;
  std::shared_ptr<const void> owner;
};

/// Keeps the answers of a forwarded session. Completions add answers and ring;
/// the thread that owns the socket takes them. Thread-safe.
class forwarded_answers final : public answer_sink {
public:
  /// Calls `ring`, on any thread, to wake the thread that sends. Within a host
  /// fewer bytes are kept under way.
  explicit forwarded_answers(std::function<void()> ring,
                             bool within_host = false)
      : ring_(std::move(ring)), within_host_(within_host) {}

  /// Sends what kernels wrote into this memory before each answer. Call it
  /// before the first answer.
  void tell_of(std::shared_ptr<zero_copy_shadow> memory) {
    zero_copy_ = std::move(memory);
  }

  /// Sends what kernels have written there by now.
  void tell_now();
  /// Begins a replay, in which that memory has old contents. Until release()
  /// nothing of it is sent, and no answer that would come after it.
  void hold();
  /// Ends hold(), because the work that the program knew to be done is done.
  void release();

  // -- for the thread that sends ----------------------------------------------

  /// Records that a client attached. A call before `replay_until` needs an
  /// answer only if it is in the client's list.
  void attached(const data::attach& by);
  /// Records that the client has the answers up to this number.
  void acknowledge(std::uint64_t number);
  /// Sends all unacknowledged answers again.
  void rewind();
  /// Returns the next answer to send.
  std::optional<outbound_answer> next();
  /// Makes next() return its latest answer again, which found no room.
  void take_back();
  /// Returns whether so much is under way that no more calls should be
  /// executed.
  bool congested(bool behind_program) const;
  std::uint64_t count() const;
  /// Returns the highest number that was acknowledged.
  std::uint64_t acknowledged() const;

  // -- answer_sink ------------------------------------------------------------

  bool wanted(const waiter& who) const override;
  void answer(const waiter& who, CUresult result, std::uint64_t value) override;
  result<landing> land(call::arena_range range, std::uint64_t bytes) override;
  bool keeps_digests() const override { return true; }
  std::uint64_t part_of(std::uint64_t bytes) const override;
  void deliver_part(const waiter& who, const landing& what,
                    std::uint64_t arena_offset) override;
  void deliver(const waiter& who, CUresult result, std::uint64_t value,
               const landing& what, std::uint64_t arena_offset,
               std::uint32_t digest) override;
  landing land_host(device_address address, std::uint64_t bytes) override;
  void deliver_host(const waiter& who, CUresult result, device_address address,
                    const landing& what, std::uint32_t digest) override;
  void call_host(const waiter& who) override;
  void print(console where, std::uint64_t position,
             std::string_view text) override;
  void sticky(CUresult error) override;

private:
  void add(data::answer head, const landing& what);
  void add_behind_kernels(const data::answer& head, const landing& what);
  void keep(data::answer head, const landing& what);
  void tell_zero_copy();
  landing make_landing(std::uint64_t bytes);

  std::function<void()> ring_;
  bool within_host_;
  std::shared_ptr<zero_copy_shadow> zero_copy_; // may be null
  /// Orders answers after the kernels' writes that come before them. It guards
  /// holds_ and held_.
  std::mutex telling_;
  bool holds_ = false;
  std::vector<std::pair<data::answer, landing>> held_;
  mutable std::mutex lock_;
  std::uint64_t acknowledged_ = 0;
  std::deque<outbound_answer> kept_; // unacknowledged, in order of number
  std::size_t sent_ = 0;             // how many of kept_ were sent
  std::uint64_t last_number_ = 0;
  // Counts the bytes of all landings, which may outlive this object.
  std::shared_ptr<std::atomic<std::uint64_t>> landed_bytes_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::uint64_t replay_until_ = 0;
  std::map<std::uint64_t, slot_index> waiting_;
};

} // namespace vgpu
