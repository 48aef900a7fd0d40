// The executor, compiled for processors of level x86-64-v2.
#include "devices/cpu/exec/includes.hpp"

#pragma GCC push_options
#pragma GCC target("sse4.2,popcnt")
#define VGPU_LEVEL x86_64_v2
#include "devices/cpu/exec/all.inl"
#pragma GCC pop_options
