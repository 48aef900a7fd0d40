// Who waits, where more memory may be promised than there is.
#pragma once

#include "policies/simulator/waiting_queue.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace vgpu::simulator {

/// The queue as the manager has it: of those who never ran, in order, as many
/// as may be promised their memory go before the others, whom nobody makes room
/// for. Who ran was promised it long ago.
class promised_queue {
public:
  using rank = waiting_queue::rank;
  using lane = waiting_queue::lane;
  using verdict = waiting_queue::verdict;

  /// `bytes` may be promised in all; without it, whatever is asked for.
  promised_queue() = default;
  explicit promised_queue(double bytes) : left_(bytes) {}

  /// `bytes` is what it is to be promised; none to who was promised it.
  void insert(const rank& x, lane in, double bytes) {
    if (!counts() || bytes <= 0)
      return first_.insert(x, in);
    // Those that are promised are the first of all.
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
  /// It has been promised memory, or (less than 0) needs it no more.
  void promise(double bytes) { left_ -= bytes; }
  /// Sees who is promised memory, after any of these.
  void settle();

  std::size_t size() const noexcept { return first_.size() + behind_.size(); }
  bool is_last(const rank& x) const {
    return behind_.size() == 0 && first_.is_last(x);
  }
  /// As of a waiting_queue.
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
  /// The same of those alone for whom room is made; it takes nobody away.
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
  std::map<rank, waiting_for> promised_; // of first_, those who never ran
  std::map<rank, waiting_for> beyond_;   // all of behind_
  double left_ = unlimited;              // to be promised
};

} // namespace vgpu::simulator
