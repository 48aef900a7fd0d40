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

std::shared_ptr<latch>
replayed_waits::legacy_before(std::size_t ordinal) const {
  for (auto& [in, obstacles] : held_)
    for (auto& x : obstacles)
      if (in.ordinal == ordinal && x.legacy_before)
        return x.legacy_before;
  return nullptr;
}

std::shared_ptr<latch> replayed_waits::legacy_of(device::device& on, place in,
                                                 bool blocking) const {
  if (!blocking || in.stream == legacy_stream)
    return nullptr;
  return now_in(on, {in.ordinal, legacy_stream});
}

status replayed_waits::begin(device::device& on, place in, call_number call,
                             bool blocking) {
  auto made = std::make_shared<gate>();
  auto before = std::make_shared<latch>();
  made->in = in;
  // The legacy stream is examined before it would wait for this one.
  obstacle held{call, before, legacy_of(on, in, blocking)};
  auto ok =
      on.enqueue_host(in.stream, [made, before](std::function<void()> go_on) {
        made->go_on = std::move(go_on);
        before->open();
        made->arrived.open();
      });
  if (!ok)
    return ok;
  gates_.emplace(call.value, std::move(made));
  held_[in].push_back(std::move(held));
  return {};
}

void replayed_waits::stops(device::device& on, place in, call_number call,
                           bool blocking) {
  held_[in].push_back({call, now_in(on, in), legacy_of(on, in, blocking)});
}

bool replayed_waits::stays(place in) const {
  auto held = held_.find(in);
  return held != held_.end() &&
         std::any_of(held->second.begin(), held->second.end(),
                     [&](auto& x) { return !gates_.contains(x.call.value); });
}

bool replayed_waits::stays(std::size_t ordinal, event_id event) const {
  auto its = events_.find({ordinal, event});
  return its != events_.end() &&
         std::any_of(its->second.begin(), its->second.end(),
                     [&](auto& x) { return !gates_.contains(x.value); });
}

void replayed_waits::forget(call_number call) {
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
      auto held = held_.find({d, stream});
      auto before = held != held_.end() ? held->second.front().before
                                        : now_in(*all[d].on, {d, stream});
      before->when_open([rest] { rest->one(); });
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
                             const std::vector<call_number>& calls) {
  if (calls.empty())
    return;
  auto known = calls_at(in);
  auto is_known = [&](auto& x) {
    return std::find(known.begin(), known.end(), x) != known.end();
  };
  if (std::all_of(calls.begin(), calls.end(), is_known))
    return;
  auto before = now_in(on, in);
  for (auto& x : calls)
    if (!is_known(x))
      held_[in].push_back({x, before});
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
                           event_id event) {
  if (auto its = events_.find({ordinal, event}); its != events_.end())
    inherit(on, in, its->second);
}

void replayed_waits::waits(device::device& on, place in, stream_id other) {
  inherit(on, in, calls_at({in.ordinal, other}));
}

} // namespace vgpu
