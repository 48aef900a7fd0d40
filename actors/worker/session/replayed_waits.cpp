#include "actors/worker/session/replayed_waits.hpp"

#include <algorithm>
#include <atomic>

namespace vgpu {

/// Stops a stream, which continues when it has arrived here and open() was
/// called.
struct replayed_waits::gate {
  place in;
  latch arrived;
  std::function<void()> go_on; // set before `arrived` opens

  /// Captures only this gate's own member, because a shared_ptr would form a
  /// cycle.
  void open() {
    arrived.when_open([this] { go_on(); });
  }
};

std::shared_ptr<latch> replayed_waits::now_in(device::device& on,
                                              place in) const {
  if (in.stream == legacy_stream)
    if (auto known = legacy_before(in.ordinal); known)
      return known;
  auto out = std::make_shared<latch>();
  on.when_done(in.stream, [out](CUresult) { out->open(); });
  return out;
}

std::shared_ptr<latch> replayed_waits::before(place in) const {
  if (auto held = held_.find(in); held != held_.end())
    return held->second.front().before;
  return in.stream == legacy_stream ? legacy_before(in.ordinal) : nullptr;
}

/// Does so for the legacy stream and calls in blocking streams.
std::shared_ptr<latch>
replayed_waits::legacy_before(std::size_t ordinal) const {
  for (auto& [in, obstacles] : held_)
    for (auto& x : obstacles)
      if (in.ordinal == ordinal && x.legacy_before)
        return x.legacy_before;
  return nullptr;
}

/// Records that the next work in the stream waits for these calls. On a GPU the
/// legacy stream then waits for a blocking one, and each blocking stream for
/// the legacy one, so those are examined before that.
void replayed_waits::hold(device::device& on, place in,
                          const std::vector<call_number>& calls,
                          const std::shared_ptr<latch>& before,
                          const stream_set& blocking) {
  std::shared_ptr<latch> legacy;
  if (blocking.contains(in.stream))
    legacy = now_in(on, {in.ordinal, legacy_stream});
  for (auto& x : calls)
    held_[in].push_back({x, before, legacy});
  if (in.stream == legacy_stream)
    for (auto other : blocking)
      inherit(on, {in.ordinal, other}, calls, blocking);
}

status replayed_waits::begin(device::device& on, place in, call_number call,
                             const stream_set& blocking) {
  auto made = std::make_shared<gate>();
  auto before = std::make_shared<latch>();
  made->in = in;
  gates_.emplace(call.value, made);
  hold(on, in, {call}, before, blocking);
  auto ok =
      on.enqueue_host(in.stream, [made, before](std::function<void()> go_on) {
        made->go_on = std::move(go_on);
        before->open();
        made->arrived.open();
      });
  if (!ok) {
    gates_.erase(call.value);
    forget(call);
  }
  return ok;
}

void replayed_waits::stops(device::device& on, place in, call_number call,
                           const stream_set& blocking) {
  stops_.insert(call.value);
  stands(on, in, call, blocking);
}

void replayed_waits::stands(device::device& on, place in, call_number call,
                            const stream_set& blocking) {
  hold(on, in, {call}, now_in(on, in), blocking);
}

bool replayed_waits::stays(place in) const {
  auto held = held_.find(in);
  return held != held_.end() &&
         std::any_of(held->second.begin(), held->second.end(),
                     [&](auto& x) { return stops_.contains(x.call.value); });
}

bool replayed_waits::stays(std::size_t ordinal, event_id event) const {
  auto its = events_.find({ordinal, event});
  return its != events_.end() &&
         std::any_of(its->second.begin(), its->second.end(),
                     [&](auto& x) { return stops_.contains(x.value); });
}

void replayed_waits::forget(call_number call) {
  stops_.erase(call.value);
  for (auto& [where, obstacles] : held_)
    std::erase_if(obstacles, [&](auto& x) { return x.call == call; });
  std::erase_if(held_, [](auto& x) { return x.second.empty(); });
  for (auto& [event, calls] : events_)
    std::erase(calls, call);
  std::erase_if(events_, [](auto& x) { return x.second.empty(); });
}

bool replayed_waits::end(call_number call, std::span<const streams_of> all) {
  auto found = gates_.find(call.value);
  if (found == gates_.end()) {
    forget(call);
    return false;
  }
  auto its = found->second;

  // Streams that wait for this wait are not awaited, but the work before them
  // is.
  struct counter {
    std::atomic<std::size_t> missing{1};
    std::shared_ptr<gate> opens;
    void one() {
      if (missing.fetch_sub(1) == 1)
        opens->open();
    }
  };
  auto rest = std::make_shared<counter>();
  rest->opens = its;
  for (std::size_t d = 0; d < all.size(); ++d)
    for (auto stream : all[d].streams) {
      if (place{d, stream} == its->in)
        continue;
      ++rest->missing;
      auto work = before({d, stream});
      if (!work)
        work = now_in(*all[d].on, {d, stream});
      work->when_open([rest] { rest->one(); });
    }

  gates_.erase(found);
  forget(call);
  rest->one();
  return true;
}

std::vector<call_number> replayed_waits::calls_at(place in) const {
  std::vector<call_number> out;
  if (auto held = held_.find(in); held != held_.end())
    for (auto& x : held->second)
      out.push_back(x.call);
  return out;
}

void replayed_waits::inherit(device::device& on, place in,
                             const std::vector<call_number>& calls,
                             const stream_set& blocking) {
  auto known = calls_at(in);
  std::vector<call_number> added;
  for (auto& x : calls)
    if (std::find(known.begin(), known.end(), x) == known.end())
      added.push_back(x);
  if (!added.empty())
    hold(on, in, added, now_in(on, in), blocking);
}

void replayed_waits::recorded(std::size_t ordinal, event_id event,
                              stream_id in) {
  auto calls = calls_at({ordinal, in});
  if (calls.empty())
    events_.erase({ordinal, event});
  else
    events_[{ordinal, event}] = std::move(calls);
}

void replayed_waits::waits(device::device& on, place in, std::size_t ordinal,
                           event_id event, const stream_set& blocking) {
  if (auto its = events_.find({ordinal, event}); its != events_.end())
    inherit(on, in, std::vector{its->second}, blocking);
}

void replayed_waits::waits(device::device& on, place in, stream_id other,
                           const stream_set& blocking) {
  inherit(on, in, calls_at({in.ordinal, other}), blocking);
}

} // namespace vgpu
