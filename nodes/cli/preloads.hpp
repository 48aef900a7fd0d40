// The libraries that `vgpu run` preloads into its program.
#pragma once

#include <string>

namespace vgpu::command {

/// Returns whether the program in this file is Python's interpreter or a script
/// for it. Frameworks for Python bring a CUPTI and find it by an RPATH.
bool runs_python(const std::string& program);

/// Returns the value of LD_PRELOAD that begins as it was and also names
/// libcupti.so.12 and .13 of `folder`, as far as these files exist. A library
/// that is loaded already is taken wherever a program looks for one of its
/// name, even where an RPATH leads to another file.
std::string with_own_cupti(const std::string& before,
                           const std::string& folder);

} // namespace vgpu::command
