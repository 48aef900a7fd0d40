// The environment of this process, also of one that has cleared it.
#pragma once

#include <string_view>
#include <vector>

namespace vgpu {

/// Returns the value of one of this project's variables, or null. Where the
/// process has removed the variable, as by clearenv(3), returns the value with
/// which the process was started: daemons clear their environment, and still
/// use their vGPU. A program that has more rights than the user who started it
/// has no settings, because that user would choose what runs with these rights.
/// The result is valid until the program changes its environment.
const char* setting(const char* name) noexcept;

/// Returns the entries (NAME=VALUE) with which the process was started. The
/// list is empty where the kernel does not tell.
const std::vector<std::string_view>& first_environment() noexcept;

} // namespace vgpu
