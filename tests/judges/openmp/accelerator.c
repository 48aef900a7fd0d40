/* OpenACC: gangs, workers and vectors, reductions, queues, routines. */
#include <openacc.h>
#include <stdio.h>

enum { n = 10000, side = 64 };

#pragma acc routine seq
static int collatz(int x) {
  int steps = 0;
  for (; x != 1; ++steps)
    x = x % 2 == 0 ? x / 2 : 3 * x + 1;
  return steps;
}

#pragma acc routine vector
static void row(int* x, int count, int by) {
#pragma acc loop vector
  for (int i = 0; i < count; ++i)
    x[i] += by * i;
}

static void loops(void) {
  static int x[n];
  long sum = 0;
  int most = 0;
#pragma acc parallel loop gang vector copyout(x) reduction(+ : sum)            \
    reduction(max : most)
  for (int i = 0; i < n; ++i) {
    x[i] = collatz(i + 1);
    sum += x[i];
    most = x[i] > most ? x[i] : most;
  }
  printf("loops %ld %d %d\n", sum, most, x[n - 1]);
}

static void levels(void) {
  static int x[side][side][side];
  long sum = 0;
#pragma acc parallel num_gangs(8) num_workers(4) vector_length(32) copy(x)
  {
#pragma acc loop gang
    for (int i = 0; i < side; ++i)
#pragma acc loop worker
      for (int j = 0; j < side; ++j)
#pragma acc loop vector
        for (int k = 0; k < side; ++k)
          x[i][j][k] = i * j ^ k;
  }
#pragma acc parallel loop gang worker vector collapse(3) copyin(x)             \
    reduction(+ : sum)
  for (int i = 0; i < side; ++i)
    for (int j = 0; j < side; ++j)
      for (int k = 0; k < side; ++k)
        sum += x[i][j][k] * (i - k);
  printf("levels %ld\n", sum);
}

static void inner(void) {
  static int x[side][side];
  int worker_sums[side];
#pragma acc parallel loop gang copy(x) copyout(worker_sums) num_workers(4)     \
    vector_length(64)
  for (int i = 0; i < side; ++i) {
    int sum = 0;
    row(x[i], side, i);
#pragma acc loop worker vector reduction(+ : sum)
    for (int j = 0; j < side; ++j)
      sum += x[i][j];
    worker_sums[i] = sum;
  }
  long all = 0;
  for (int i = 0; i < side; ++i)
    all = all * 3 % 1000003 + worker_sums[i];
  printf("inner %ld\n", all);
}

static void kernels(double* a, double* b) {
#pragma acc data copy(a [0:n]) create(b [0:n])
  for (int step = 0; step < 10; ++step) {
#pragma acc kernels loop independent
    for (int i = 1; i < n - 1; ++i)
      b[i] = 0.25 * a[i - 1] + 0.5 * a[i] + 0.25 * a[i + 1];
#pragma acc kernels loop independent
    for (int i = 1; i < n - 1; ++i)
      a[i] = b[i];
  }
  printf("kernels %.17g %.17g\n", a[n / 2], a[n - 2]);
}

static void queues(void) {
  static int x[4][n];
  for (int q = 0; q < 4; ++q) {
#pragma acc enter data create(x [q:1] [0:n]) async(q)
#pragma acc parallel loop present(x [q:1] [0:n]) async(q)
    for (int i = 0; i < n; ++i)
      x[q][i] = i % (q + 2);
#pragma acc parallel loop present(x [q:1] [0:n]) async(q)
    for (int i = 0; i < n; ++i)
      x[q][i] = x[q][i] * 5 + q;
#pragma acc exit data copyout(x [q:1] [0:n]) async(q)
  }
#pragma acc wait
  long sum = 0;
  for (int q = 0; q < 4; ++q)
    for (int i = 0; i < n; ++i)
      sum += (long)x[q][i] * (i % 7);
  printf("queues %ld %d\n", sum, acc_async_test_all() != 0);
}

static void counters(void) {
  int bins[10] = {0};
#pragma acc parallel loop copy(bins)
  for (int i = 0; i < n; ++i) {
#pragma acc atomic update
    bins[i * i % 10]++;
  }
  for (int i = 0; i < 10; ++i)
    printf("bin %d %d\n", i, bins[i]);
}

int main(void) {
  static double a[n], b[n];
  for (int i = 0; i < n; ++i)
    a[i] = i % 17;
  loops();
  levels();
  inner();
  kernels(a, b);
  queues();
  counters();
  return 0;
}
