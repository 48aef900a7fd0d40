// Answers for a program on another host: numbered, kept until the client says
// that it has them, sent again when it comes back without.
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

/// An answer on its way: head, and payload where there is one.
struct outbound_answer {
  data::answer head;
  std::span<const std::byte> payload;
  std::shared_ptr<const void> owner;
};

/// Thread-safe. Completions add answers and ring; the thread that owns the
/// socket takes them.
class forwarded_answers final : public answer_sink {
public:
  /// `ring` wakes the thread that sends; called from any thread. Within a host
  /// less needs to be on its way.
  explicit forwarded_answers(std::function<void()> ring,
                             bool within_host = false)
      : ring_(std::move(ring)), within_host_(within_host) {}

  /// What kernels wrote there is told before each answer. Before the first.
  void tell_of(std::shared_ptr<zero_copy_shadow> memory) {
    zero_copy_ = std::move(memory);
  }

  /// Tells what kernels wrote there by now.
  void tell_now();
  /// A replay begins, and that memory is as it was long ago: until release()
  /// nothing is told of it, and no answer given that would come behind.
  void hold();
  /// What the program knew to be done is done.
  void release();

  // -- the thread that sends
  // ------------------------------------------------------

  /// A client attached: calls before `replay_until` want an answer only if
  /// they are in its list.
  void attached(const data::attach& by);
  /// The client has the answers up to this number.
  void acknowledge(std::uint64_t number);
  /// Send all unacknowledged answers again.
  void rewind();
  /// The next answer to send.
  std::optional<outbound_answer> next();
  /// Too much is on the way: execute no more calls before some of it arrived.
  bool congested() const;
  std::uint64_t count() const;
  /// The highest number that was acknowledged.
  std::uint64_t acknowledged() const;

  // -- answer_sink
  // ----------------------------------------------------------------

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
  std::mutex telling_; // who answers has told all that came before; guards:
  bool holds_ = false;
  std::vector<std::pair<data::answer, landing>> held_;
  mutable std::mutex lock_;
  std::uint64_t acknowledged_ = 0;
  std::deque<outbound_answer> kept_; // unacknowledged, in order of number
  std::size_t sent_ = 0;             // of these
  std::uint64_t last_number_ = 0;
  // Of all landings that exist: they may outlive this object.
  std::shared_ptr<std::atomic<std::uint64_t>> landed_bytes_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::uint64_t replay_until_ = 0;
  std::map<std::uint64_t, slot_index> waiting_;
};

} // namespace vgpu
