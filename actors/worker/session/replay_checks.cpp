#include "actors/worker/session/replay_checks.hpp"

#include <chrono>
#include <utility>

namespace vgpu {

namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20;
constexpr std::size_t most_named = 16;

} // namespace

std::shared_ptr<std::byte[]>
replay_checks::take(std::shared_ptr<replay_checks> self, std::uint64_t bytes) {
  {
    std::unique_lock guard{self->lock_};
    auto room = [&] {
      return self->in_use_ == 0 || self->in_use_ + bytes <= most_bytes;
    };
    if (!self->given_.wait_for(guard, std::chrono::seconds{30}, room))
      return nullptr;
    self->in_use_ += bytes;
  }
  auto give = [self, bytes](std::byte* memory) {
    std::unique_ptr<std::byte[]>{memory};
    std::lock_guard guard{self->lock_};
    self->in_use_ -= bytes;
    self->given_.notify_all();
  };
  // Not zeroed: the device fills it.
  return {std::make_unique_for_overwrite<std::byte[]>(bytes).release(), give};
}

void replay_checks::compare(call_number call, std::uint32_t before,
                            std::uint32_t now) {
  if (before == now)
    return;
  std::lock_guard guard{lock_};
  ++found_.total;
  if (found_.calls.size() < most_named)
    found_.calls.push_back(call.value);
  news_ = true;
}

replay_differences replay_checks::take_differences() {
  if (!news_.load(std::memory_order_relaxed))
    return {};
  std::lock_guard guard{lock_};
  // A program that differs once differs often, so reports become ever rarer.
  news_ = false;
  if (found_.total < next_report_)
    return {};
  next_report_ = 2 * found_.total;
  return {std::exchange(found_.calls, {}), found_.total};
}

} // namespace vgpu
