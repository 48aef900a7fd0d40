#include "interposer/exports/symbols.hpp"

#include <array>

extern "C" {
#define VGPU_CALL(symbol, base, version, flavour, served, more, why, ...)      \
  __attribute__((visibility("default"))) void symbol();
#include "schema/catalogue/catalogue.def"
#undef VGPU_CALL
}

namespace vgpu::interposer {

namespace {

using any_function = void (*)();

constexpr std::array all = {
#define VGPU_CALL(symbol, base, version, flavour, served, more, why, ...)      \
  any_function{&symbol},
#include "schema/catalogue/catalogue.def"
#undef VGPU_CALL
};

} // namespace

void* symbol_address(std::size_t index) noexcept {
  return reinterpret_cast<void*>(all.at(index));
}

} // namespace vgpu::interposer
