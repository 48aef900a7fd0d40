#include "interposer/stream/stream_set.hpp"

#include "interposer/stream/stream_part.hpp"

#include <algorithm>

namespace vgpu::interposer {

void stream_set::add(stream& x) {
  std::lock_guard guard{mutex_};
  all_.push_back(&x);
  catch_up(x);
}

void stream_set::remove(stream& x) {
  std::lock_guard guard{mutex_};
  std::erase(all_, &x);
}

void stream_set::begin() {
  legacy_ = of_.is_green()
                ? make_stream(of_, CU_STREAM_NON_BLOCKING, 0)
                : std::make_unique<stream>(of_, legacy_stream, 0U, 0);
  of_.legacy = legacy_.get();
}

namespace {

/// Removes the context's objects from a table, and retires them.
template <class T, class Retire>
void clear_table(handle_table<T>& table, const context& of, Retire retire) {
  std::vector<std::uint64_t> gone;
  table.each([&](std::uint64_t handle, T& x) {
    if (&x.owner == &of)
      gone.push_back(handle);
  });
  for (auto handle : gone)
    if (auto x = table.remove(handle); x)
      retire(*x);
}

} // namespace

void stream_set::end() {
  if (of_.is_green()) {
    retire_stream(*legacy_);
    clear();
    return;
  }
  clear_table(streams(), of_, retire_stream);
  clear();
  clear_table(events(), of_, retire_event);
}

void stream_set::clear() {
  std::unique_ptr<relay> gathered, gate;
  {
    std::lock_guard guard{streams_of(of_.root).mutex_};
    all_.clear();
    gathered = std::move(gathered_);
    gate = std::move(gate_);
  }
  for (auto* x : {gathered.get(), gate.get()})
    if (x != nullptr) {
      retire_hidden_stream(*x->in);
      retire_event(*x->mark);
    }
}

void stream_set::catch_up(stream& x) {
  auto follow = [&](const context& in) {
    if (auto& gate = streams_of(in).gate_; gate)
      (void)interposer::wait(x, *gate->mark);
  };
  follow(x.owner);
  if (&x.within != &x.owner)
    follow(x.within);
}

stream_set::relay& stream_set::made(std::unique_ptr<relay>& x) {
  if (!x)
    x = std::make_unique<relay>(relay{
        make_hidden_stream(of_), make_event(of_, CU_EVENT_DISABLE_TIMING)});
  return *x;
}

std::size_t stream_set::size() {
  std::lock_guard guard{mutex_};
  return all_.size();
}

template <class F>
CUresult stream_set::each(const F& f) {
  if (!of_.is_green())
    if (auto code = f(*of_.legacy); code != CUDA_SUCCESS)
      return code;
  for (auto* x : streams_of(of_.root).all_)
    if (!of_.is_green() || &x->within == &of_)
      if (auto code = f(*x); code != CUDA_SUCCESS)
        return code;
  return CUDA_SUCCESS;
}

void stream_set::learn_done(std::uint64_t call) {
  std::lock_guard guard{streams_of(of_.root).mutex_};
  (void)each([call](stream& x) {
    auto& known = *x.done_until;
    auto now = known.load(std::memory_order_relaxed);
    while (!x.non_blocking() && now < call &&
           !known.compare_exchange_weak(now, call, std::memory_order_release))
      ;
    return CUDA_SUCCESS;
  });
}

CUresult stream_set::check_captures() {
  if (!any_capture())
    return CUDA_SUCCESS;
  auto out = CUDA_SUCCESS;
  (void)each([&](stream& x) {
    if (x.is_captured() && &x.within == &of_)
      out = stream_part::get().capture.refuse_stream(x);
    return CUDA_SUCCESS;
  });
  return out;
}

CUresult stream_set::record(event& x) {
  std::lock_guard guard{streams_of(of_.root).mutex_};
  if (&x.owner != &of_.root)
    return CUDA_ERROR_INVALID_HANDLE;
  if (auto code = check_captures(); code != CUDA_SUCCESS)
    return code;
  auto& to = made(gathered_);
  auto code = each([&](stream& s) {
    if (s.is_captured() || s.last() == 0)
      return CUDA_SUCCESS;
    auto passed = interposer::record(*to.mark, s);
    return passed == CUDA_SUCCESS ? interposer::wait(*to.in, *to.mark) : passed;
  });
  if (code != CUDA_SUCCESS)
    return code;
  x.captured_by.store(nullptr);
  return interposer::record(x, *to.in);
}

void stream_set::finish() {
  auto mark = make_event(of_, CU_EVENT_DISABLE_TIMING);
  if (record(*mark) == CUDA_SUCCESS)
    (void)synchronise(*mark);
  retire_event(*mark);
}

CUresult stream_set::wait(event& x) {
  std::lock_guard guard{streams_of(of_.root).mutex_};
  if (auto code = check_captures(); code != CUDA_SUCCESS)
    return code;
  if (x.is_captured())
    return stream_part::get().capture.refuse_event(x);
  auto& gate = made(gate_);
  if (auto code = interposer::wait(*gate.in, x); code != CUDA_SUCCESS)
    return code;
  if (auto code = interposer::record(*gate.mark, *gate.in);
      code != CUDA_SUCCESS)
    return code;
  return each([&](stream& s) {
    return s.is_captured() ? CUDA_SUCCESS : interposer::wait(s, x);
  });
}

} // namespace vgpu::interposer
