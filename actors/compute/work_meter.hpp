// How long a device without a meter of its own had work of a session.
#pragma once

#include "devices/interface/meter.hpp"
#include "devices/interface/timing_unit.hpp"
#include "schema/base/ids.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace vgpu {

/// Counts from the first work in an idle device until all of it is known to be
/// done. A completion that the program waits for shows that, or one that the
/// caller requests when no call is at hand (unseen()). A period that begins
/// with a copy, most of which is the host's time, is measured by the device's
/// own clock if it has one. enqueued(), proof() and unseen() belong to the
/// thread that enqueues. Any thread may call the others.
class work_meter final : public device::meter {
  using clock = std::chrono::steady_clock;

  struct account {
    device::timing_unit* times = nullptr;
    std::mutex lock;
    std::atomic<std::uint64_t> enqueued{0};
    std::atomic<bool> open{false};
    /// Tells whether the device measures this period. `total` holds the others.
    bool timed = false;
    clock::duration total{0};
    clock::time_point since;
    /// Holds the total that the device reported at the last read.
    std::chrono::nanoseconds reported{0};
    /// Says when `reported` grew last.
    clock::time_point changed_at;
    std::chrono::nanoseconds shown{0};

    /// Begins a period, whose first work is counted in `enqueued` already.
    void begin(bool by_device) {
      std::lock_guard guard{lock};
      if (open.exchange(true))
        return;
      timed = by_device;
      since = clock::now();
    }
    /// Ends the period if `done` pieces are all that was enqueued.
    void end(std::uint64_t done) {
      std::lock_guard guard{lock};
      if (!open.load() || enqueued.load() != done)
        return;
      if (!timed)
        total += clock::now() - since;
      open.store(false);
      // The thread that enqueued just now either saw the closed period, or this
      // check sees its work.
      if (enqueued.load() != done && !open.exchange(true))
        since = clock::now();
    }

    /// Returns the total. The host's clock measures work under way until the
    /// device reports it. The total never decreases.
    std::chrono::nanoseconds busy() {
      std::lock_guard guard{lock};
      auto now = clock::now();
      auto latest = times ? times->timed(device::timed_for::account) : reported;
      if (latest != std::exchange(reported, latest))
        changed_at = now;
      auto going = clock::duration{0};
      if (open.load())
        going = now - (timed ? std::max(since, changed_at) : since);
      return shown = std::max(shown, total + reported + going);
    }
  };

public:
  /// Takes the device's clock, or null. It must outlive all calls.
  explicit work_meter(device::timing_unit* times = nullptr) {
    account_->times = times;
  }

  /// Is called by a completion to report that all work up to its creation is
  /// done.
  class done_mark {
  public:
    done_mark() = default;
    void operator()() const {
      if (account_)
        account_->end(enqueued_);
    }

  private:
    friend work_meter;
    done_mark(std::shared_ptr<account> of, std::uint64_t enqueued)
        : account_(std::move(of)), enqueued_(enqueued) {}
    std::shared_ptr<account> account_;
    std::uint64_t enqueued_ = 0;
  };

  /// Counts work that goes to the device. `copies` marks a copy that is long
  /// enough to be worth the records of two events.
  void enqueued(stream_id stream, bool copies = false) {
    auto before = account_->enqueued.load(std::memory_order_relaxed);
    account_->enqueued.store(before + 1);
    auto fresh = !account_->open.load();
    if (fresh)
      account_->begin(timed_ = copies && account_->times != nullptr);
    if (account_->times != nullptr)
      account_->times->time(timed_ ? device::timed_for::account
                                   : device::timed_for::nobody);
    only_ = fresh || only_ == stream ? std::optional{stream} : std::nullopt;
  }

  /// Returns the mark for a completion of this stream (none: of all streams) to
  /// call. The mark does nothing where the completion does not prove that the
  /// device is idle.
  done_mark proof(std::optional<stream_id> stream) {
    auto all = !stream || only_ == stream;
    if (!all || !account_->open.load())
      return {};
    marked_ = account_->enqueued.load();
    return {account_, marked_};
  }

  /// Returns whether there is work whose end no completion reports.
  bool unseen() const {
    return account_->open.load() && account_->enqueued.load() != marked_;
  }

  std::chrono::nanoseconds busy() const override { return account_->busy(); }

private:
  std::shared_ptr<account> account_ = std::make_shared<account>();
  /// Holds the one stream of all work since the device was idle, if it is only
  /// one.
  std::optional<stream_id> only_;
  /// Tells whether the device measures this period.
  bool timed_ = false;
  /// Counts the pieces that the last proof() covers.
  std::uint64_t marked_ = 0;
};

} // namespace vgpu
