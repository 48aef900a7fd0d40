// Checks a call's handles against what the session holds, by the call's field
// types alone.
#pragma once

#include "actors/state/vgpu_state.hpp"

namespace vgpu {

namespace detail {

template <class Field>
concept audited = requires(const vgpu_state& state, const Field& field) {
  { state.audit(field) } -> std::same_as<status>;
};

} // namespace detail

/// Returns the fault of the first handle of `x` that the session does not
/// allow, or success.
template <class Call>
status audit_handles(const vgpu_state& state, const Call& x) {
  status first;
  auto check = [&](const auto& field) {
    if constexpr (detail::audited<std::remove_cvref_t<decltype(field)>>)
      if (first)
        first = state.audit(field);
  };
  std::apply([&](const auto&... field) { (check(field), ...); },
             Call::fields(x));
  return first;
}

} // namespace vgpu
