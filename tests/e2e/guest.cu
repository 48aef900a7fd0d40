// The program that the end-to-end tests run, with many behaviours.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

__global__ void add(unsigned* sums, const unsigned* values, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    sums[i] += values[i];
}

__global__ void speak(unsigned step) {
  printf("device: step %u\n", step);
}

__global__ void store(unsigned* p, unsigned value) {
  *p = value;
}

/// Adds floats, whose sum depends on the order in which blocks run.
__global__ void add_floats(float* sum, unsigned round) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x = (i + round) * 2654435761u;
  atomicAdd(sum, static_cast<float>(x % 65537u) / (1u + (x >> 24)));
}

static void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess)
    return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(result));
  std::exit(9);
}

static void use_the_gpu() {
  unsigned *p, value = 0;
  check(cudaMalloc(&p, sizeof *p), "cudaMalloc");
  store<<<1, 1>>>(p, 17);
  check(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost), "copy");
  if (value != 17)
    std::exit(8);
}

/// Flushes the output and waits, so that the watching script can act.
static void pause_for(int milliseconds) {
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

/// Makes a texture object that outlives its array, which no state can describe.
static void make_orphan() {
  auto format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  check(cudaMallocArray(&array, &format, 8, 8), "cudaMallocArray");
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc sampling = {};
  cudaTextureObject_t orphan;
  check(cudaCreateTextureObject(&orphan, &resource, &sampling, nullptr),
        "cudaCreateTextureObject");
  check(cudaFreeArray(array), "cudaFreeArray");
}

/// Copies `rounds` different arrays of 1 MiB to the device and adds them up
/// there.
static int copies(unsigned rounds, int pause, bool orphan) {
  if (orphan)
    make_orphan();
  constexpr unsigned n = 1 << 18;
  std::vector<unsigned> values(n), sums(n), expected(n);
  unsigned *dev_values, *dev_sums;
  check(cudaMalloc(&dev_values, n * 4), "cudaMalloc");
  check(cudaMalloc(&dev_sums, n * 4), "cudaMalloc");
  check(cudaMemset(dev_sums, 0, n * 4), "cudaMemset");
  for (unsigned round = 1; round <= rounds; ++round) {
    for (unsigned i = 0; i < n; ++i) {
      values[i] = (round * 2654435761u) ^ (i * 40503u);
      expected[i] += values[i];
    }
    check(cudaMemcpy(dev_values, values.data(), n * 4, cudaMemcpyHostToDevice),
          "copy to the device");
    add<<<n / 256, 256>>>(dev_sums, dev_values, n);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::printf("round %u\n", round);
    pause_for(pause);
  }
  check(cudaMemcpy(sums.data(), dev_sums, n * 4, cudaMemcpyDeviceToHost),
        "copy from the device");
  std::printf(sums == expected ? "right\n" : "WRONG\n");
  return sums == expected ? 0 : 1;
}

/// Holds the objects in device memory, where a program may keep them.
struct field_objects {
  cudaTextureObject_t from[2];
  cudaSurfaceObject_t to[2];
};

__global__ void spread(const field_objects* objects, int step, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  cudaTextureObject_t from = objects->from[step % 2];
  float sum = tex2D<float>(from, x - 0.25f, y + 0.5f) +
              tex2D<float>(from, x + 1.25f, y + 0.5f) +
              tex2D<float>(from, x + 0.5f, y + 1.25f) + (x * y == step);
  surf2Dwrite(sum / 3, objects->to[1 - step % 2], x * 4, y,
              cudaBoundaryModeZero);
}

static cudaTextureObject_t texture_of(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc sampling = {};
  sampling.filterMode = cudaFilterModeLinear;
  sampling.addressMode[0] = sampling.addressMode[1] = cudaAddressModeClamp;
  cudaTextureObject_t out = 0;
  check(cudaCreateTextureObject(&out, &resource, &sampling, nullptr),
        "cudaCreateTextureObject");
  return out;
}

static cudaSurfaceObject_t surface_of(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t out = 0;
  check(cudaCreateSurfaceObject(&out, &resource), "cudaCreateSurfaceObject");
  return out;
}

/// Uses two arrays in turn, one read as a texture and one written as a surface.
static int textures(int rounds, int pause) {
  constexpr int n = 64;
  std::vector<float> field(n * n);
  for (int i = 0; i < n * n; ++i)
    field[i] = static_cast<float>(i * 7919 % 1000) / 1000;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t arrays[2];
  field_objects objects;
  for (int i = 0; i < 2; ++i) {
    check(cudaMallocArray(&arrays[i], &format, n, n, cudaArraySurfaceLoadStore),
          "cudaMallocArray");
    check(cudaMemcpy2DToArray(arrays[i], 0, 0, field.data(), n * 4, n * 4, n,
                              cudaMemcpyHostToDevice),
          "cudaMemcpy2DToArray");
    // A third object exists for a moment in between.
    cudaTextureObject_t other = texture_of(arrays[i]);
    objects.from[i] = texture_of(arrays[i]);
    objects.to[i] = surface_of(arrays[i]);
    check(cudaDestroyTextureObject(other), "cudaDestroyTextureObject");
  }
  field_objects* kept;
  check(cudaMalloc(&kept, sizeof *kept), "cudaMalloc");
  check(cudaMemcpy(kept, &objects, sizeof objects, cudaMemcpyHostToDevice),
        "copy to the device");
  for (int round = 1; round <= rounds; ++round) {
    for (int step = 0; step < 10; ++step)
      spread<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(kept, round * 10 + step,
                                                     n);
    check(cudaMemcpy2DFromArray(field.data(), n * 4, arrays[0], 0, 0, n * 4, n,
                                cudaMemcpyDeviceToHost),
          "cudaMemcpy2DFromArray");
    unsigned long long sum = 0;
    for (float x : field) {
      unsigned bits;
      std::memcpy(&bits, &x, 4);
      sum = sum * 31 + bits;
    }
    std::printf("round %d: %016llx\n", round, sum);
    pause_for(pause);
  }
  return 0;
}

/// Reads sums that differ in each run, and prints none of them.
static int floats(unsigned rounds, int pause) {
  float *dev_sum, sum;
  check(cudaMalloc(&dev_sum, sizeof *dev_sum), "cudaMalloc");
  for (unsigned round = 1; round <= rounds; ++round) {
    // In some rounds all blocks run in the same order as before.
    for (unsigned i = 0; i < 8; ++i) {
      check(cudaMemset(dev_sum, 0, sizeof *dev_sum), "cudaMemset");
      add_floats<<<512, 256>>>(dev_sum, round + i);
      check(cudaMemcpy(&sum, dev_sum, sizeof sum, cudaMemcpyDeviceToHost),
            "copy from the device");
    }
    std::printf("round %u\n", round);
    pause_for(pause);
  }
  return 0;
}

/// Adds results to a digest. The host does the same with what it reads.
__host__ __device__ static unsigned long long folded(unsigned long long digest,
                                                     const unsigned* results) {
  return (digest * 31 + results[0]) * 31 + results[1];
}

/// Makes results of a sum whose additions had any order, and of a clock.
__global__ void give(unsigned* results, unsigned long long* digest,
                     const float* sum, const unsigned* round) {
  results[0] = __float_as_uint(*sum) + *round;
  results[1] = static_cast<unsigned>(clock64());
  *digest = folded(*digest, results);
}

static void nothing(void*) {}

/// Reads results that differ in each run, while the device and the host keep
/// the same digest of all of them. A recovery after which the device goes on
/// from other results than the host has read makes the digests differ. Prints
/// so, goes on with the device's digest, and fails at the end.
class digests {
public:
  /// Has so many MiB that it writes once, and so many that it writes before
  /// each read.
  digests(int kept, int written) : written_bytes_(mebibytes(written)) {
    check(cudaMalloc(&sum_, sizeof *sum_), "cudaMalloc");
    check(cudaMalloc(&round_, sizeof *round_), "cudaMalloc");
    check(cudaMalloc(&results_, 2 * sizeof *results_), "cudaMalloc");
    check(cudaMalloc(&digest_, sizeof *digest_), "cudaMalloc");
    check(cudaMemset(digest_, 0, sizeof *digest_), "cudaMemset");
    check(cudaMallocHost(&pinned_, 3 * sizeof *pinned_), "cudaMallocHost");
    check(cudaStreamCreate(&stream_), "cudaStreamCreate");
    void* once;
    check(cudaMalloc(&once, mebibytes(kept)), "cudaMalloc");
    check(cudaMemset(once, 1, mebibytes(kept)), "cudaMemset");
    check(cudaMalloc(&written_, written_bytes_), "cudaMalloc");
  }

  void read(unsigned round) {
    check(cudaMemset(written_, static_cast<int>(round), written_bytes_),
          "cudaMemset");
    round % 2 == 0 ? read_at_once(round) : read_behind_function(round);
    host_ = folded(host_, got_);
  }

  /// Returns whether the digests are the same.
  bool compare() {
    unsigned long long digest = 0;
    check(cudaMemcpy(&digest, digest_, sizeof digest, cudaMemcpyDeviceToHost),
          "copy of the digest");
    return std::exchange(host_, digest) == digest;
  }

private:
  /// Returns a size that is never 0, so that it can be allocated.
  static std::size_t mebibytes(int count) {
    return (static_cast<std::size_t>(count) << 20) + 256;
  }

  void read_at_once(unsigned round) {
    check(cudaMemset(sum_, 0, sizeof *sum_), "cudaMemset");
    check(cudaMemcpy(round_, &round, sizeof round, cudaMemcpyHostToDevice),
          "copy to the device");
    add_floats<<<512, 256>>>(sum_, round);
    give<<<1, 1>>>(results_, digest_, sum_, round_);
    check(cudaMemcpy(got_, results_, sizeof got_, cudaMemcpyDeviceToHost),
          "copy from the device");
  }

  /// Does the same in a stream with a host function and pinned memory, so that
  /// the program has to act after it has asked for the results.
  void read_behind_function(unsigned round) {
    pinned_[0] = round;
    check(cudaMemsetAsync(sum_, 0, sizeof *sum_, stream_), "cudaMemsetAsync");
    add_floats<<<512, 256, 0, stream_>>>(sum_, round);
    check(cudaLaunchHostFunc(stream_, nothing, nullptr), "cudaLaunchHostFunc");
    check(cudaMemcpyAsync(round_, pinned_, sizeof round, cudaMemcpyHostToDevice,
                          stream_),
          "copy from pinned memory");
    give<<<1, 1, 0, stream_>>>(results_, digest_, sum_, round_);
    check(cudaMemcpyAsync(pinned_ + 1, results_, sizeof got_,
                          cudaMemcpyDeviceToHost, stream_),
          "copy to pinned memory");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    std::memcpy(got_, pinned_ + 1, sizeof got_);
  }

  void* written_ = nullptr;
  std::size_t written_bytes_;
  float* sum_ = nullptr;
  unsigned* round_ = nullptr;
  unsigned* results_ = nullptr;
  unsigned long long* digest_ = nullptr;
  unsigned* pinned_ = nullptr;
  cudaStream_t stream_ = nullptr;
  unsigned got_[2] = {};
  unsigned long long host_ = 0;
};

/// Tells how long a read took, with the work before it, in the median of the
/// second half of them.
static int digest(unsigned rounds, int pause, int kept, int written) {
  digests both{kept, written};
  unsigned diverged = 0;
  std::vector<double> took;
  for (unsigned round = 1; round <= rounds; ++round) {
    for (unsigned i = 0; i < 4; ++i) {
      auto began = std::chrono::steady_clock::now();
      both.read(4 * round + i);
      took.push_back(std::chrono::duration<double, std::milli>{
          std::chrono::steady_clock::now() - began}
                         .count());
    }
    auto same = both.compare();
    diverged += same ? 0 : 1;
    std::printf("round %u%s\n", round, same ? "" : " diverged");
    pause_for(pause);
  }
  took.erase(took.begin(), took.begin() + static_cast<long>(took.size() / 2));
  std::sort(took.begin(), took.end());
  if (!took.empty())
    std::fprintf(stderr, "%.3f ms a read\n", took[took.size() / 2]);
  return diverged == 0 ? 0 : 7;
}

static int print_steps(unsigned steps, int pause) {
  for (unsigned step = 1; step <= steps; ++step) {
    speak<<<1, 1>>>(step);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::printf("host: step %u\n", step);
    pause_for(pause);
  }
  return 0;
}

static int devices() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  for (int d = 0; d < count; ++d) {
    check(cudaSetDevice(d), "cudaSetDevice");
    use_the_gpu();
    std::printf("device %d works\n", d);
  }
  return 0;
}

