#include "devices/nvidia/streams/work_trace.hpp"

#include <thread>
#include <utility>

namespace vgpu::device::nvidia {

namespace {

/// The driver reports a float of milliseconds, whose last digit is a tenth of a
/// microsecond after this time.
constexpr auto fixed_for = std::chrono::seconds{1};
/// An event in a stream of its own is done at once, unless the GPU hangs.
constexpr auto patience = std::chrono::milliseconds{10};
/// The clocks are compared anew where they differ by more. Below that the
/// comparison errs more than the clocks.
constexpr auto tolerance = std::chrono::microseconds{100};
/// More pieces under way than this are not traced.
constexpr std::size_t most_pieces = 65536;

std::chrono::nanoseconds of_ms(float ms) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double, std::milli>{ms});
}

} // namespace

work_trace::~work_trace() {
  drop();
  for (auto& x : pieces_)
    gpu_activities::instance().abandon(x.exact);
  (void)record(false);
}

status work_trace::record(bool on) {
  if (on == records_)
    return {};
  auto& by = gpu_activities::instance();
  if (!on) {
    records_ = false;
    by.stop();
    return {};
  }
  auto version = 0;
  (void)api_->cuDriverGetVersion(&version);
  auto ok = by.start(version);
  records_ = ok.ok();
  return ok;
}

/// Records an event aside and learns when it was. Returns null where the GPU
/// does not get to it soon.
std::shared_ptr<const work_trace::fixed_point> work_trace::fixed_now() {
  if (aside_ == nullptr &&
      api_->cuStreamCreateWithPriority(&aside_, CU_STREAM_NON_BLOCKING, 0) !=
          CUDA_SUCCESS)
    return nullptr;
  auto taken = pool_.take(true);
  if (!taken || api_->cuEventRecord(taken->get(), aside_) != CUDA_SUCCESS)
    return nullptr;
  auto until = clock::now() + patience;
  auto code = api_->cuEventQuery(taken->get());
  for (; code == CUDA_ERROR_NOT_READY && clock::now() < until;
       code = api_->cuEventQuery(taken->get()))
    std::this_thread::yield();
  if (code != CUDA_SUCCESS)
    return nullptr;
  return std::make_shared<fixed_point>(
      fixed_point{std::move(*taken), clock::now()});
}

/// Makes sure that a fixed point is near. Points follow each other by the GPU's
/// clock, so that work of one stream does not overlap where a new one is taken.
bool work_trace::fix() {
  if (fixed_ && clock::now() - fixed_->time < fixed_for)
    return true;
  auto next = fixed_now();
  if (!next)
    return fixed_ != nullptr;
  if (auto ms = 0.0f;
      fixed_ && api_->cuEventElapsedTime(&ms, fixed_->at.get(),
                                         next->at.get()) == CUDA_SUCCESS) {
    auto time =
        fixed_->time + std::chrono::duration_cast<clock::duration>(of_ms(ms));
    if (std::chrono::abs(next->time - time) <= tolerance)
      next = std::make_shared<fixed_point>(fixed_point{next->at, time});
  }
  fixed_ = std::move(next);
  return true;
}

bool work_trace::begin(CUstream in) {
  drop();
  {
    std::lock_guard guard{mutex_};
    if (pieces_.size() >= most_pieces)
      return false;
  }
  if (!fix())
    return false;
  auto taken = pool_.take(true);
  if (!taken || api_->cuEventRecord(taken->get(), in) != CUDA_SUCCESS)
    return false;
  began_ = std::move(*taken);
  if (records_)
    exact_ = gpu_activities::instance().begin();
  return true;
}

void work_trace::drop() {
  began_.reset();
  if (!exact_)
    return;
  gpu_activities::end();
  gpu_activities::instance().abandon(std::exchange(exact_, nullptr));
}

void work_trace::end(CUstream in) {
  gpu_activities::end();
  auto taken = pool_.take(true);
  if (!began_ || !span_ || !taken ||
      api_->cuEventRecord(taken->get(), in) != CUDA_SUCCESS)
    return drop();
  span_->expect();
  std::lock_guard guard{mutex_};
  pieces_.push_back({std::exchange(began_, nullptr), std::move(*taken), fixed_,
                     span_, std::exchange(exact_, nullptr)});
  under_way_ = pieces_.size();
}

/// Reports the piece if it is done. Returns false where it is not.
bool work_trace::take_times(piece& x) {
  auto begin = 0.0f, length = 0.0f;
  auto code = api_->cuEventElapsedTime(&length, x.began.get(), x.ended.get());
  if (code == CUDA_ERROR_NOT_READY)
    return false;
  if (code == CUDA_SUCCESS)
    code = api_->cuEventElapsedTime(&begin, x.from->at.get(), x.began.get());
  // After an error no piece is ever done, and the process ends.
  if (code != CUDA_SUCCESS) {
    gpu_activities::instance().abandon(x.exact);
    return true;
  }
  auto cast = [](auto time) {
    return std::chrono::duration_cast<clock::duration>(time);
  };
  auto began = x.from->time + cast(of_ms(begin));
  auto ended = began + cast(of_ms(length));
  if (x.exact) {
    gpu_activities::instance().finish(x.exact, {began, ended}, x.of);
    return true;
  }
  x.of->began(began);
  x.of->ended(ended);
  return true;
}

void work_trace::settle_pieces() {
  std::lock_guard settling{settling_};
  auto is_exact = false;
  {
    std::lock_guard guard{mutex_};
    std::erase_if(pieces_, [&](piece& x) {
      if (!take_times(x))
        return false;
      is_exact = is_exact || x.exact;
      return true;
    });
  }
  if (is_exact)
    gpu_activities::instance().collect();
  std::lock_guard guard{mutex_};
  under_way_ = pieces_.size();
}

} // namespace vgpu::device::nvidia
