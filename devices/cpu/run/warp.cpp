#include "devices/cpu/run/warp.hpp"

#include "devices/cpu/run/cluster.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace vgpu::device::cpu {

namespace {

// A quantum is this many backward branches: some milliseconds at most.
constexpr std::int32_t quantum = 4096;
// A ready group that was passed over this many times gets a turn, which lasts
// this many scheduling decisions.
constexpr std::uint32_t patience = 4096;
constexpr std::uint32_t turn = 64;
// A call takes at least this many bytes of a lane's stack.
constexpr std::uint32_t least_frame_bytes = 32;
// A host thread cannot sleep precisely for less time.
constexpr auto shortest_sleep = std::chrono::microseconds{100};
constexpr auto longest_sleep = std::chrono::milliseconds{1};
// The bytes that the frames of a warp's calls may take.
constexpr std::size_t max_frame_bytes = 64 << 20;

std::uint32_t count(lane_mask x) {
  // popcount is a call where the processor is not known to have it.
  return x == all_lanes ? lanes : static_cast<std::uint32_t>(std::popcount(x));
}

} // namespace

warp::warp(block& of, unsigned number) : blk{of}, index{number} {
  auto& entry = *of.in.entry;
  local_bytes = (entry.local_bytes + 15) / 16 * 16;
  if (entry.calls)
    local_bytes += of.in.stack_bytes;
  if (local_bytes != 0) {
    local_memory_ =
        std::make_unique_for_overwrite<std::byte[]>(local_bytes * lanes + 64);
    auto raw = reinterpret_cast<std::uintptr_t>(local_memory_.get());
    local = local_memory_.get() + (64 - raw % 64) % 64;
  }
}

void warp::reset(const code& entry, lane_mask threads) {
  free_frames_.clear();
  for (auto& x : frames_)
    free_frames_.push_back(x.get());
  waiting_ = 0;
  spin_ = 0;
  fair_left_ = 0;
  carry = 0;
  live = threads;
  at_cluster = 0;
  runnable_ = true;
  sleeps_until_ = {};
  auto first = make_frame(entry);
  first->inside = threads;
  groups_[waiting_++] = {blk.in.of->instrs.data() + entry.first,
                         first,
                         threads,
                         group::state::ready,
                         0,
                         0};
}

stop warp::run() {
  why = stop::none;
  budget = quantum;
  watched_ = 0;
  sleeps_until_ = {};
  auto at = pick();
  auto steps = executed;
  while (at != nullptr) {
    ++steps;
    at = at->fn(*this, at);
  }
  executed = steps;
  runnable_ = why == stop::quantum;
  return why;
}

const instr* warp::preempt(const instr* at) {
  park(at, group::state::ready);
  // Ageing the other groups lets lanes that wait for a passed-over neighbour
  // continue soon.
  for (auto i = 0u; i < waiting_; ++i)
    groups_[i].age += patience / 4;
  why = stop::quantum;
  return nullptr;
}

const instr* warp::sleep(std::chrono::nanoseconds time, const instr* at) {
  auto alone =
      std::all_of(groups_.begin(), groups_.begin() + waiting_,
                  [](const group& g) { return g.is == group::state::barrier; });
  if (alone && time >= shortest_sleep)
    sleeps_until_ =
        clock::now() + std::min<std::chrono::nanoseconds>(time, longest_sleep);
  return preempt(at);
}

void warp::park(const instr* at, group::state is, unsigned barrier) {
  if (is == group::state::ready) {
    for (auto i = 0u; i < waiting_; ++i) {
      auto& g = groups_[i];
      if (g.at == at && g.in == in_ && g.is == is) {
        g.mask |= mask;
        mask = 0;
        return;
      }
    }
  }
  groups_[waiting_++] = {at, in_, mask, is, static_cast<std::uint8_t>(barrier),
                         0};
  mask = 0;
}

const instr* warp::reschedule(const instr* at) {
  // In its own turn the group merges with other groups but yields to none.
  for (auto i = 0u; i < waiting_; ++i) {
    auto& g = groups_[i];
    if (g.at == at && g.in == in_ && g.is == group::state::ready) {
      mask |= g.mask;
      g = groups_[--waiting_];
      return arrive(at);
    }
  }
  if (fair_left_ != 0) {
    --fair_left_;
    return at;
  }
  auto behind = false;
  auto step = 1 + spin_;
  spin_ = 0;
  for (auto i = 0u; i < waiting_; ++i) {
    auto& g = groups_[i];
    if (g.is != group::state::ready)
      continue;
    auto first =
        g.in->depth != in_->depth ? g.in->depth > in_->depth : g.at < at;
    g.age += step;
    behind = behind || first || g.age > patience;
  }
  if (!behind)
    return at;
  park(at, group::state::ready);
  return pick();
}

