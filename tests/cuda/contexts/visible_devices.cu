// CUDA_VISIBLE_DEVICES hides devices and orders the rest. Each choice is tested
// in a separate process, which computes on all visible devices and queries the
// device of a pointer.
#include "../check.hpp"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

__global__ void add(int* data, int what) {
  data[threadIdx.x] += what;
}

std::string name_of(int device) {
  cudaDeviceProp x;
  if (cudaGetDeviceProperties(&x, device) != cudaSuccess)
    return "?";
  std::string out = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char text[4];
    std::snprintf(text, sizeof(text),
                  i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                  static_cast<unsigned char>(x.uuid.bytes[i]));
    out += text;
  }
  return out;
}

/// Returns 0 if a device computes, and its memory is reported as its own.
int compute(int device) {
  CHECK(cudaSetDevice(device));
  int* data;
  CHECK(cudaMalloc(&data, 32 * sizeof(int)));
  CHECK(cudaMemset(data, 0, 32 * sizeof(int)));
  add<<<1, 32>>>(data, device + 1);
  int out[32];
  CHECK(cudaMemcpy(out, data, sizeof(out), cudaMemcpyDeviceToHost));
  cudaPointerAttributes x;
  CHECK(cudaPointerGetAttributes(&x, data));
  CHECK(cudaFree(data));
  return out[31] == device + 1 && x.device == device ? 0 : 1;
}

/// Checks, in the child, that the visible devices are `wanted`, names separated
/// by spaces.
int look(const std::string& wanted) {
  int n = 0;
  auto got = cudaGetDeviceCount(&n);
  if (wanted == "none" || wanted == "invalid")
    return got == (wanted == "none" ? cudaErrorNoDevice
                                    : cudaErrorInvalidDevice)
               ? 0
               : 1;
  CHECK(got);
  std::string seen;
  for (int d = 0; d < n; ++d) {
    seen += (d == 0 ? "" : " ") + name_of(d);
    if (compute(d) != 0)
      return 1;
  }
  if (seen != wanted)
    std::printf("seen '%s', not '%s'\n", seen.c_str(), wanted.c_str());
  return seen == wanted ? 0 : 1;
}

bool sees(const std::string& choice, const std::string& wanted) {
  auto child = fork();
  if (child == 0) {
    setenv("CUDA_VISIBLE_DEVICES", choice.c_str(), 1);
    execl("/proc/self/exe", "visible_devices", wanted.c_str(), nullptr);
    _exit(127);
  }
  int how = 0;
  waitpid(child, &how, 0);
  auto right = WIFEXITED(how) && WEXITSTATUS(how) == 0;
  if (!right)
    std::printf("wrong with CUDA_VISIBLE_DEVICES='%s'\n", choice.c_str());
  return right;
}

/// Returns the names of all devices. It queries them in a child, because a
/// process that has called CUDA cannot fork.
std::vector<std::string> all_names() {
  int ends[2];
  if (pipe(ends) != 0)
    return {};
  auto child = fork();
  if (child == 0) {
    int n = 0;
    cudaGetDeviceCount(&n);
    for (int d = 0; d < n; ++d)
      dprintf(ends[1], "%s\n", name_of(d).c_str());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char some[256];
  for (ssize_t got; (got = read(ends[0], some, sizeof(some))) > 0;)
    text.append(some, static_cast<std::size_t>(got));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  std::vector<std::string> out;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != text.npos;
       at = end + 1)
    out.push_back(text.substr(at, end - at));
  return out;
}

int main(int argc, char** argv) {
  if (argc > 1)
    return look(argv[1]);
  unsetenv("CUDA_VISIBLE_DEVICES");
  auto names = all_names();
  if (names.empty()) {
    std::puts("no device");
    return 1;
  }
  auto& first = names.front();
  auto right = sees("0", first) && sees("", "none") && sees("-1", "none") &&
               sees("0,0", "invalid") && sees("0,99,0", first) &&
               sees(first.substr(0, 12), first) && sees("GPU-", "none");
  if (names.size() > 1) {
    auto& second = names[1];
    right = right && sees("1", second) && sees("1,0", second + " " + first) &&
            sees(second + "," + first, second + " " + first) &&
            sees("0,1,0", "invalid");
  }
  if (right)
    std::puts("ok");
  return right ? 0 : 1;
}
