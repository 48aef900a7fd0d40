// Functions of the C library that our programs define themselves, because the
// dynamic linker finds them in the executable first. The file that defines one
// says what it does. Only programs may do so, and not under sanitizers, which
// define the same functions.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VGPU_TAKES_FUNCTIONS 0
#else
#define VGPU_TAKES_FUNCTIONS 1
#endif

#define VGPU_TAKEN extern "C" __attribute__((visibility("default")))
