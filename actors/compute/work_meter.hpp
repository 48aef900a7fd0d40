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

/// Counts from the first work in an idle device until it is known that all of
/// it is done: by a completion that the program waits for anyhow, or by one
/// that is asked for when no call is at hand (unseen()). What begins with a
/// copy, of which most is the host's time, goes by the device's own clock, if
/// it has one. enqueued(), proof() and unseen() belong to the thread that
/// enqueues, the rest to any.
class work_meter final : public device::meter {
  using clock = std::chrono::steady_clock;

  struct account {
    device::timing_unit* times = nullptr;
    std::mutex lock;
    std::atomic<std::uint64_t> enqueued{0};
    std::atomic<bool> open{false};
    bool timed = false; // by the device; the total is what was not
    clock::duration total{0};
    clock::time_point since;
    std::chrono::nanoseconds told{0}; // by the device, when last looked at,
    clock::time_point told_at;        // and when it had grown
    std::chrono::nanoseconds shown{0};

    /// Work has come, which is counted already.
    void begin(bool by_device) {
      std::lock_guard guard{lock};
      if (open.exchange(true))
        return;
      timed = by_device;
      since = clock::now();
    }
    /// So much of it is done.
    void end(std::uint64_t done) {
      std::lock_guard guard{lock};
      if (!open.load() || enqueued.load() != done)
        return;
      if (!timed)
        total += clock::now() - since;
      open.store(false);
      // Who enqueued just now either saw that, or is seen here.
      if (enqueued.load() != done && !open.exchange(true))
        since = clock::now();
    }

    /// Of work under way, what is not told yet goes by the host's clock until
    /// it is. Never less than before.
    std::chrono::nanoseconds busy() {
      std::lock_guard guard{lock};
      auto now = clock::now();
      auto told_now = times ? times->timed(device::timed_for::account) : told;
      if (told_now != std::exchange(told, told_now))
        told_at = now;
      auto going = clock::duration{0};
      if (open.load())
        going = now - (timed ? std::max(since, told_at) : since);
      return shown = std::max(shown, total + told + going);
    }
  };

public:
  /// `times` is the device's, or null; it outlives all calls.
  explicit work_meter(device::timing_unit* times = nullptr) {
    account_->times = times;
  }

  /// What a completion passes on: that all work so far is done.
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

  /// Work goes to the device; `copies`: it is a copy that is worth two records
  /// of an event.
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

  /// To be called by a completion of this stream (none: of all streams), if it
  /// tells that the device is idle; else nothing.
  done_mark proof(std::optional<stream_id> stream) {
    auto all = !stream || only_ == stream;
    if (!all || !account_->open.load())
      return {};
    marked_ = account_->enqueued.load();
    return {account_, marked_};
  }

  /// Whether there is work whose end nobody waits for.
  bool unseen() const {
    return account_->open.load() && account_->enqueued.load() != marked_;
  }

  std::chrono::nanoseconds busy() const override { return account_->busy(); }

private:
  std::shared_ptr<account> account_ = std::make_shared<account>();
  /// The stream of all work since the device was idle, if it is one.
  std::optional<stream_id> only_;
  bool timed_ = false;       // all since then, by the device
  std::uint64_t marked_ = 0; // so much is told of when it is done
};

} // namespace vgpu
