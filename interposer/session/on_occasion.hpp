// Steps in which a call does more than its call class allows.
#pragma once

#include "schema/catalogue/catalogue.hpp"

namespace vgpu::interposer {

/// Runs a step that appends to the log, or waits, although the class of the
/// call says otherwise. The catalogue names the occasion at each entry point
/// that can reach this function. checks.catalogue finds this function by its
/// name in the library, so it is never inlined. That costs little, because the
/// step is rare or waits anyway.
template <occasion Why, class Step>
[[gnu::noinline, gnu::noclone]] auto on_occasion(const Step& step) {
  return step();
}

} // namespace vgpu::interposer
