// The driver API as this library declares it. All symbols are hidden but the
// functions that cuda.h and cudaProfiler.h declare, and the compiler decides
// whether they are where it meets those headers first. A file that defines such
// functions therefore includes this one, or interposer/api/entry.hpp, which
// does, before anything else.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop
