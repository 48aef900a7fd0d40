#include "devices/cpu/run/block.hpp"

#include "devices/cpu/run/cluster.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace vgpu::device::cpu {

namespace {

// Each warp gets this many turns in one run() of its block.
constexpr int rounds = 1;

std::uint32_t thread_count(const dim3& x) {
  return x.x * x.y * x.z;
}

/// Returns the place of the block with this rank (x fastest).
dim3 place_in(const dim3& of, unsigned rank) {
  return {rank % of.x, rank / of.x % of.y, rank / of.x / of.y};
}

} // namespace

block::block(const grid& of, unsigned on, cluster& part_of, unsigned number)
    : in{of}, processor{on}, unit{part_of}, rank{number},
      in_cluster{place_in(of.cluster, number)},
      own_shared_{of.cluster_blocks() == 1 ? 0 : shared_of(number)} {
  shared_bytes_ = of.entry->static_shared + std::uint64_t{of.dynamic_shared};
  if (of.of->reserved_shared != 0) {
    shared_bytes_ = (shared_bytes_ + 15) / 16 * 16;
    reserved_shared = static_cast<std::uint32_t>(shared_bytes_);
    shared_bytes_ += of.of->reserved_shared;
  }
  shared_storage_.resize(shared_bytes_ + 1024);
  auto raw = reinterpret_cast<std::uintptr_t>(shared_storage_.data());
  shared_ = shared_storage_.data() + (1024 - raw % 1024) % 1024;
  auto threads = thread_count(of.threads);
  for (auto first = 0u; first < threads; first += lanes) {
    auto w = std::make_unique<warp>(*this, first / lanes);
    w->shared = shared_;
    w->shared_bytes = shared_bytes_;
    for (auto l = 0u; l < lanes; ++l) {
      auto t = first + l;
      w->tid[0][l] = t % of.threads.x;
      w->tid[1][l] = t / of.threads.x % of.threads.y;
      w->tid[2][l] = t / of.threads.x / of.threads.y;
    }
    warps_.push_back(std::move(w));
  }
}

void block::start(const dim3& where) {
  index = where;
  live = thread_count(in.threads);
  waited_at_ = 0;
  if (std::exchange(barriers_were_used_, false))
    barriers.fill({});
  next_warp_ = 0;
  auto left = live;
  for (auto& w : warps_) {
    auto here = std::min(left, std::uint32_t{lanes});
    w->reset(*in.entry, here == lanes ? all_lanes : (1u << here) - 1);
    left -= here;
  }
}

block::state block::run() {
  auto count = static_cast<unsigned>(warps_.size());
  for (auto round = 0; round < rounds; ++round) {
    auto ran = false;
    auto idle = true;
    for (auto i = 0u; i < count; ++i) {
      auto& w = *warps_[next_warp_];
      next_warp_ = next_warp_ + 1 == count ? 0 : next_warp_ + 1;
      if (!w.runnable())
        continue;
      if (in.cancelled.load(std::memory_order_relaxed)) {
        fail(CUDA_ERROR_LAUNCH_FAILED, "the launch was cancelled");
        return state::failed;
      }
      ran = true;
      if (w.sleeps())
        continue;
      if (w.run() == stop::failed)
        return state::failed;
      idle = idle && w.waited();
      if (live != 0 && in.hurried())
        return state::going;
    }
    if (live == 0)
      return state::done;
    if (!ran)
      return state::stuck;
    if (idle)
      return state::idle;
  }
  return state::going;
}

warp::clock::time_point block::sleeps_until() const noexcept {
  auto out = warp::clock::time_point::max();
  for (const auto& w : warps_)
    if (w->runnable())
      out = std::min(out, w->sleeps_until());
  return out;
}

void block::fail_as_stuck() {
  fail(
      CUDA_ERROR_LAUNCH_TIMEOUT,
      "kernel " + in.entry->name + ": block (" + std::to_string(index.x) + "," +
          std::to_string(index.y) + "," + std::to_string(index.z) +
          ") waits at a barrier that cannot complete: " + std::to_string(live) +
          " threads are left, and not all of them reach it");
}

void block::count_executed() {
  auto sum = std::uint64_t{0};
  for (auto& w : warps_) {
    sum += w->executed;
    w->executed = 0;
  }
  in.executed.fetch_add(sum, std::memory_order_relaxed);
}

bool block::arrive(unsigned which, std::uint32_t threads,
                   std::uint32_t expected) {
  auto& b = barriers[which];
  b.arrived += threads;
  b.expected = expected;
  waited_at_ |= 1u << which;
  barriers_were_used_ = true;
  if (b.arrived < (expected != 0 ? expected : live))
    return false;
  complete(which);
  return true;
}

void block::complete(unsigned which) {
  auto& b = barriers[which];
  b.result = b.votes;
  b.voters = b.voters_now;
  b.voters_now = 0;
  b.votes = 0;
  b.arrived = 0;
  b.expected = 0;
  waited_at_ &= ~(1u << which);
  for (auto& w : warps_)
    w->release(which);
}

void block::threads_exited(std::uint32_t count, std::uint32_t at_cluster) {
  live -= count;
  for (auto m = waited_at_; m != 0; m &= m - 1) {
    auto which = static_cast<unsigned>(std::countr_zero(m));
    if (barriers[which].expected == 0 && barriers[which].arrived >= live)
      complete(which);
  }
  unit.threads_exited(count, at_cluster);
}

void block::cluster_met() {
  for (auto& w : warps_) {
    w->at_cluster = 0;
    w->release(cluster_barrier);
  }
}

void block::fail(CUresult code, std::string why) {
  if (error_ != CUDA_SUCCESS)
    return;
  error_ = code;
  why_ = std::move(why);
}

std::uint64_t block::shared_of(std::uint32_t which) const noexcept {
  // Without clusters only this block exists, and offset 0 is quickest.
  if (which == 0 && in.cluster_blocks() == 1)
    return 0;
  constexpr auto none = (aperture_bytes >> rank_shift) - 1;
  return std::min<std::uint64_t>(std::uint64_t{which} + 1, none) << rank_shift;
}

std::uint32_t block::rank_of(std::uint64_t offset) const noexcept {
  auto high = static_cast<std::uint32_t>(offset >> rank_shift);
  return high == 0 ? rank : high - 1;
}

std::byte* block::shared_at(std::uint64_t offset, std::uint64_t bytes) const {
  auto of = this;
  if (auto high = offset >> rank_shift; high != 0) {
    of = unit.running(high - 1);
    offset &= in_rank;
  }
  return of != nullptr && offset < shared_bytes_ &&
                 bytes <= shared_bytes_ - offset
             ? of->shared_ + offset
             : nullptr;
}

std::byte* block::resolve(warp& w, unsigned lane, std::uint64_t address,
                          std::uint64_t bytes) const {
  auto inside = [&](std::uint64_t aperture, std::uint64_t size) {
    auto offset = address - aperture;
    return offset < size && bytes <= size - offset;
  };
  if (inside(shared_aperture, aperture_bytes))
    return shared_at(address - shared_aperture, bytes);
  if (inside(local_aperture, w.local_bytes))
    return w.local + lane * w.local_bytes + (address - local_aperture);
  if (inside(param_aperture, in.parameters.size()))
    return const_cast<std::byte*>(in.parameters.data()) +
           (address - param_aperture);
  if (in.memory->usable(address, bytes))
    return reinterpret_cast<std::byte*>(address);
  return nullptr;
}

} // namespace vgpu::device::cpu
