// The driver API as this library declares it, read before anything else in each
// of its files (CMakeLists.txt says so to the compiler): all symbols are hidden
// but the functions that cuda.h and cudaProfiler.h declare, and whether they
// are is decided where the compiler meets those headers first.
#pragma once

// The catalogue's stubs are declared without their arguments, which cuda.h
// would contradict.
#ifndef VGPU_WITHOUT_DRIVER_API
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop
#endif
