// The driver API as this library declares it, read before anything else in each
// of its files (CMakeLists.txt says so to the compiler): all symbols are hidden
// but the functions that cuda.h and cudaProfiler.h declare, and whether they
// are is decided where the compiler meets those headers first.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop
