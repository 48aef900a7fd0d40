// NVIDIA's profiler interface, opened at run time as PyTorch and TensorFlow do.
#pragma once

#include "../check.hpp"

#include <cupti.h>
#include <dlfcn.h>

/// Returns a function of the library. Ends the program with 1 if there is none.
template <class F>
F* find(const char* name) {
  static void* library = dlopen("libcupti.so.13", RTLD_NOW);
  EXPECT(library != nullptr);
  auto* out = reinterpret_cast<F*>(dlsym(library, name));
  EXPECT(out != nullptr);
  return out;
}
#define CUPTI(name) find<decltype(name)>(#name)