const instr* warp::enter(unsigned which) {
  // The fields are copied one by one, because a wide copy of memory that was
  // just written in parts stalls.
  auto& g = groups_[which];
  auto at = g.at;
  in_ = g.in;
  regs = in_->regs;
  mask = g.mask;
  if (which != --waiting_)
    g = groups_[waiting_];
  return at;
}

const instr* warp::pick() {
  auto best = waiting_;
  auto oldest = waiting_;
  for (auto i = 0u; i < waiting_; ++i) {
    auto& g = groups_[i];
    if (g.is != group::state::ready)
      continue;
    if (oldest == waiting_ || g.age > groups_[oldest].age)
      oldest = i;
    if (best == waiting_ || g.in->depth > groups_[best].in->depth ||
        (g.in->depth == groups_[best].in->depth && g.at < groups_[best].at))
      best = i;
  }
  if (best != waiting_) {
    if (groups_[oldest].age > patience) {
      best = oldest;
      fair_left_ = turn;
    } else {
      fair_left_ = 0;
    }
    return enter(best);
  }
  // No group is ready. Lanes that wait for lanes of their own warp, which are
  // at a barrier or wait elsewhere, continue without them.
  for (auto i = 0u; i < waiting_; ++i) {
    if (groups_[i].is == group::state::sync) {
      auto at = enter(i);
      lonely_ = true;
      return at;
    }
  }
  if (why == stop::none)
    why = waiting_ == 0 ? stop::done : stop::waiting;
  return nullptr;
}

const instr* warp::diverge(lane_mask taken, const instr* to,
                           const instr* next) {
  auto rest = mask & ~taken;
  mask = rest;
  park(next, group::state::ready);
  mask = taken;
  return to <= next ? arrive_back(to) : arrive(to);
}

void warp::leave_behind(lane_mask some, const instr* at) {
  if (some == 0)
    return;
  auto rest = mask & ~some;
  mask = some;
  park(at, group::state::ready);
  mask = rest;
}

const instr* warp::exit_lanes() {
  auto gone = mask;
  auto at_cluster_gone = gone & at_cluster;
  live &= ~gone;
  at_cluster &= ~gone;
  mask = 0;
  // Lanes that wait for the exited lanes need not wait any more.
  for (auto i = 0u; i < waiting_; ++i)
    if (groups_[i].is == group::state::sync)
      groups_[i].is = group::state::ready;
  blk.threads_exited(count(gone), count(at_cluster_gone));
  return pick();
}

bool warp::gather(const std::uint32_t* members, const instr* at,
                  const instr*& next) {
  // Lanes that reached this point before join.
  for (auto i = 0u; i < waiting_;) {
    auto& g = groups_[i];
    if (g.at == at && g.in == in_ && g.is != group::state::barrier) {
      mask |= g.mask;
      g = groups_[--waiting_];
    } else {
      ++i;
    }
  }
  if ((live & ~mask) == 0) [[likely]] { // no lane is missing
    lonely_ = false;
    return true;
  }
  auto complete = lane_mask{0};
  for (auto rest = mask; rest != 0; rest &= rest - 1) {
    auto l = static_cast<unsigned>(std::countr_zero(rest));
    if ((members[l] & live & ~mask) == 0)
      complete |= 1u << l;
  }
  if (complete == mask || lonely_) {
    lonely_ = false;
    return true;
  }
  auto all = mask;
  mask = all & ~complete;
  park(at, group::state::sync);
  mask = complete;
  if (complete != 0)
    return true;
  next = pick();
  return false;
}

const instr* warp::wait_at_barrier(unsigned which, std::uint32_t threads,
                                   std::uint32_t expected, const instr* next) {
  park(next, group::state::barrier, which);
  blk.arrive(which, threads, expected);
  return pick();
}

const instr* warp::wait_for_cluster(const instr* next) {
  if ((mask & at_cluster) == 0)
    return next;
  park(next, group::state::barrier, block::cluster_barrier);
  return pick();
}

