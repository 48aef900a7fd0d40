// Functions of the C library that a program defines, since libraries find them
// there first: what they do otherwise is in the file that defines them. Of
// programs alone, and not under sanitizers, which do the same.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VGPU_TAKES_FUNCTIONS 0
#else
#define VGPU_TAKES_FUNCTIONS 1
#endif

#define VGPU_TAKEN extern "C" __attribute__((visibility("default")))
