#include "interposer/context/context_limits.hpp"

#include "interposer/context/context_part.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vgpu::interposer {

namespace {

/// Returns the value that a limit begins with, which is that of an H200, or 0
/// for a limit that has none.
std::size_t first_limit(CUlimit limit) noexcept {
  switch (limit) {
  case CU_LIMIT_STACK_SIZE:
    return 1024;
  case CU_LIMIT_PRINTF_FIFO_SIZE:
    return 8650752;
  case CU_LIMIT_MALLOC_HEAP_SIZE:
    return 8388608;
  case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH: // only older devices have this limit
    return 2;
  case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
    return 2048;
  case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
    return 64;
  case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
    return 11796480;
  default:
    return 0;
  }
}

/// Returns the bytes of a device's cache that can be set aside at once: one of
/// its 16 ways, as the limits of an H200 show.
std::size_t cache_way(const context& x) {
  auto bytes = process::the_session()
                   .devices()
                   .at(x.device_index())
                   .value_of(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  return std::max<std::size_t>(
      static_cast<std::size_t>(std::max(bytes, 0)) / 16, 1);
}

/// Returns the value that a driver sets for a limit, which is at least what the
/// program asks for. A value close to the largest number becomes none smaller.
std::size_t rounded(const context& x, CUlimit limit, std::size_t value) {
  auto up = [&](std::size_t least, std::size_t step) {
    auto out = std::max(value, least);
    auto over = out % step;
    return over == 0 || out > SIZE_MAX - step ? out : out - over + step;
  };
  switch (limit) {
  case CU_LIMIT_STACK_SIZE:
    return up(0, 16);
  case CU_LIMIT_PRINTF_FIFO_SIZE:
    return up(std::size_t{512} << 10, 256);
  case CU_LIMIT_MALLOC_HEAP_SIZE:
    return up(std::size_t{4} << 20, std::size_t{64} << 10);
  case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
    return up(32, 1);
  case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
    return value == 0 ? 0 : std::max(value, cache_way(x));
  default:
    return value;
  }
}

} // namespace

void begin_limits(context& x) noexcept {
  for (int limit = 0; limit != CU_LIMIT_MAX; ++limit)
    x.limits[static_cast<std::size_t>(limit)] =
        first_limit(static_cast<CUlimit>(limit));
}

std::size_t context_registry::largest_of_others(const context& x,
                                                CUlimit limit) {
  std::size_t out = 0;
  table_.each([&](std::uint64_t, context& other) {
    if (&other != &x && other.device == x.device && !other.is_green() &&
        other.active.load())
      out = std::max(out, other.limits[limit].load());
  });
  return out;
}

CUresult context_registry::set_limit(context& x, CUlimit limit,
                                     std::size_t asked) {
  auto value = rounded(x, limit, asked);
  std::lock_guard guard{limits_mutex_};
  auto wanted = std::max(value, largest_of_others(x, limit));
  auto& has = device_limits_[x.device]
                  .try_emplace(limit, first_limit(limit))
                  .first->second;
  if (has != wanted) {
    auto& s = process::the_session();
    auto& space = s.space(x.device_index());
    auto is_heap = limit == CU_LIMIT_MALLOC_HEAP_SIZE;
    // A heap takes memory, of which nothing is promised meanwhile.
    auto held =
        is_heap ? space.hold_promises() : std::unique_lock<std::shared_mutex>{};
    auto answer =
        s.ask(call::limit_set{static_cast<std::uint32_t>(limit), wanted},
              x.device_index());
    if (answer.result != CUDA_SUCCESS)
      return answer.result;
    if (is_heap)
      space.set_heap(answer.value);
    has = wanted;
  }
  x.limits[limit] = value;
  return CUDA_SUCCESS;
}

void context_registry::end_limits(context& x) {
  begin_limits(x);
  auto last = true;
  table_.each([&](std::uint64_t, context& other) {
    last &= other.device != x.device || !other.active.load();
  });
  auto& left = context_part::get().modules_left;
  if (!last || left[x.device_index() % left.size()].load() != 0)
    return;
  std::lock_guard guard{limits_mutex_};
  device_limits_.erase(x.device);
  auto& s = process::the_session();
  s.send(call::limits_reset{}, x.device_index());
  s.space(x.device_index()).set_heap(0);
}

} // namespace vgpu::interposer
