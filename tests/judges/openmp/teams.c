/* What threads of a team do together: nested regions, locks, atomics,
   barriers, sections, tasks, and functions that are called through pointers. */
#include <omp.h>
#include <stdio.h>

#pragma omp declare target
static int calls;
static int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
static int twice(int x) {
  return 2 * x;
}
static int square(int x) {
  return x * x;
}
static int (*const steps[])(int) = {twice, square, fibonacci};
#pragma omp end declare target

static void together(void) {
  int ordered = 0, critical = 0, atomic = 0, single = 0, captured[64] = {0};
#pragma omp target map(tofrom : ordered, critical, atomic, single, captured)
#pragma omp parallel num_threads(8)
  {
#pragma omp single
    single += 100;
#pragma omp for
    for (int i = 0; i < 64; ++i) {
      int at;
#pragma omp critical
      critical += i;
#pragma omp atomic
      atomic += 2 * i;
#pragma omp atomic capture
      at = ordered++;
      captured[at] = 1;
    }
#pragma omp barrier
#pragma omp master
    single += ordered;
  }
  int places = 0;
  for (int i = 0; i < 64; ++i)
    places += captured[i];
  printf("together %d %d %d %d\n", critical, atomic, single, places);
}

static void nested(void) {
  int sums[6] = {0};
#pragma omp target teams num_teams(6) thread_limit(64) map(tofrom : sums)
  {
#pragma omp distribute
    for (int t = 0; t < 6; ++t) {
      int mine = 0;
#pragma omp parallel for reduction(+ : mine)
      for (int i = 0; i < 100; ++i) {
        int inner = 0;
#pragma omp parallel for reduction(+ : inner)
        for (int k = 0; k < 10; ++k)
          inner += k * (t + 1);
        mine += inner + i;
      }
      sums[t] = mine;
    }
  }
  for (int t = 0; t < 6; ++t)
    printf("nested %d %d\n", t, sums[t]);
}

static void functions(void) {
  int out[30];
#pragma omp target teams distribute parallel for map(from : out)
  for (int i = 0; i < 30; ++i)
    out[i] = steps[i % 3](i / 2);
  long sum = 0;
  for (int i = 0; i < 30; ++i)
    sum = sum * 3 + out[i];
  printf("functions %ld\n", sum);
}

static void parts(void) {
  int a = 0, b = 0, c = 0;
#pragma omp target map(tofrom : a, b, c)
#pragma omp parallel sections num_threads(3)
  {
#pragma omp section
    a = fibonacci(12);
#pragma omp section
    b = fibonacci(10);
#pragma omp section
    c = fibonacci(8);
  }
  printf("sections %d %d %d\n", a, b, c);
}

static void tasks(void) {
  int done[16] = {0}, sum = 0;
#pragma omp target map(tofrom : done) map(tofrom : sum)
#pragma omp parallel num_threads(4)
#pragma omp single
  {
    for (int i = 0; i < 16; ++i)
#pragma omp task firstprivate(i) shared(done)
      done[i] = fibonacci(i);
#pragma omp taskwait
    for (int i = 0; i < 16; ++i)
      sum += done[i];
  }
  printf("tasks %d\n", sum);
}

static void kept(void) {
  for (int i = 1; i <= 3; ++i)
#pragma omp target
    calls += i;
#pragma omp target update from(calls)
  printf("kept %d\n", calls);
}

int main(void) {
  together();
  nested();
  functions();
  parts();
  tasks();
  kept();
  return 0;
}