/// Writes every byte value to both streams, without an end of line.
static int bytes() {
  use_the_gpu();
  std::string all;
  for (int i = 0; i < 256; ++i)
    all += static_cast<char>(i);
  std::fwrite(all.data(), 1, all.size(), stdout);
  std::fwrite(all.data(), 1, all.size(), stderr);
  return 0;
}

static void leave_by(int signal) {
  rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  use_the_gpu();
  std::raise(signal);
}

static int fork_some() {
  use_the_gpu();
  for (int i = 0; i < 4; ++i) {
    pid_t child = fork();
    if (child == 0)
      _exit(i);
    int status = 0;
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != i)
      return 1;
    use_the_gpu();
  }
  std::printf("forked\n");
  return 0;
}

static int stray() {
  unsigned* nowhere = reinterpret_cast<unsigned*>(0x10);
  use_the_gpu();
  store<<<1, 1>>>(nowhere, 1);
  cudaError_t got = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorName(got));
  return got == cudaErrorIllegalAddress ? 0 : 1;
}

int main(int argc, char** argv) {
  auto mode = argc > 1 ? std::string{argv[1]} : std::string{};
  auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  if (mode == "exit") {
    use_the_gpu();
    return number(2, 0);
  }
  if (mode == "signal")
    leave_by(number(2, SIGTERM));
  if (mode == "wait") {
    use_the_gpu();
    std::printf("ready\n");
    std::fflush(stdout);
    for (;;)
      pause();
  }
  if (mode == "devices")
    return devices();
  if (mode == "bytes")
    return bytes();
  if (mode == "fork")
    return fork_some();
  if (mode == "stray")
    return stray();
  if (mode == "print")
    return print_steps(number(2, 10), number(3, 0));
  if (mode == "floats")
    return floats(number(2, 10), number(3, 0));
  if (mode == "digest")
    return digest(number(2, 10), number(3, 0), number(4, 0), number(5, 0));
  if (mode == "textures")
    return textures(number(2, 10), number(3, 0));
  if (mode == "copies")
    return copies(number(2, 10), number(3, 0), number(4, 0) != 0);
  std::fprintf(stderr, "usage: guest MODE [NUMBER...]\n");
  return 2;
}
