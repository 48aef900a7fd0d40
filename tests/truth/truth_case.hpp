// One case of the driver's truth: calls in a fresh process and what the real
// driver answers to them.
#pragma once

#include <cuda.h>

#include <span>
#include <string_view>

namespace vgpu::test {

/// Writes what a case sees to stdout, word by word and unbuffered: a case may
/// end by a crash, and what came before must not be lost.
class report {
public:
  /// The result's name, as in cuda.h.
  report& operator<<(CUresult result);
  report& operator<<(std::string_view word);
  report& operator<<(long long number);
  report& operator<<(int number) {
    return *this << static_cast<long long>(number);
  }

private:
  void write(std::string_view word);
  bool first_ = true;
};

/// A line of the list of truths.
struct truth_case {
  /// How the case is asked for; unique.
  const char* name;
  /// The calls in words.
  const char* calls;
  /// What the real driver answers, word by word. `#` stands for any number
  /// (it depends on the device). After `(signal 11)`, where the real driver
  /// crashes, any answer is right.
  const char* expected;
  void (*run)(report&);
  /// Why a replacement of the driver may still answer otherwise, or null.
  const char* later = nullptr;
};

std::span<const truth_case> start_cases();
std::span<const truth_case> context_cases();
std::span<const truth_case> memory_cases();
std::span<const truth_case> module_cases();
std::span<const truth_case> launch_cases();
std::span<const truth_case> stream_cases();
std::span<const truth_case> texture_cases();

/// A result's name in cuda.h, or its number: our own table, so that the
/// driver under test does not judge itself.
const char* name_of(CUresult result);

/// Ends the process with a message when a call fails that a case rests upon.
void require(CUresult result, const char* call);

/// Initialises the driver and makes device 0's primary context current.
CUdevice use_device();

/// Allocates device memory.
CUdeviceptr allocate(size_t bytes);

/// Loads the module of the kernels below.
CUmodule load_kernels();

/// Of that module: `nothing()`, `store(u64 address, u32 value)`, `bounded()`
/// with .maxntid 64, `trap_now()`; and the global `table` of 16 bytes.
CUfunction kernel(CUmodule module, const char* name);

/// Launches `store` with one thread.
CUresult launch_store(CUfunction store, CUdeviceptr address, unsigned value);

} // namespace vgpu::test
