// The numbers and names of functions in CUPTI's callbacks and records.
#pragma once

#include <cstdint>
#include <string_view>

namespace vgpu::cupti {

/// Returns the number of one of the driver's symbols, or 0.
std::uint32_t driver_function(std::string_view symbol) noexcept;
/// Returns the symbol with this number, or null.
const char* driver_function_name(std::uint32_t number) noexcept;

/// Returns the number of the runtime's function that calls this symbol of the
/// driver, or 0 where none does or several do.
std::uint32_t runtime_function(std::string_view symbol) noexcept;
/// Returns the name of such a function of the runtime, or null.
const char* runtime_function_name(std::uint32_t number) noexcept;

} // namespace vgpu::cupti
