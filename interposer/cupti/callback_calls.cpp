// CUPTI's functions for subscribers.
#include "interposer/cupti/activity_buffers.hpp"
#include "interposer/cupti/callback_names.hpp"
#include "interposer/cupti/cupti_entry.hpp"
#include "interposer/cupti/tool.hpp"

#include <array>

using namespace vgpu::cupti;

namespace {

bool is_domain(std::uint32_t x) noexcept {
  return x != 0 && x < domain_count;
}

bool is_ours(const subscriber* x) noexcept {
  return x == &here().one && x->is_active;
}

code subscribe(subscriber** out, callback call, void* user) {
  if (out == nullptr || call == nullptr)
    return code::invalid_parameter;
  auto& x = here();
  std::lock_guard guard{x.mutex};
  if (x.one.is_active)
    return code::multiple_subscribers_not_supported;
  x.one = {call, user, true, {}};
  *out = &x.one;
  return driver() != nullptr ? code::success : code::not_initialized;
}

template <class Change>
code change(const subscriber* of, const Change& how) {
  return entry([&] {
    auto& x = here();
    std::lock_guard guard{x.mutex};
    if (!is_ours(of))
      return code::invalid_parameter;
    how(x.one);
    return apply_wishes(x);
  });
}

} // namespace

VGPU_CUPTI(cuptiSubscribe)(subscriber** out, callback call, void* user) {
  return entry([&] { return subscribe(out, call, user); });
}
VGPU_CUPTI(cuptiSubscribe_v2)
(subscriber** out, callback call, void* user, void*) {
  return entry([&] { return subscribe(out, call, user); });
}
VGPU_CUPTI(cuptiUnsubscribe)(subscriber* of) {
  return change(of, [](subscriber& x) { x = {}; });
}

VGPU_CUPTI(cuptiEnableCallback)
(std::uint32_t on, subscriber* of, std::uint32_t in, std::uint32_t function) {
  if (!is_domain(in) || function >= most_functions)
    return code::invalid_parameter;
  return change(of, [&](subscriber& x) { x.enabled[in][function] = on != 0; });
}
VGPU_CUPTI(cuptiEnableDomain)
(std::uint32_t on, subscriber* of, std::uint32_t in) {
  if (!is_domain(in))
    return code::invalid_parameter;
  return change(of, [&](subscriber& x) {
    on != 0 ? x.enabled[in].set() : x.enabled[in].reset();
  });
}
VGPU_CUPTI(cuptiEnableAllDomains)(std::uint32_t on, subscriber* of) {
  return change(of, [&](subscriber& x) {
    for (auto& in : x.enabled)
      on != 0 ? in.set() : in.reset();
  });
}
VGPU_CUPTI(cuptiGetCallbackState)
(std::uint32_t* on, subscriber* of, std::uint32_t in, std::uint32_t function) {
  auto& x = here();
  std::lock_guard guard{x.mutex};
  if (on == nullptr || !is_ours(of) || !is_domain(in) ||
      function >= most_functions)
    return code::invalid_parameter;
  *on = x.one.enabled[in][function] ? 1 : 0;
  return code::success;
}

VGPU_CUPTI(cuptiSupportedDomains)
(std::size_t* count, const std::uint32_t** all) {
  static constexpr std::array<std::uint32_t, domain_count - 1> domains = {
      1, 2, 3, 4, 5, 6};
  if (count == nullptr || all == nullptr)
    return code::invalid_parameter;
  *count = domains.size();
  *all = domains.data();
  return code::success;
}

VGPU_CUPTI(cuptiGetCallbackName)
(std::uint32_t in, std::uint32_t function, const char** name) {
  if (name == nullptr)
    return code::invalid_parameter;
  *name = nullptr;
  if (in == static_cast<std::uint32_t>(domain::driver))
    *name = driver_function_name(function);
  else if (in == static_cast<std::uint32_t>(domain::runtime))
    *name = runtime_function_name(function);
  return *name != nullptr ? code::success : code::invalid_parameter;
}

VGPU_CUPTI(cuptiFinalize)() {
  return entry([] {
    (void)flush_all();
    auto& x = here();
    std::lock_guard guard{x.mutex};
    x.kinds.reset();
    x.of_driver = x.of_runtime = {};
    x.one = {};
    return apply_wishes(x);
  });
}
