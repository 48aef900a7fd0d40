#include "devices/cpu/run/cluster.hpp"

#include <algorithm>
#include <bit>

namespace vgpu::device::cpu {

cluster::cluster(const grid& of, unsigned processor)
    : first_{of, processor, *this, 0} {
  for (auto rank = 1u; rank < of.cluster_blocks(); ++rank)
    others_.push_back(std::make_unique<block>(of, processor, *this, rank));
}

void cluster::start(std::uint64_t number) {
  auto& of = first_.in;
  auto in_x = of.blocks.x / of.cluster.x;
  auto in_y = of.blocks.y / of.cluster.y;
  index = {static_cast<std::uint32_t>(number % in_x),
           static_cast<std::uint32_t>(number / in_x % in_y),
           static_cast<std::uint32_t>(number / in_x / in_y)};
  live_ = 0;
  arrived_ = 0;
  failed_ = &first_;
  each([&](block& b) {
    auto& at = b.in_cluster;
    b.start({index.x * of.cluster.x + at.x, index.y * of.cluster.y + at.y,
             index.z * of.cluster.z + at.z});
    live_ += b.live;
  });
}

block::state cluster::run() {
  if (!others_.empty())
    return run_all();
  auto out = first_.run();
  if (out != block::state::stuck) [[likely]]
    return out;
  first_.fail_as_stuck();
  return block::state::failed;
}

block::state cluster::run_all() {
  auto ran = false;
  auto idle = true;
  block* left = nullptr;
  auto failed = false;
  each([&](block& b) {
    if (b.live == 0 || failed)
      return;
    auto how = b.run();
    ran = ran || how != block::state::stuck;
    idle = idle && (how == block::state::idle || how == block::state::stuck);
    failed = how == block::state::failed;
    if (failed)
      failed_ = &b;
    if (b.live != 0)
      left = &b;
  });
  if (failed)
    return block::state::failed;
  if (left == nullptr)
    return block::state::done;
  if (ran)
    return idle ? block::state::idle : block::state::going;
  left->fail_as_stuck();
  failed_ = left;
  return block::state::failed;
}

warp::clock::time_point cluster::sleeps_until() const noexcept {
  auto out = first_.sleeps_until();
  for (const auto& b : others_)
    out = std::min(out, b->sleeps_until());
  // Where none can continue, run() has to find that out.
  return out == warp::clock::time_point::max() ? warp::clock::time_point{}
                                               : out;
}

void cluster::count_executed() {
  each([](block& b) { b.count_executed(); });
}

const block* cluster::running(std::uint64_t rank) const noexcept {
  if (rank > others_.size())
    return nullptr;
  auto out = rank == 0 ? &first_ : others_[rank - 1].get();
  return out->live != 0 ? out : nullptr;
}

void cluster::arrive(warp& w) {
  auto fresh = w.mask & ~w.at_cluster;
  w.at_cluster |= fresh;
  arrived_ += static_cast<std::uint32_t>(std::popcount(fresh));
  if (arrived_ == live_)
    complete();
}

void cluster::threads_exited(std::uint32_t count, std::uint32_t had_arrived) {
  live_ -= count;
  arrived_ -= had_arrived;
  if (arrived_ != 0 && arrived_ == live_)
    complete();
}

void cluster::complete() {
  arrived_ = 0;
  each([](block& b) { b.cluster_met(); });
}

} // namespace vgpu::device::cpu
