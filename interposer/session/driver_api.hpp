// The driver API as this library declares it. This library hides all symbols
// but the functions that cuda.h and cudaProfiler.h declare. The compiler
// decides the visibility where it first meets those headers. A file that
// defines such functions therefore includes this one first, or
// interposer/api/entry.hpp, which includes it.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop
