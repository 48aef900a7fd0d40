// A simulation of a host's processors and the threads of several sessions'
// devices on them, in virtual time.
#pragma once

#include "policies/compute/share.hpp"
#include "policies/compute/share_grants.hpp"
#include "tests/unit/policies/compute/share_units.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace vgpu::policy {

/// A program that launches kernels one after another.
struct tenant {
  share_claim claim{};
  /// The blocks of a kernel. 0 means four for each processor.
  unsigned blocks = 0;
  share_ns block = 125 * us;   // a block's time on one processor
  share_ns gap = 10 * us;      // from a kernel's end to the next
  unsigned threads = never_so; // at most one for each processor
  /// How long a thread works before it can be stopped. Blocks may end earlier.
  share_ns unstoppable = 20 * us;
  share_ns from = 0;
  share_ns to = never;

  static constexpr unsigned never_so = ~0u;
};

struct host_noise {
  share_ns wake = 30 * us;  // from a wake-up to being ready to run
  share_ns late = 3 * ms;   // the same for a late wake-up
  double late_part = 0.002; // the part of late wake-ups
  share_ns slice = 3 * ms;  // of the host's scheduler
  double others = 0;        // each processor's part that others use
};

/// The host's scheduler gives all ready threads equal parts of the processors,
/// in slices.
class thread_model {
public:
  share_table table;
  host_noise noise;
  share_ns now = 1 * s;

  /// Uses the policy `own`, or the one of this number.
  thread_model(unsigned processors, share_policy policy,
               const share_policy_row* own = nullptr)
      : own_(own), processors_(processors) {
    table.rules.policy = policy;
    table.rules.processors = processors;
  }

  void add(const tenant& x) {
    auto& to = programs_.emplace_back();
    to.what = x;
    if (x.blocks == 0)
      to.what.blocks = 4 * processors_;
    to.seat = seating().sit(x.claim, now);
    to.threads.resize(std::min(x.threads, processors_));
    to.next_at = now + x.from;
    governed_ = seating().contested();
    to.what.to = x.to == never ? never : now + x.to;
  }
  void set(std::size_t i, const share_claim& claim) {
    seating().set_claim(programs_[i].seat, claim, now);
    governed_ = seating().contested();
  }

  void run(share_ns span) {
    for (auto end = now + span; now < end; now += step) {
      for (auto& x : programs_)
        launch(x);
      schedule();
      if (now % ms == 0)
        for (auto& x : programs_)
          x.by_ms.push_back(x.worked);
    }
  }

  std::size_t size() const { return programs_.size(); }
  const share_claim& claim_of(std::size_t i) const {
    return programs_[i].what.claim;
  }
  /// Returns the part of the device that a program got in [from, to). Both
  /// count from the beginning.
  double got(std::size_t i, share_ns from, share_ns to) const {
    auto& all = programs_[i].by_ms;
    return static_cast<double>(all[static_cast<std::size_t>(to / ms)] -
                               all[static_cast<std::size_t>(from / ms)]) /
           static_cast<double>(to - from) / processors_;
  }
  double got_by_all(share_ns from, share_ns to) const {
    auto sum = 0.0;
    for (auto i = 0u; i < size(); ++i)
      sum += got(i, from, to);
    return sum;
  }
  /// Returns how often a thread had to wait.
  std::uint64_t waits() const { return waits_; }

private:
  static constexpr share_ns step = 10 * us;

  /// A thread that rests may begin again without asking for a while.
  enum class at { gone, waking, rests, returning, asked, ready, waiting };
  struct thread {
    at where = at::gone;
    share_ns wake_at = 0;
    share_ns left = 0;     // of its block's time
    share_ns had = 0;      // time since it was last charged
    share_ns stop_at = 0;  // time since it could last stop
    share_ns look_at = 0;  // when it next asks whether to continue
    share_ns had_ever = 0; // all time, as the host counts it
    share_ns slice = 0;    // left of the host's slice
    bool on = false;       // runs on a processor
  };
  struct program {
    tenant what;
    std::int32_t seat = 0;
    std::vector<thread> threads;
    unsigned begun = 0; // blocks begun
    unsigned ended = 0;
    bool busy = false; // a kernel runs
    bool hurried = false;
    const thread* awake = nullptr;
    share_ns next_at = 0;
    share_ns worked = 0;
    std::vector<share_ns> by_ms{0};
  };

  const share_policy_row& policy() const {
    return own_ != nullptr ? *own_ : row_of(table.rules.policy);
  }
  share_seating seating() { return share_seating{table, policy()}; }
  thread_engine engine() { return thread_engine{table, policy()}; }

  bool governed() const { return governed_; }

  share_ns wake_up() {
    return now + (chance_(random_) < noise.late_part ? noise.late : noise.wake);
  }

  void tell(const thread_outcome& what) {
    if (what.hurried.none() && what.let_in.none())
      return;
    for (auto& x : programs_) {
      auto seat = static_cast<std::size_t>(x.seat);
      x.hurried = x.hurried || what.hurried.test(seat);
      auto woken = what.woken[seat];
      for (auto& t : x.threads)
        if (woken != 0 && t.where == at::waiting) {
          --woken;
          t.where = at::asked;
          t.wake_at = wake_up();
        }
    }
  }

