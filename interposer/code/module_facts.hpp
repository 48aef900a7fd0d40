// The worker's answer to the loading of a module.
#pragma once

#include "interposer/code/module.hpp"
#include "schema/base/fault.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace vgpu::interposer {

/// Fills in the module's functions and globals from a ModuleFacts message
/// (data.capnp). Returns the text behind the message: the compiler's
/// information.
result<std::string> read_module_facts(std::span<const std::byte> message,
                                      module& into);

} // namespace vgpu::interposer
