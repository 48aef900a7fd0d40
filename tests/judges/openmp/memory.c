/* What is on the device and when: maps of all kinds, updates, structures with
   pointers, memory of the program's own, and tasks that wait for one another.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { n = 4096 };

#pragma omp declare target
static int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
#pragma omp end declare target

struct vector {
  int size;
  int* values;
};

static long sum(const int* x) {
  long out = 0;
  for (int i = 0; i < n; ++i)
    out += (long)x[i] * (i % 13);
  return out;
}

static void regions(int* x) {
#pragma omp target data map(tofrom : x [0:n])
  {
#pragma omp target
    for (int i = 0; i < n; ++i)
      x[i] += 1;
#pragma omp target update from(x [0:n / 2])
    printf("half %d %d\n", x[0], x[n / 2 - 1]);
    x[5] = 1000;
#pragma omp target update to(x [5:1])
#pragma omp target teams distribute parallel for
    for (int i = 0; i < n; ++i)
      x[i] *= 3;
  }
  printf("whole %ld %d\n", sum(x), x[5]);
}

static void unstructured(int* x) {
#pragma omp target enter data map(to : x [0:n])
  for (int i = 0; i < n && omp_get_num_devices() != 0; ++i)
    x[i] = -1; /* the device has a copy of its own */
#pragma omp target teams distribute parallel for map(alloc : x [0:n])
  for (int i = 0; i < n; ++i)
    x[i] += table[i % 8];
#pragma omp target exit data map(from : x [0:n])
  printf("unstructured %ld\n", sum(x));
}

static void structures(void) {
  struct vector v = {n, malloc(n * sizeof(int))};
  for (int i = 0; i < n; ++i)
    v.values[i] = i;
#pragma omp target map(tofrom : v, v.values [0:n])
  for (int i = 0; i < v.size; ++i)
    v.values[i] = v.values[i] * 2 + 1;
  printf("structure %ld\n", sum(v.values));
  free(v.values);
}

static void tables(void) {
  table[3] = 70;
#pragma omp target update to(table)
  int out = 0;
#pragma omp target map(from : out)
  {
    out = 0;
    for (int i = 0; i < 8; ++i)
      out = out * 7 + table[i];
    table[0] = 8;
  }
#pragma omp target update from(table)
  printf("table %d %d\n", out, table[0]);
}

static void own_memory(int* x) {
  int device = omp_get_default_device(), host = omp_get_initial_device();
  size_t bytes = n * sizeof(int);
  int* there = omp_target_alloc(bytes, device);
  omp_target_memcpy(there, x, bytes, 0, 0, device, host);
#pragma omp target teams distribute parallel for is_device_ptr(there)
  for (int i = 0; i < n; ++i)
    there[i] = there[i] % 97 + i;
  omp_target_memcpy(x, there, bytes / 2, bytes / 2, bytes / 4, host, device);
  size_t volume[2] = {8, 16}, none[2] = {0, 0}, from[2] = {1, 3};
  size_t shape[2] = {64, 64};
  omp_target_memcpy_rect(x, there, sizeof(int), 2, volume, none, from, shape,
                         shape, host, device);
  omp_target_free(there, device);
  printf("own %ld %d\n", sum(x), x[64 + 2]);
}

static void chain(int* x) {
  int* y = calloc(n, sizeof(int));
  for (int i = 0; i < n; ++i)
    x[i] = i;
#pragma omp target enter data map(to                                           \
                                  : x [0:n], y [0:n]) depend(out               \
                                                             : x, y) nowait
#pragma omp target nowait depend(inout : x)
  for (int i = 0; i < n; ++i)
    x[i] += 7;
#pragma omp target nowait depend(in : x) depend(inout : y)
  for (int i = 0; i < n; ++i)
    y[i] = x[i] * x[i];
#pragma omp target nowait depend(inout : y)
  for (int i = 1; i < n; ++i)
    y[i] ^= y[i - 1];
#pragma omp target exit data map(from                                          \
                                 : x [0:n], y [0:n]) depend(inout              \
                                                            : x, y) nowait
#pragma omp taskwait
  printf("chain %ld %ld\n", sum(x), sum(y));
  free(y);
}

int main(void) {
  int* x = malloc(n * sizeof(int));
  for (int i = 0; i < n; ++i)
    x[i] = (i * 5) % 101;
  regions(x);
  unstructured(x);
  structures();
  tables();
  own_memory(x);
  chain(x);
  free(x);
  return 0;
}
