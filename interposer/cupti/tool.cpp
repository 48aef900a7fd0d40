#include "interposer/cupti/tool.hpp"

#include "interposer/cupti/call_watch.hpp"
#include "interposer/session/bridge_search.hpp"

namespace vgpu::cupti {

using interposer::cupti_bridge;

tool& here() noexcept {
  static auto& x = *new tool;
  return x;
}

const cupti_bridge* driver() noexcept {
  static std::atomic<const cupti_bridge*> known{nullptr};
  const auto* out = known.load();
  if (out == nullptr) {
    out = interposer::find_bridge<cupti_bridge>(interposer::cupti_bridge_id);
    known.store(out);
  }
  return out;
}

std::optional<listening> subscriber_of(domain in, std::uint32_t number) {
  auto& x = here();
  std::lock_guard guard{x.mutex};
  if (!x.one.is_active || number >= most_functions ||
      !x.one.enabled[static_cast<std::size_t>(in)][number])
    return std::nullopt;
  return listening{x.one.call, x.one.user};
}

code apply_wishes(tool& x) {
  const auto* by = driver();
  if (by == nullptr)
    return code::not_initialized;
  auto on = [&](kind what) { return x.kinds[static_cast<std::size_t>(what)]; };
  auto wants_some = x.of_driver.wanted.any() || x.of_runtime.wanted.any();
  auto wants_work = x.kinds.any() || wants_some;
  x.wants_records = wants_work;
  x.wants_calls = on(kind::driver) || on(kind::runtime) || wants_some ||
                  on(kind::external_correlation);
  auto hears = [&](domain of) {
    return x.one.is_active && x.one.enabled[static_cast<std::size_t>(of)].any();
  };
  x.wants_callbacks = hears(domain::driver) || hears(domain::resource) ||
                      hears(domain::synchronize);
  if (by->listen(wants_work || x.wants_callbacks ? &call_watch() : nullptr) !=
      CUDA_SUCCESS)
    return code::unknown;
  return by->gather(wants_work ? 1 : 0) == CUDA_SUCCESS ? code::success
                                                        : code::unknown;
}

} // namespace vgpu::cupti
