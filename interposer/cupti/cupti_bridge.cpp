#include "interposer/cupti/cupti_bridge.hpp"

#include "interposer/context/context.hpp"
#include "interposer/cupti/cupti_part.hpp"
#include "interposer/session/process.hpp"
#include "interposer/stream/stream_event.hpp"

#include <atomic>
#include <exception>

namespace vgpu::interposer {

namespace {

/// Runs a body as guarded() does, but before cuInit too.
template <class Body>
CUresult guarded_for_tool(const Body& body) noexcept {
  try {
    return body();
  } catch (const std::exception& e) {
    report_exception(e.what());
    return CUDA_ERROR_UNKNOWN;
  }
}

cupti_part& part() noexcept {
  return cupti_part::get();
}

/// Passes calls on to the tool's functions.
class forwarded_listener final : public call_listener {
public:
  void pass_to(const cupti_listener* to) noexcept { to_.store(to); }
  void begins(activity& x) noexcept override {
    if (const auto* to = to_.load(); to != nullptr)
      to->begins(&x);
  }
  void ends(const activity& x) noexcept override {
    if (const auto* to = to_.load(); to != nullptr)
      to->ends(&x);
  }

private:
  std::atomic<const cupti_listener*> to_{nullptr};
};

CUresult gather(unsigned on) noexcept {
  return guarded_for_tool([&] { return part().want_for_tool(on != 0); });
}

CUresult take(void (*each)(void*, const activity*), void* user) noexcept {
  return guarded_for_tool([&] {
    if (process::now() == phase::running)
      for (const auto& x : part().log.take(activity_reader::tool))
        each(user, &x);
    return CUDA_SUCCESS;
  });
}

std::uint64_t take_dropped() noexcept {
  return part().log.take_dropped(activity_reader::tool);
}

std::size_t waiting() noexcept {
  return part().log.size(activity_reader::tool);
}

CUresult listen(const cupti_listener* to) noexcept {
  return guarded_for_tool([&] {
    static auto& passes = *new forwarded_listener;
    passes.pass_to(to);
    part().log.listen(activity_reader::tool, to != nullptr ? &passes : nullptr);
    return CUDA_SUCCESS;
  });
}

CUresult describe_context(CUcontext handle, std::uint32_t* id,
                          std::uint32_t* device) noexcept {
  return guarded_for_tool([&] {
    auto* x = handle == nullptr ? current_context() : contexts().find(handle);
    if (x == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    *id = static_cast<std::uint32_t>(x->id.load());
    *device = x->device_index();
    return CUDA_SUCCESS;
  });
}

CUresult describe_stream(CUcontext in, CUstream handle, unsigned per_thread,
                         std::uint32_t* id) noexcept {
  return guarded_for_tool([&] {
    auto* x = in == nullptr ? current_context() : contexts().find(in);
    if (x == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    auto* s = find_stream(*x, handle, per_thread != 0);
    if (s == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    *id = static_cast<std::uint32_t>(s->wire.value);
    return CUDA_SUCCESS;
  });
}

} // namespace

const cupti_bridge& cupti_bridge_table() noexcept {
  static const cupti_bridge table{
      sizeof(cupti_bridge), &gather,         &take,
      &take_dropped,        &waiting,        &listen,
      &describe_context,    &describe_stream};
  return table;
}

} // namespace vgpu::interposer
