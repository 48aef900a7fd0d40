#include "actors/worker/session/zero_copy_shadow.hpp"

#include "actors/worker/session/worker_bounds.hpp"
#include "schema/base/cuda_fault.hpp"
#include "schema/base/round_up.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace vgpu {

namespace {

/// Returns the memory, to which kernels write meanwhile.
std::byte* memory_at(device_address x) {
  return reinterpret_cast<std::byte*>(x); // NOLINT: the host window's
}

} // namespace

void zero_copy_shadow::allow(std::uint64_t quota) {
  std::lock_guard guard{mutex_};
  quota_ = quota;
}

status zero_copy_shadow::watch(device_address address, std::uint64_t bytes,
                               bool replayed) {
  std::lock_guard guard{mutex_};
  drop(address);
  constexpr auto most_pieces = worker_bounds::pieces_in_place;
  auto most_bytes = worker_bounds::used_in_place(quota_);
  auto size = round_up(std::min(bytes, most_bytes), changed_line::bytes);
  if (ranges_.size() >= most_pieces || bytes > most_bytes ||
      bytes_ + size > most_bytes)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      "kernels use more host memory in place than " +
                          std::to_string(most_pieces) + " pieces, or " +
                          std::to_string(most_bytes >> 20) +
                          " MiB, 1 GiB more than the quota");
  range x{std::vector<std::byte>(size), replayed};
  std::memcpy(x.before.data(), memory_at(address), x.before.size());
  bytes_ += x.before.size();
  ranges_.emplace(address, std::move(x));
  any_ = true;
  return {};
}

/// Requires the lock.
void zero_copy_shadow::drop(device_address address) {
  if (auto gone = ranges_.extract(address))
    bytes_ -= gone.mapped().before.size();
  any_ = !ranges_.empty();
}

void zero_copy_shadow::forget(device_address address) {
  if (!any())
    return;
  std::lock_guard guard{mutex_};
  drop(address);
}

status zero_copy_shadow::write(std::span<const changed_line> lines) {
  std::lock_guard guard{mutex_};
  for (auto& x : lines) {
    auto next = ranges_.upper_bound(x.address);
    auto known = next == ranges_.begin() ? ranges_.end() : std::prev(next);
    if (known == ranges_.end() || x.address % changed_line::bytes != 0 ||
        x.address - known->first >= known->second.before.size())
      return cuda_fault(
          CUDA_ERROR_INVALID_VALUE,
          "the program's writes are outside of the host memory that kernels "
          "use in place");
    auto* to = memory_at(x.address);
    auto* before = &known->second.before[x.address - known->first];
    each_change(x, [&](std::size_t i, std::byte now) {
      to[i] = now;
      before[i] = now;
    });
  }
  return {};
}

void zero_copy_shadow::restored() {
  std::lock_guard guard{mutex_};
  for (auto& [address, x] : ranges_)
    x.untold = true;
}

std::vector<changed_line> zero_copy_shadow::changes() {
  std::vector<changed_line> out;
  if (!any())
    return out;
  std::lock_guard guard{mutex_};
  for (auto& [address, x] : ranges_)
    take_changes({memory_at(address), x.before.size()}, x.before, address,
                 std::exchange(x.untold, false), out);
  return out;
}

} // namespace vgpu
