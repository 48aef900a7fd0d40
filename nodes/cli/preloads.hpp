// The libraries that `vgpu run` preloads into its program.
#pragma once

#include <string>

namespace vgpu::command {

/// Returns whether a library may be preloaded into the program in this file: a
/// script, or a 64-bit program of glibc that no sanitizer's library has to
/// precede.
bool may_preload(const std::string& program);

/// Returns the value of LD_PRELOAD that begins as it was and also names
/// libcupti.so.12 and .13 of `folder`, as far as these files exist. A library
/// that is loaded already is taken wherever a program looks for one of its
/// name, even where an RPATH leads to another file.
std::string with_own_cupti(const std::string& before,
                           const std::string& folder);

} // namespace vgpu::command
