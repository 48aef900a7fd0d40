// Initialises CUDA by the library at a path. A test gives this program more
// rights than its user has.
//
//   privileged LIBRARY
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: privileged LIBRARY\n");
    return 2;
  }
  auto* library = ::dlopen(argv[1], RTLD_NOW);
  auto* init = library != nullptr ? ::dlsym(library, "cuInit") : nullptr;
  if (init == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return 1;
  }
  std::printf("cuInit returns %d\n",
              reinterpret_cast<int (*)(unsigned)>(init)(0));
  return 0;
}
