// Settings of core dumps are told again, and a context takes those of the
// process as it begins.
// nvcc: -lcuda
#include "../check.hpp"

#include <cstring>
#include <string>

#include <unistd.h>

static bool flag(CUcoredumpSettings which) {
  bool out = false;
  size_t size = sizeof(out);
  CHECK(cuCoredumpGetAttributeGlobal(which, &out, &size));
  EXPECT(size == sizeof(out));
  return out;
}

static void set(CUcoredumpSettings which, bool to) {
  size_t size = sizeof(to);
  CHECK(cuCoredumpSetAttributeGlobal(which, &to, &size));
}

/// Returns the name with which the driver answers "/tmp/core_%h_%p".
static std::string filled_in() {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return std::string("/tmp/core_") + host + "_" + std::to_string(getpid());
}

static void names() {
  char pattern[] = "/tmp/core_%h_%p", got[1024] = {};
  size_t size = sizeof(pattern);
  CHECK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, pattern, &size));
  size = sizeof(got);
  CHECK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, got, &size));
  EXPECT(filled_in() == got);
}

static void of_the_context() {
  bool on = true;
  size_t size = sizeof(on);
  CHECK(cuCoredumpGetAttribute(CU_COREDUMP_LIGHTWEIGHT, &on, &size));
  EXPECT(!on);
  char got[1024] = {};
  size = sizeof(got);
  CHECK(cuCoredumpGetAttribute(CU_COREDUMP_FILE, got, &size));
  EXPECT(filled_in() == got);
}

int main() {
  CHECK(cuInit(0));
  set(CU_COREDUMP_TRIGGER_HOST, false);
  EXPECT(!flag(CU_COREDUMP_TRIGGER_HOST));
  set(CU_COREDUMP_LIGHTWEIGHT, true);
  EXPECT(flag(CU_COREDUMP_LIGHTWEIGHT));
  set(CU_COREDUMP_LIGHTWEIGHT, false);
  EXPECT(!flag(CU_COREDUMP_LIGHTWEIGHT));
  names();
  CHECK(cudaFree(nullptr)); // makes a context
  of_the_context();
  bool value = false;
  size_t size = sizeof(value);
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuCoredumpGetAttributeGlobal(CU_COREDUMP_MAX, &value, &size));
  std::printf("ok\n");
}