void warp::release(unsigned which) {
  for (auto i = 0u; i < waiting_; ++i) {
    auto& g = groups_[i];
    if (g.is == group::state::barrier && g.barrier == which) {
      g.is = group::state::ready;
      runnable_ = true;
      sleeps_until_ = {};
    }
  }
  if (why == stop::waiting)
    why = stop::quantum;
}

frame* warp::make_frame(const code& of) {
  for (auto& x : free_frames_) {
    if (x->of == &of) {
      auto out = x;
      x = free_frames_.back();
      free_frames_.pop_back();
      out->caller = nullptr;
      out->back = nullptr;
      out->site = nullptr;
      out->depth = 0;
      out->local_base = 0;
      out->dynamic = 0;
      return out;
    }
  }
  auto x = std::make_unique<frame>();
  x->of = &of;
  x->memory = std::make_unique<std::byte[]>(std::size_t{of.frame_bytes} +
                                            of.param_bytes + 64);
  auto raw = reinterpret_cast<std::uintptr_t>(x->memory.get());
  x->regs = x->memory.get() + (64 - raw % 64) % 64;
  x->params = x->regs + of.frame_bytes;
  if (!of.constants.empty())
    std::memcpy(x->regs, of.constants.data(), of.constants.size());
  frame_bytes_ += std::size_t{of.frame_bytes} + of.param_bytes;
  frames_.push_back(std::move(x));
  return frames_.back().get();
}

void warp::drop_frame(frame* x) {
  free_frames_.push_back(x);
}

namespace {

void copy_params(std::byte* to, const param_slot& into, const std::byte* from,
                 const param_slot& out_of, lane_mask which) {
  auto bytes = std::min(into.bytes, out_of.bytes);
  for (auto rest = which; rest != 0; rest &= rest - 1) {
    auto l = static_cast<std::size_t>(std::countr_zero(rest));
    std::memcpy(to + into.offset + l * into.bytes,
                from + out_of.offset + l * out_of.bytes, bytes);
  }
}

} // namespace

const instr* warp::call(const code& callee, const call_site& site,
                        const instr* back) {
  auto caller = in_;
  auto base = caller->local_base + (caller->of->local_bytes + 15) / 16 * 16 +
              caller->dynamic;
  if (caller->depth >= blk.in.stack_bytes / least_frame_bytes ||
      base + callee.local_bytes > local_bytes || frame_bytes_ > max_frame_bytes)
    return fail(CUDA_ERROR_ILLEGAL_ADDRESS, back - 1,
                "the call stack is exhausted");
  auto x = make_frame(callee);
  x->caller = caller;
  x->back = back;
  x->site = &site;
  x->inside = mask;
  x->depth = caller->depth + 1;
  x->local_base = base;
  for (auto i = std::size_t{0}; i < callee.parameters.size(); ++i)
    copy_params(x->params, callee.parameters[i], caller->params,
                site.arguments[i], mask);
  in_ = x;
  regs = x->regs;
  return arrive_back(blk.in.of->instrs.data() + callee.first);
}

const instr* warp::give_back(const instr*) {
  auto x = in_;
  if (x->caller == nullptr)
    return exit_lanes();
  for (auto i = std::size_t{0}; i < x->site->results.size(); ++i)
    copy_params(x->caller->params, x->site->results[i], x->params,
                x->of->results[i], mask);
  auto back = x->back;
  x->inside &= ~mask;
  in_ = x->caller;
  regs = in_->regs;
  if (x->inside == 0)
    drop_frame(x);
  return arrive(back);
}

const instr* warp::fail(int error, const instr* at, const char* what) {
  auto& of = *blk.in.of;
  auto line = of.lines[static_cast<std::size_t>(at - of.instrs.data())];
  auto lane = mask != 0 ? static_cast<unsigned>(std::countr_zero(mask)) : 0u;
  blk.fail(static_cast<CUresult>(error),
           "kernel " + blk.in.entry->name + ", block (" +
               std::to_string(blk.index.x) + "," + std::to_string(blk.index.y) +
               "," + std::to_string(blk.index.z) + "), thread (" +
               std::to_string(tid[0][lane]) + "," +
               std::to_string(tid[1][lane]) + "," +
               std::to_string(tid[2][lane]) + "), " + of.function_at(at).name +
               " line " + std::to_string(line) + " of its PTX: " + what);
  why = stop::failed;
  return nullptr;
}

} // namespace vgpu::device::cpu
