// A mipmapped texture: a kernel makes each level from the finer one, which it
// reads as a texture, and writes it as a surface. Then one object samples all
// levels.
#include "../check.hpp"

#include <cmath>
#include <cstdio>
#include <vector>

__global__ void halve(cudaSurfaceObject_t to, cudaTextureObject_t from,
                      int size) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= size || y >= size)
    return;
  float u = (x + 0.5f) / size, v = (y + 0.5f) / size;
  surf2Dwrite(tex2D<float>(from, u, v), to, x * 4, y);
}

__global__ void sample(cudaTextureObject_t tex, float* out, int size,
                       float level) {
  int x = threadIdx.x, y = threadIdx.y;
  out[y * size + x] =
      tex2DLod<float>(tex, (x + 0.5f) / size, (y + 0.5f) / size, level);
}

__global__ void by_gradient(cudaTextureObject_t tex, float* out, float step) {
  out[0] = tex2DGrad<float>(tex, 0.5f, 0.5f, make_float2(step, 0),
                            make_float2(0, step));
}

int main() {
  const int size = 32, levels = 6;
  std::vector<std::vector<float>> host(levels);
  host[0].resize(size * size);
  for (int i = 0; i < size * size; ++i)
    host[0][i] = static_cast<float>((i * 7 + i / size * 3) % 64);
  for (int l = 1; l < levels; ++l) {
    int n = size >> l;
    host[l].resize(n * n);
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x) {
        const float* p = &host[l - 1][2 * y * 2 * n + 2 * x];
        host[l][y * n + x] = (p[0] + p[1] + p[2 * n] + p[2 * n + 1]) / 4;
      }
  }

  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaMipmappedArray_t mips;
  CHECK(cudaMallocMipmappedArray(&mips, &format, make_cudaExtent(size, size, 0),
                                 levels, cudaArraySurfaceLoadStore));
  cudaArray_t level;
  CHECK(cudaGetMipmappedArrayLevel(&level, mips, 0));
  CHECK(cudaMemcpy2DToArray(level, 0, 0, host[0].data(), size * sizeof(float),
                            size * sizeof(float), size,
                            cudaMemcpyHostToDevice));
  cudaTextureDesc sampling = {};
  sampling.normalizedCoords = 1;
  sampling.filterMode = cudaFilterModeLinear;
  sampling.addressMode[0] = sampling.addressMode[1] = cudaAddressModeClamp;
  for (int l = 1; l < levels; ++l) {
    cudaArray_t finer, coarser;
    CHECK(cudaGetMipmappedArrayLevel(&finer, mips, l - 1));
    CHECK(cudaGetMipmappedArrayLevel(&coarser, mips, l));
    cudaExtent extent;
    CHECK(cudaArrayGetInfo(nullptr, &extent, nullptr, coarser));
    if (extent.width != static_cast<size_t>(size >> l)) {
      printf("level %d is %zu wide\n", l, extent.width);
      return 1;
    }
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = finer;
    cudaTextureObject_t tex;
    CHECK(cudaCreateTextureObject(&tex, &resource, &sampling, nullptr));
    resource.res.array.array = coarser;
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    halve<<<dim3(2, 2), dim3(16, 16)>>>(surface, tex, size >> l);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDestroyTextureObject(tex));
    CHECK(cudaDestroySurfaceObject(surface));
  }

  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeMipmappedArray;
  resource.res.mipmap.mipmap = mips;
  sampling.mipmapFilterMode = cudaFilterModeLinear;
  sampling.maxMipmapLevelClamp = levels - 1;
  cudaTextureObject_t tex;
  CHECK(cudaCreateTextureObject(&tex, &resource, &sampling, nullptr));
  float* out;
  CHECK(cudaMalloc(&out, size * size * sizeof(float)));
  for (int l = 0; l < levels; ++l) {
    int n = size >> l;
    sample<<<1, dim3(n, n)>>>(tex, out, n, l);
    std::vector<float> got(n * n);
    CHECK(cudaMemcpy(got.data(), out, n * n * sizeof(float),
                     cudaMemcpyDeviceToHost));
    for (int i = 0; i < n * n; ++i)
      if (std::fabs(got[i] - host[l][i]) > 1e-3f) {
        printf("level %d, element %d: %g, not %g\n", l, i, got[i], host[l][i]);
        return 1;
      }
  }

  // Samples halfway between the two coarsest levels, and the last level by
  // gradients of 32 elements.
  float got[2];
  sample<<<1, dim3(1, 1)>>>(tex, out, 1, levels - 1.5f);
  by_gradient<<<1, 1>>>(tex, out + 1, 1.0f);
  CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
  auto& four = host[levels - 2];
  float middle = (four[0] + four[1] + four[2] + four[3]) / 4;
  float want = (middle + host[levels - 1][0]) / 2;
  if (std::fabs(got[0] - want) > 1e-3f ||
      std::fabs(got[1] - host[levels - 1][0]) > 1e-3f) {
    printf("between levels: %g and %g\n", got[0], got[1]);
    return 1;
  }
  CHECK(cudaDestroyTextureObject(tex));
  CHECK(cudaFreeMipmappedArray(mips));
  printf("ok\n");
}
