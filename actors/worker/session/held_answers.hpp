// Holds a worker's answers back until its replay was compared.
#pragma once

#include "actors/worker/session/answers.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Stands in front of another sink, and gives everything on to it. Between
/// hold() and release() it keeps what would tell the program something: a
/// replay that differs must not be answered at all. Thread-safe.
///
/// Bytes land where they belong meanwhile. A program that looks at its pinned
/// memory without a call may see them early.
class held_answers final : public answer_sink {
public:
  explicit held_answers(std::shared_ptr<answer_sink> to) : to_(std::move(to)) {}

  void hold();
  /// Gives on what was held, in order, and holds nothing from then on.
  void release();

  // -- answer_sink ------------------------------------------------------------

  bool wanted(const waiter& who) const override { return to_->wanted(who); }
  void answer(const waiter& who, CUresult result, std::uint64_t value) override;
  bool keeps_digests() const override { return to_->keeps_digests(); }
  result<landing> land(call::arena_range range, std::uint64_t bytes) override {
    return to_->land(range, bytes);
  }
  std::uint64_t part_of(std::uint64_t bytes) const override {
    return to_->part_of(bytes);
  }
  void deliver_part(const waiter& who, const landing& what,
                    std::uint64_t arena_offset) override;
  void deliver(const waiter& who, CUresult result, std::uint64_t value,
               const landing& what, std::uint64_t arena_offset,
               std::uint32_t digest) override;
  landing land_host(device_address address, std::uint64_t bytes) override {
    return to_->land_host(address, bytes);
  }
  void deliver_host(const waiter& who, CUresult result, device_address address,
                    const landing& what, std::uint32_t digest) override;
  void call_host(const waiter& who) override;
  void print(console where, std::uint64_t position,
             std::string_view text) override;
  void sticky(CUresult error) override;

private:
  template <class Answer>
  void give(Answer answer);

  std::shared_ptr<answer_sink> to_;
  std::atomic<bool> holds_ = false;
  std::mutex lock_; // guards held_, and the end of holding
  std::vector<std::function<void(answer_sink&)>> held_;
};

} // namespace vgpu
