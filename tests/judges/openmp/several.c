/* Each device gets a part of the work, from threads of the host's. */
#include <omp.h>
#include <stdio.h>

enum { n = 9000 };

int main(void) {
  static int x[n];
  int devices = omp_get_num_devices();
  int parts = 3, wrong = 0;
#pragma omp parallel for num_threads(3)
  for (int p = 0; p < parts; ++p) {
    int device = devices == 0 ? 0 : p % devices;
    int first = p * n / parts, count = n / parts;
#pragma omp target teams distribute parallel for device(device)                \
    map(tofrom                                                                 \
        : x [first:count])
    for (int i = first; i < first + count; ++i)
      x[i] = i * i - p;
  }
  for (int d = 0; d < devices; ++d) {
    int there = -1;
#pragma omp target device(d) map(from : there)
    there = omp_get_device_num();
    wrong += there != d;
  }
  unsigned hash = 5;
  for (int i = 0; i < n; ++i)
    hash = hash * 33 + (unsigned)x[i];
  printf("several %u %d\n", hash, wrong);
  return 0;
}
