/* Work shared out over teams, threads and lanes: the shapes of loops, their
   schedules and reductions. Integers, and doubles that add up exactly. */
#include <stdio.h>

enum { n = 20000, side = 96 };

static int a[n], b[n];
static double x[n], y[n], product[side][side];

static void fill(void) {
  for (int i = 0; i < n; ++i) {
    a[i] = (i * 37) % 1013;
    b[i] = (i * 91) % 757 - 300;
    x[i] = i % 128;
    y[i] = 0.25 * (i % 64);
  }
}

static void maps(void) {
  int out[n];
#pragma omp target teams distribute parallel for map(from : out)
  for (int i = 0; i < n; ++i)
    out[i] = a[i] * b[i] + i;
  unsigned hash = 17;
  for (int i = 0; i < n; ++i)
    hash = hash * 31 + (unsigned)out[i];
  printf("map %u\n", hash);
}

static void reductions(void) {
  long sum = 0;
  int least = 1 << 30, most = -(1 << 30), bits = 0, all = -1, odd = 0;
  double dot = 0;
#pragma omp target teams distribute parallel for reduction(+ : sum, dot)       \
    reduction(min : least) reduction(max : most) reduction(| : bits)           \
    reduction(& : all) reduction(^ : odd)
  for (int i = 0; i < n; ++i) {
    sum += (long)a[i] * b[i];
    dot += x[i] * y[i];
    least = b[i] < least ? b[i] : least;
    most = a[i] > most ? a[i] : most;
    bits |= a[i] & 0x155;
    all &= a[i] | 0x2aa;
    odd ^= a[i];
  }
  printf("reductions %ld %.17g %d %d %d %d %d\n", sum, dot, least, most, bits,
         all, odd);
}

static void matrix(void) {
  static double left[side][side], right[side][side];
  for (int i = 0; i < side; ++i)
    for (int j = 0; j < side; ++j) {
      left[i][j] = (i * 7 + j) % 16;
      right[i][j] = (i + j * 5) % 32;
    }
#pragma omp target teams distribute parallel for collapse(2)                   \
    map(to                                                                     \
        : left, right) map(from                                                \
                           : product)
  for (int i = 0; i < side; ++i)
    for (int j = 0; j < side; ++j) {
      double s = 0;
      for (int k = 0; k < side; ++k)
        s += left[i][k] * right[k][j];
      product[i][j] = s;
    }
  double trace = 0, total = 0;
  for (int i = 0; i < side; ++i) {
    trace += product[i][i];
    for (int j = 0; j < side; ++j)
      total += product[i][j];
  }
  printf("matrix %.17g %.17g\n", trace, total);
}

static void schedules(void) {
  int seen[n] = {0};
#pragma omp target parallel for schedule(dynamic, 7) map(tofrom : seen)
  for (int i = 0; i < n / 4; ++i)
    seen[i] += i;
#pragma omp target parallel for schedule(guided) map(tofrom : seen)
  for (int i = 0; i < n / 4; ++i)
    seen[i] += 2 * i;
#pragma omp target teams distribute parallel for simd dist_schedule(           \
    static, 64) schedule(static, 3) map(tofrom                                 \
                                        : seen)
  for (int i = 0; i < n; ++i)
    seen[i] += 5 * i;
  long sum = 0;
  for (int i = 0; i < n; ++i)
    sum += (long)seen[i] * (i % 11);
  printf("schedules %ld\n", sum);
}

static void lanes(void) {
  int sum = 0, last = 0;
#pragma omp target simd reduction(+ : sum) lastprivate(last) map(from : last)
  for (int i = 0; i < 1000; ++i) {
    sum += a[i];
    last = b[i];
  }
  printf("simd %d %d\n", sum, last);
}

int main(void) {
  fill();
  maps();
  reductions();
  matrix();
  schedules();
  lanes();
  return 0;
}
