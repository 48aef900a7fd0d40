// Functions that the examples share: they end the program at a CUDA error, and
// read sizes from the command line.
#pragma once

#include <cuda_runtime.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

/// Ends the program when a call of the CUDA runtime failed.
inline void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess)
    return;
  std::fprintf(stderr, "%s failed: %s (%s)\n", what, cudaGetErrorName(result),
               cudaGetErrorString(result));
  std::exit(1);
}

/// Describes one optional, positional number on the command line. `value` holds
/// the default before parse_arguments(), and the chosen value after it.
struct argument {
  const char* name;
  long* value;
  long least;
  long most;
  const char* meaning;
};

inline void print_usage(const char* program, const char* purpose,
                        const std::vector<argument>& arguments) {
  std::printf("usage: %s", program);
  for (const auto& a : arguments)
    std::printf(" [%s]", a.name);
  std::printf("\n\n%s\n\n", purpose);
  for (const auto& a : arguments)
    std::printf("  %-12s %s (%ld to %ld, default %ld)\n", a.name, a.meaning,
                a.least, a.most, *a.value);
}

/// Reads the numbers in order. `--help` prints the usage and ends the program
/// with 0. An argument that is not a number in range ends it with 2.
inline void parse_arguments(int argc, char** argv, const char* program,
                            const char* purpose,
                            const std::vector<argument>& arguments) {
  // After its name, `program` may list arguments that the program reads itself.
  int name_length = static_cast<int>(std::strcspn(program, " "));
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--help") || !std::strcmp(argv[i], "-h")) {
      print_usage(program, purpose, arguments);
      std::exit(0);
    }
  }
  if (argc - 1 > static_cast<int>(arguments.size())) {
    std::fprintf(stderr,
                 "%.*s: too many arguments; --help says what it takes\n",
                 name_length, program);
    std::exit(2);
  }
  for (int i = 1; i < argc; ++i) {
    const auto& a = arguments[i - 1];
    char* end = nullptr;
    errno = 0;
    long value = std::strtol(argv[i], &end, 10);
    if (end == argv[i] || *end || errno || value < a.least || value > a.most) {
      std::fprintf(
          stderr, "%.*s: %s must be a whole number from %ld to %ld, not '%s'\n",
          name_length, program, a.name, a.least, a.most, argv[i]);
      std::exit(2);
    }
    *a.value = value;
  }
}
