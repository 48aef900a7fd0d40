// Copies of rectangles and boxes, a transposition in tiles, a stencil whose
// halves run in two streams that exchange their borders, host memory that
// kernels read directly, and the calls around a launch that samples make.
#include <cstdio>
#include <cstring>
#include <vector>

static void check(cudaError_t e, int line) {
  if (e == cudaSuccess)
    return;
  std::printf("line %d: %s\n", line, cudaGetErrorString(e));
  std::exit(1);
}
#define CHECK(call) check(call, __LINE__)

static void expect(bool ok, const char* what) {
  if (ok)
    return;
  std::printf("%s is wrong\n", what);
  std::exit(1);
}

template <class T>
__global__ void transpose(const T* in, std::size_t in_pitch, T* out,
                          std::size_t out_pitch, int width, int height) {
  __shared__ T tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (x < width && y + k < height)
      tile[threadIdx.y + k][threadIdx.x] = reinterpret_cast<const T*>(
          reinterpret_cast<const char*>(in) + (y + k) * in_pitch)[x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (x < height && y + k < width)
      reinterpret_cast<T*>(reinterpret_cast<char*>(out) +
                           (y + k) * out_pitch)[x] =
          tile[threadIdx.x][threadIdx.y + k];
}

static void transposition() {
  constexpr int width = 75, height = 130;
  std::vector<double> in(width * height), out(width * height);
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = double(i) * 1.5;
  double *a, *b;
  std::size_t a_pitch, b_pitch;
  CHECK(cudaMallocPitch(&a, &a_pitch, width * sizeof(double), height));
  CHECK(cudaMallocPitch(&b, &b_pitch, height * sizeof(double), width));
  CHECK(cudaMemcpy2D(a, a_pitch, in.data(), width * sizeof(double),
                     width * sizeof(double), height, cudaMemcpyHostToDevice));
  CHECK(cudaFuncSetCacheConfig(transpose<double>, cudaFuncCachePreferL1));
  transpose<<<dim3(3, 5), dim3(32, 8)>>>(a, a_pitch, b, b_pitch, width, height);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy2D(out.data(), height * sizeof(double), b, b_pitch,
                     height * sizeof(double), width, cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      expect(out[x * height + y] == in[y * width + x], "transposition");
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
}

// Moves a box in the middle of a larger one on the device, and reads it back.
static void boxes() {
  cudaExtent whole = make_cudaExtent(24 * sizeof(short), 10, 6);
  cudaPitchedPtr a, b;
  CHECK(cudaMalloc3D(&a, whole));
  CHECK(cudaMalloc3D(&b, whole));
  CHECK(cudaMemset3D(b, 0, whole));
  std::vector<short> host(24 * 10 * 6), got(7 * 4 * 3);
  for (std::size_t i = 0; i < host.size(); ++i)
    host[i] = short(i);
  cudaMemcpy3DParms p = {};
  p.srcPtr = make_cudaPitchedPtr(host.data(), 24 * sizeof(short), 24, 10);
  p.dstPtr = a;
  p.extent = whole;
  p.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&p));
  p = {};
  p.srcPtr = a;
  p.srcPos = make_cudaPos(5 * sizeof(short), 3, 2);
  p.dstPtr = b;
  p.dstPos = make_cudaPos(9 * sizeof(short), 1, 0);
  p.extent = make_cudaExtent(7 * sizeof(short), 4, 3);
  p.kind = cudaMemcpyDeviceToDevice;
  CHECK(cudaMemcpy3DAsync(&p, nullptr));
  p.srcPtr = b;
  p.srcPos = p.dstPos;
  p.dstPtr = make_cudaPitchedPtr(got.data(), 7 * sizeof(short), 7, 4);
  p.dstPos = make_cudaPos(0, 0, 0);
  p.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3D(&p));
  for (int z = 0; z < 3; ++z)
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 7; ++x)
        expect(got[(z * 4 + y) * 7 + x] ==
                   host[((z + 2) * 10 + y + 3) * 24 + x + 5],
               "a box");
  CHECK(cudaFree(a.ptr));
  CHECK(cudaFree(b.ptr));
}

// Computes a stencil of seven points. Planes stay in registers while a thread
// proceeds along z.
__global__ void __launch_bounds__(64)
    stencil(const float* __restrict__ in, float* out, int n, int first,
            int last) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
  if (x == 0 || y == 0 || x >= n - 1 || y >= n - 1)
    return;
  int plane = n * n, at = first * plane + y * n + x;
  float below = in[at - plane], here = in[at];
#pragma unroll 2
  for (int z = first; z < last; ++z, at += plane) {
    float above = __ldg(in + at + plane);
    out[at] = here * 0.25f + (below + above + in[at - 1] + in[at + 1] +
                              in[at - n] + in[at + n]) *
                                 0.125f;
    below = here;
    here = above;
  }
}

