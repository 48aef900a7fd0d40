// The executor, compiled for processors of level x86-64-v3.
#include "devices/cpu/exec/includes.hpp"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt,movbe")
#define VGPU_LEVEL x86_64_v3
#include "devices/cpu/exec/all.inl"
#pragma GCC pop_options
