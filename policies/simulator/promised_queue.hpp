// The queue where more memory may be promised than exists.
#pragma once

#include "policies/simulator/waiting_queue.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace vgpu::simulator {

/// A promised_queue orders vGPUs as the manager does. Of the vGPUs that never
/// ran, those whose memory can be promised, in order, go before the others. No
/// vGPU is suspended for the others. A vGPU that ran already has its promise.
class promised_queue {
public:
  using rank = waiting_queue::rank;
  using lane = waiting_queue::lane;
  using verdict = waiting_queue::verdict;

  /// Makes a queue in which `bytes` may be promised in all. By default the
  /// promise is unlimited.
  promised_queue() = default;
  explicit promised_queue(double bytes) : left_(bytes) {}

  /// Adds an entry. `bytes` is the memory to promise, or 0 for a vGPU that was
  /// promised it already.
  void insert(const rank& x, lane in, double bytes) {
    if (!counts() || bytes <= 0)
      return first_.insert(x, in);
    // The promised entries are the first of all.
    if (!beyond_.empty() && beyond_.begin()->first < x) {
      beyond_.emplace(x, waiting_for{in, bytes});
      return behind_.insert(x, in);
    }
    promised_.emplace(x, waiting_for{in, bytes});
    left_ -= bytes;
    first_.insert(x, in);
  }
  void erase(const rank& x, lane in) {
    first_.erase(x, in);
    behind_.erase(x, in);
    forget(x);
  }
  /// Counts `bytes` as promised, or (if negative) as not needed any more.
  void promise(double bytes) { left_ -= bytes; }
  /// Decides which vGPUs are promised memory. Call it after any change.
  void settle();

  std::size_t size() const noexcept { return first_.size() + behind_.size(); }
  bool is_last(const rank& x) const {
    return behind_.size() == 0 && first_.is_last(x);
  }
  /// Does what waiting_queue::serve() does.
  template <class F>
  void serve(F f) {
    std::vector<rank> gone;
    auto noted = [&](const rank& x) {
      auto out = f(x);
      if (out.placed && counts())
        gone.push_back(x);
      return out;
    };
    first_.serve(noted);
    behind_.serve(noted);
    for (const auto& x : gone)
      forget(x);
  }
  /// Does the same, but only for the vGPUs for which room is made, and removes
  /// no entry.
  template <class F>
  void serve_promised(F f) {
    first_.serve(f);
  }

private:
  struct waiting_for {
    lane in = 0;
    double bytes = 0;
  };

  bool counts() const noexcept { return left_ < unlimited; }
  void forget(const rank& x) {
    if (auto i = promised_.find(x); i != promised_.end()) {
      left_ += i->second.bytes;
      promised_.erase(i);
    }
    beyond_.erase(x);
  }

  static constexpr auto unlimited = std::numeric_limits<double>::infinity();

  waiting_queue first_;
  waiting_queue behind_;
  /// Holds the entries of first_ that never ran.
  std::map<rank, waiting_for> promised_;
  /// Holds all entries of behind_.
  std::map<rank, waiting_for> beyond_;
  /// Holds the bytes that can still be promised.
  double left_ = unlimited;
};

} // namespace vgpu::simulator
