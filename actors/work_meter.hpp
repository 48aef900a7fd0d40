// How long a device without a meter of its own had work of a session.
#pragma once

#include "devices/meter.hpp"
#include "schema/ids.hpp"

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
/// that is asked for when no call is at hand (unseen()). enqueued(), proof()
/// and unseen() belong to the thread that enqueues, the rest to any.
class work_meter final : public device::meter {
  using clock = std::chrono::steady_clock;

  struct account {
    std::mutex lock;
    std::atomic<std::uint64_t> enqueued{0};
    std::atomic<bool> open{false};
    clock::duration total{0};
    clock::time_point since;

    /// Work has come, which is counted already.
    void begin() {
      std::lock_guard guard{lock};
      if (!open.exchange(true))
        since = clock::now();
    }
    /// So much of it is done.
    void end(std::uint64_t done) {
      std::lock_guard guard{lock};
      if (!open.load() || enqueued.load() != done)
        return;
      total += clock::now() - since;
      open.store(false);
      // Who enqueued just now either saw that, or is seen here.
      if (enqueued.load() != done && !open.exchange(true))
        since = clock::now();
    }
  };

public:
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

  /// Work goes to the device.
  void enqueued(stream_id stream) {
    auto before = account_->enqueued.load(std::memory_order_relaxed);
    account_->enqueued.store(before + 1);
    auto fresh = !account_->open.load();
    if (fresh)
      account_->begin();
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

  std::chrono::nanoseconds busy() const override {
    std::lock_guard guard{account_->lock};
    auto now = account_->open.load() ? clock::now() - account_->since
                                     : clock::duration{0};
    return account_->total + now;
  }

private:
  std::shared_ptr<account> account_ = std::make_shared<account>();
  /// The stream of all work since the device was idle, if it is one.
  std::optional<stream_id> only_;
  std::uint64_t marked_ = 0; // so much is told of when it is done
};

} // namespace vgpu
