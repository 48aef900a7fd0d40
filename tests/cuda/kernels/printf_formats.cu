// Every format of the programming guide for printf on the device gives the same
// output as the host's printf.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <unistd.h>

// Prints the lines, for both sides.
#define LINES(say)                                                             \
  say("%d|%5d|%-5d|%05d|%+d|% d|%.3d\n", 42, 42, 42, 42, 42, 42, 7);           \
  say("%i %u %x %X %o %#x %#o\n", -1, 4000000000u, 48879u, 48879u, 8u, 255u,   \
      8u);                                                                     \
  say("%hd %ld %lld %llu\n", 1000, -5000000000L, -1LL, ~0ULL);                 \
  say("%lu %lx %llX %#llx\n", 1UL << 40, 1UL << 33, 255ULL, 1ULL << 36);       \
  say("%f|%10.2f|%-10.1f|%+.0f|%e|%.3E|%g|%G\n", 3.14159, 2.5, -2.5, 7.0,      \
      12345.678, 0.00012, 1e-7, 1e20);                                         \
  say("%a %.2f %5.1f%%\n", 1.0, double(1.25f), 99.9);                          \
  say("%c%c%c|%3c|%-3c|\n", 'a', 'b', 'c', 'x', 'y');                          \
  say("%s|%10s|%-10s|%.2s|%10.3s\n", "word", "right", "left", "cut", "both");  \
  say("%*d|%-*d|%.3f|%*.4f\n", 6, 1, 6, 2, 2.0 / 3, 9, 1.0 / 3);               \
  say("%p\n", reinterpret_cast<void*>(0x1234abcd));                            \
  say("%f %f %f\n", inf, -inf, inf - inf < 0 ? 1.0 : 0.0);                     \
  say("%%|no argument\n");                                                     \
  say("%d %s %f %c %llx %d %s %f %c %llx\n", 1, "two", 3.0, '4', 5ULL, 6,      \
      "seven", 8.0, '9', 10ULL);                                               \
  say("");                                                                     \
  say("\ttabs and \"quotes\" and \\ and \x41\n");                              \
  say("%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d "  \
      "%d %d %d %d %d %d %d\n",                                                \
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,   \
      21, 22, 23, 24, 25, 26, 27, 28, 29, 30);

__global__ void speak(double inf, int* sum) {
  int printed = 0;
#define ON_DEVICE(...) printed += printf(__VA_ARGS__)
  LINES(ON_DEVICE)
  *sum = printed;
}

static std::string text;
static void on_host(const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  text += line;
}

// A thread's message is in one piece, and the messages of a warp are in order.
// Two warps may print in any order.
__global__ void many() {
  if (threadIdx.x % 2 == 0)
    printf("thread %d says %s\n", threadIdx.x,
           threadIdx.x % 4 == 0 ? "hello" : "goodbye");
}

int main() {
  FILE* caught = tmpfile();
  int* sum;
  if (caught == nullptr || cudaMalloc(&sum, sizeof *sum) != cudaSuccess)
    return 1;
  fflush(stdout);
  int terminal = dup(1);
  dup2(fileno(caught), 1);
  speak<<<1, 1>>>(1.0 / 0.0, sum);
  cudaError_t e = cudaDeviceSynchronize();
  many<<<1, 32>>>();
  if (e == cudaSuccess)
    e = cudaDeviceSynchronize();
  fflush(stdout);
  dup2(terminal, 1);
  double inf = 1.0 / 0.0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat"
  LINES(on_host)
#pragma GCC diagnostic pop
  for (int t = 0; t < 32; t += 2)
    on_host("thread %d says %s\n", t, t % 4 == 0 ? "hello" : "goodbye");

  std::string got(std::size_t(ftell(caught)), '\0');
  rewind(caught);
  got.resize(fread(got.data(), 1, got.size(), caught));
  if (e == cudaSuccess && got == text) {
    std::printf("ok\n");
    return 0;
  }
  std::printf("%s; expected:\n%sgot:\n%s", cudaGetErrorString(e), text.c_str(),
              got.c_str());
  return 1;
}
