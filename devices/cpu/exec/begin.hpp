// Opens a part of the executor: a file that is compiled once for each processor
// level, or once for all (VGPU_LEVEL plain). It has no include guard, because
// such a file includes it once, first.
#pragma once

#include "devices/cpu/exec/includes.hpp"

#define VGPU_LEVEL_x86_64_v2 2
#define VGPU_LEVEL_x86_64_v3 3
#define VGPU_LEVEL_plain 0
#define VGPU_PASTE(a, b) a##b
#define VGPU_NUMBER_OF(level) VGPU_PASTE(VGPU_LEVEL_, level)

#pragma GCC push_options
#if VGPU_NUMBER_OF(VGPU_LEVEL) == 2
#pragma GCC target("sse4.2,popcnt")
#elif VGPU_NUMBER_OF(VGPU_LEVEL) == 3
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt,movbe")
#endif

namespace vgpu::device::cpu::VGPU_LEVEL {

// The names are internal to each level, because each level compiles them
// differently.
namespace {

#include "devices/cpu/exec/core.inl"