static void two_halves() {
  constexpr int n = 34, steps = 6, planes = n * n;
  std::vector<float> start(n * planes), now, next, got(n * planes);
  for (std::size_t i = 0; i < start.size(); ++i)
    start[i] = float(i * 2654435761u >> 28);
  now = next = start;
  for (int s = 0; s < steps; ++s) {
    for (int z = 1; z < n - 1; ++z)
      for (int y = 1; y < n - 1; ++y)
        for (int x = 1; x < n - 1; ++x) {
          int at = z * planes + y * n + x;
          next[at] = now[at] * 0.25f +
                     (now[at - planes] + now[at + planes] + now[at - 1] +
                      now[at + 1] + now[at - n] + now[at + n]) *
                         0.125f;
        }
    std::swap(now, next);
  }
  float* half[2][2];
  cudaStream_t stream[2];
  cudaEvent_t done[2], begin, end;
  int low, high;
  CHECK(cudaDeviceGetStreamPriorityRange(&low, &high));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin));
  for (int h = 0; h < 2; ++h) {
    CHECK(cudaStreamCreateWithPriority(&stream[h], cudaStreamNonBlocking,
                                       h == 0 ? low : high));
    CHECK(cudaEventCreateWithFlags(&done[h], cudaEventDisableTiming));
    for (auto& x : half[h]) {
      CHECK(cudaMallocAsync(&x, start.size() * 4, stream[h]));
      CHECK(cudaMemcpyAsync(x, start.data(), start.size() * 4,
                            cudaMemcpyHostToDevice, stream[h]));
    }
    CHECK(cudaEventRecord(done[h], stream[h]));
  }
  // Each half has all planes but computes only its own, and the border is
  // copied.
  dim3 grid((n + 15) / 16, (n + 3) / 4), block(16, 4);
  for (int s = 0; s < steps; ++s) {
    for (int h = 0; h < 2; ++h) {
      CHECK(cudaStreamWaitEvent(stream[h], done[1 - h], 0));
      stencil<<<grid, block, 0, stream[h]>>>(
          half[h][s % 2], half[h][(s + 1) % 2], n, h == 0 ? 1 : n / 2,
          h == 0 ? n / 2 : n - 1);
      CHECK(cudaGetLastError());
    }
    cudaEvent_t computed[2];
    for (int h = 0; h < 2; ++h) {
      CHECK(cudaEventCreateWithFlags(&computed[h], cudaEventDisableTiming));
      CHECK(cudaEventRecord(computed[h], stream[h]));
    }
    for (int h = 0; h < 2; ++h) {
      // The neighbour's border, once it is computed.
      CHECK(cudaStreamWaitEvent(stream[h], computed[1 - h], 0));
      int border = (h == 0 ? n / 2 : n / 2 - 1) * planes;
      CHECK(cudaMemcpyAsync(half[h][(s + 1) % 2] + border,
                            half[1 - h][(s + 1) % 2] + border, planes * 4,
                            cudaMemcpyDeviceToDevice, stream[h]));
      CHECK(cudaEventRecord(done[h], stream[h]));
    }
    for (auto& x : computed)
      CHECK(cudaEventDestroy(x));
  }
  for (int h = 0; h < 2; ++h) {
    std::size_t from = h == 0 ? 0 : n / 2 * planes;
    CHECK(cudaMemcpyAsync(got.data() + from, half[h][steps % 2] + from,
                          start.size() * 2, cudaMemcpyDeviceToHost, stream[h]));
    CHECK(cudaStreamSynchronize(stream[h]));
    expect(cudaStreamQuery(stream[h]) == cudaSuccess, "cudaStreamQuery");
  }
  CHECK(cudaEventRecord(end));
  CHECK(cudaEventSynchronize(end));
  float took = -1;
  CHECK(cudaEventElapsedTime(&took, begin, end));
  expect(took >= 0 && got == now, "the stencil");
  for (int h = 0; h < 2; ++h) {
    for (auto& x : half[h])
      CHECK(cudaFreeAsync(x, stream[h]));
    CHECK(cudaStreamDestroy(stream[h]));
    CHECK(cudaEventDestroy(done[h]));
  }
}

__global__ void add_in_place(const int4* a, volatile int4* sums, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += blockDim.x * gridDim.x) {
    int4 x = a[i];
    sums[i].x = x.x + x.y;
    sums[i].w = x.z + x.w;
  }
}

// Kernels use host memory in place, and are launched by address.
static void zero_copy() {
  constexpr int n = 5000;
  int4 *a, *sums, *dev_a, *dev_sums;
  CHECK(cudaHostAlloc(&a, n * sizeof *a,
                      cudaHostAllocMapped | cudaHostAllocWriteCombined));
  CHECK(cudaHostAlloc(&sums, n * sizeof *sums, cudaHostAllocMapped));
  for (int i = 0; i < n; ++i) {
    a[i] = make_int4(i, 2 * i, 3 * i, 4 * i);
    sums[i] = make_int4(0, 0, 0, 0);
  }
  CHECK(cudaHostGetDevicePointer(&dev_a, a, 0));
  CHECK(cudaHostGetDevicePointer(&dev_sums, sums, 0));
  int grid = 0, block = 0, count = n;
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, add_in_place, 0, 0));
  expect(grid > 0 && block > 0 && block % 32 == 0, "the suggested launch");
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, add_in_place));
  expect(attributes.maxThreadsPerBlock >= block, "maxThreadsPerBlock");
  void* arguments[] = {&dev_a, &dev_sums, &count};
  CHECK(cudaLaunchKernel((const void*)add_in_place, dim3(grid), dim3(block),
                         arguments, 0, nullptr));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i)
    expect(sums[i].x == 3 * i && sums[i].w == 7 * i, "zero copy");
  CHECK(cudaFreeHost(a));
  CHECK(cudaFreeHost(sums));
}

int main() {
  transposition();
  boxes();
  two_halves();
  zero_copy();
  std::printf("ok\n");
}
