#include "devices/nvidia/streams/device_timeline.hpp"

#include "devices/nvidia/driver/own_kernel.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vgpu::device::nvidia {

namespace {

/// At this many spans without a settle(), the last span grows in place of a new
/// one.
constexpr std::size_t most_closed = 1024;

constexpr double ns_per_ms = 1e6;
/// After a pause of this length, counting starts anew: the driver reports a
/// float, whose last digit is then a tenth of a microsecond.
constexpr float far_ms = 1000;

/// One thread reads the GPU's clock until a fixed number of nanoseconds has
/// passed, so it ends without the host.
const char* const delay_ptx = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .entry delay()
{
  .reg .pred %p;
  .reg .b64 %now, %until;

  mov.u64 %until, %globaltimer;
  add.u64 %until, %until, 1000000;
look:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %p, %now, %until;
  @%p bra look;
  ret;
}
)";

} // namespace

status timeline::load() {
  auto kernels = load_own_kernels(api_, delay_ptx, {"delay"});
  if (!kernels)
    return kernels.why();
  delay_ = kernels->front();
  return {};
}

/// Begins a span. If that fails, the work is not timed.
void timeline::open(span& x, CUstream in) {
  if (std::exchange(delays_, false) && delay_ != nullptr)
    (void)api_->cuLaunchKernel(delay_, 1, 1, 1, 1, 1, 1, 0, in, nullptr,
                               nullptr);
  auto taken = pool_.take(true);
  if (!taken || api_->cuEventRecord(taken->get(), in) != CUDA_SUCCESS)
    return;
  x = {std::move(*taken), whom_};
}

void timeline::close(span& x, CUstream in) {
  auto began = std::exchange(x.began, nullptr);
  auto taken = pool_.take(true);
  if (!taken || api_->cuEventRecord(taken->get(), in) != CUDA_SUCCESS)
    return;
  std::lock_guard guard{mutex_};
  if (closed_.size() < most_closed)
    closed_.push_back({std::move(began), std::move(*taken), x.whom});
  else
    closed_.back().ended = std::move(*taken);
}

/// Takes the spans that are done. Spans that are not done stay for the next
/// call.
std::vector<timeline::measured> timeline::take_done() {
  std::vector<measured> out;
  auto from = counted_until_;
  while (!closed_.empty()) {
    auto& x = closed_.front();
    auto begin = 0.0f, length = 0.0f;
    auto code = api_->cuEventElapsedTime(&length, x.began.get(), x.ended.get());
    if (code == CUDA_SUCCESS && from)
      code = api_->cuEventElapsedTime(&begin, from.get(), x.began.get());
    if (code == CUDA_ERROR_NOT_READY)
      break;
    if (out.empty() && (!from || begin > far_ms)) {
      counted_until_.reset();
      from = x.began;
      begin = 0;
    }
    // After an error no span is ever done, and the process ends.
    if (code == CUDA_SUCCESS)
      out.push_back({begin, length, x.whom, std::move(x.ended)});
    closed_.pop_front();
  }
  return out;
}

void timeline::settle() {
  std::lock_guard guard{mutex_};
  auto done = take_done();
  // The spans are in the order in which callers asked for their ends.
  std::ranges::sort(done, {}, &measured::begin);
  auto until = 0.0;
  auto since = -covered_;
  for (auto& x : done) {
    auto end = x.begin + x.length;
    auto before = std::max(std::min(end, since) - x.begin, 0.0);
    auto behind = std::max(end - std::max(x.begin, until), 0.0);
    auto alone = !counted_until_ || x.begin > until;
    totals_[static_cast<std::size_t>(x.whom)] +=
        std::llround(ns_per_ms * (alone ? x.length : before + behind));
    since = alone ? x.begin : std::min(since, x.begin);
    if (alone || behind > 0) {
      until = end;
      counted_until_ = std::move(x.ended);
    }
  }
  covered_ = until - since;
}

} // namespace vgpu::device::nvidia
