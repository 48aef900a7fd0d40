/* What kernels print comes out, in order, once. */
#include <stdio.h>

int main(void) {
  const char* who = "host";
  printf("%s begins\n", who);
  fflush(stdout);
#pragma omp target
  for (int i = 0; i < 3; ++i)
    printf("line %d: %5.2f %s %c %lx\n", i, i * 1.25, "text", 'a' + i,
           0xfeedL << i);
  printf("%s ends\n", who);
  return 0;
}