  void launch(program& x) {
    if (!x.busy && now >= x.next_at && now < x.what.to) {
      x.busy = true;
      x.begun = x.ended = 0;
      // Wakes a thread for each block, and prefers threads that need not ask.
      auto wanted = x.what.blocks;
      for (auto which : {at::rests, at::gone})
        for (auto& t : x.threads)
          if (t.where == which && wanted != 0) {
            --wanted;
            t.where = which == at::gone ? at::waking : at::returning;
            // The thread that ended the last kernel is still awake.
            t.wake_at = &t == x.awake ? now : wake_up();
          }
    }
    for (auto& t : x.threads)
      if (t.wake_at <= now && t.where != at::gone && t.where != at::ready)
        arrive(x, t);
  }

  void arrive(program& x, thread& t) {
    thread_outcome out;
    if (t.where == at::waking) {
      if (t.left == 0 && x.begun == x.what.blocks) {
        t.where = at::gone;
        return;
      }
      if (!governed() || engine().begin(x.seat, now, out))
        ready(x, t);
      else
        wait(x, t);
    } else if (t.where == at::returning) {
      auto look_at = t.look_at;
      ready(x, t, t.had);
      t.look_at = look_at;
      look(x, t);
    } else if (t.where == at::rests) {
      t.where = at::gone;
      if (governed())
        engine().end(x.seat, std::exchange(t.had, 0), now, out);
    } else if (t.where == at::asked) {
      if (engine().is_let_in(x.seat, now, out))
        ready(x, t);
      else
        t.where = at::waiting;
    } else if (t.where == at::waiting) {
      // A waiting thread also looks by itself.
      if (engine().is_let_in(x.seat, now, out))
        ready(x, t);
      else
        t.wake_at = engine().look_again(x.seat, now);
    }
    tell(out);
  }

  void ready(program&, thread& t, share_ns had = 0) {
    t.where = at::ready;
    t.had = had;
    t.stop_at = 0;
    t.look_at = now + ms;
    t.slice = 0;
    // A thread that slept is not owed the time that others had meanwhile.
    auto least = never;
    for (auto& p : programs_)
      for (auto& y : p.threads)
        if (y.where == at::ready && &y != &t)
          least = std::min(least, y.had_ever);
    if (least != never)
      t.had_ever = std::max(t.had_ever, least - noise.slice);
  }

  void wait(program& x, thread& t) {
    t.where = at::waiting;
    t.wake_at = engine().look_again(x.seat, now);
    ++waits_;
  }

  /// Runs the ready threads that had the least time, for a slice each.
  void schedule() {
    auto& all = ready_;
    all.clear();
    for (auto& x : programs_)
      for (auto& t : x.threads)
        if (t.where == at::ready)
          all.emplace_back(&x, &t);
    auto goes_on = [](const thread& t) { return t.on && t.slice > 0; };
    if (all.size() > processors_)
      std::stable_sort(all.begin(), all.end(), [&](auto& a, auto& b) {
        if (goes_on(*a.second) != goes_on(*b.second))
          return goes_on(*a.second);
        return a.second->had_ever < b.second->had_ever;
      });
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto& t = *all[i].second;
      auto before = std::exchange(t.on, i < processors_);
      if (!t.on)
        continue;
      if (!before || t.slice <= 0)
        t.slice = noise.slice;
      t.slice -= step;
      if (noise.others == 0 || chance_(random_) >= noise.others)
        work(*all[i].first, t);
    }
  }

  void work(program& x, thread& t) {
    if (t.left == 0) {
      if (x.begun == x.what.blocks)
        return rest(x, t);
      ++x.begun;
      t.left = x.what.block;
    }
    t.left -= std::min(step, t.left);
    t.had += step;
    t.stop_at += step;
    t.had_ever += step;
    x.worked += step;
    if (t.left == 0) {
      t.stop_at = 0;
      if (++x.ended == x.what.blocks) {
        x.busy = false;
        x.next_at = now + step + x.what.gap;
        x.awake = &t;
        return rest(x, t);
      }
    }
    look(x, t);
  }

  void look(program& x, thread& t) {
    auto can = t.left == 0 || t.stop_at >= x.what.unstoppable;
    if (!governed() || !can || (now < t.look_at && !x.hurried))
      return;
    t.look_at = now + ms;
    t.stop_at = 0;
    x.hurried = false;
    thread_outcome out;
    if (!engine().go_on(x.seat, std::exchange(t.had, 0), now, out)) {
      t.on = false;
      wait(x, t);
    }
    tell(out);
  }

  void rest(program&, thread& t) {
    t.where = at::rests;
    t.on = false;
    t.wake_at = now + 500 * us;
  }

  const share_policy_row* own_;
  bool governed_ = false;
  unsigned processors_;
  std::vector<program> programs_;
  std::vector<std::pair<program*, thread*>> ready_;
  std::uint64_t waits_ = 0;
  std::mt19937 random_{7};
  std::uniform_real_distribution<double> chance_{0, 1};
};

} // namespace vgpu::policy
