// Steps in which a call does more than its class in the catalogue says.
#pragma once

#include "schema/catalogue/catalogue.hpp"

namespace vgpu::interposer {

/// Runs a step that appends to the log, or waits, although the class of the
/// call says otherwise. The catalogue names the occasion at each entry point
/// that can come here. checks.catalogue finds this function by its name in the
/// library, so it is never inlined. The step is rare, or it waits anyway.
template <occasion Why, class Step>
[[gnu::noinline, gnu::noclone]] auto on_occasion(const Step& step) {
  return step();
}

} // namespace vgpu::interposer
