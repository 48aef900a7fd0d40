// Surfaces: a kernel writes an array, and a texture reads it. Accesses outside
// are clamped or dropped, as the kernel chooses.
#include "../check.hpp"

#include <cstdio>
#include <vector>

__global__ void store(cudaSurfaceObject_t to, const float* from, int width,
                      int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height)
    surf2Dwrite(from[y * width + x], to, x * 4, y, cudaBoundaryModeTrap);
}

__global__ void load(cudaTextureObject_t tex, float* out, int width,
                     int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height)
    out[y * width + x] = tex2D<float>(tex, x, y);
}

__global__ void beyond(cudaSurfaceObject_t s, float* out) {
  out[0] = surf2Dread<float>(s, -4, 3, cudaBoundaryModeZero);
  out[1] = surf2Dread<float>(s, -4, 3, cudaBoundaryModeClamp);
  out[2] = surf2Dread<float>(s, 8, 1000, cudaBoundaryModeClamp);
  out[3] = surf2Dread<float>(s, 8, 1000, cudaBoundaryModeZero);
  surf2Dwrite(-1.0f, s, 8, -1, cudaBoundaryModeZero);
}

// The other shapes and widths.
__global__ void shapes(cudaSurfaceObject_t volume, cudaSurfaceObject_t layers,
                       cudaSurfaceObject_t line) {
  int i = threadIdx.x;
  int x = i % 4, y = i / 4 % 4, z = i / 16;
  surf3Dwrite(make_short4(i, -i, 2 * i, 7), volume, x * 8, y, z);
  surf2DLayeredwrite(make_float2(i, i + 0.5f), layers, x * 8, y, z);
  if (z == 0)
    surf1Dwrite(static_cast<unsigned char>(i * 3), line, i);
  __syncthreads();
  short4 v = surf3Dread<short4>(volume, (3 - x) * 8, y, z);
  float2 f = surf2DLayeredread<float2>(layers, x * 8, 3 - y, z);
  __syncthreads();
  surf3Dwrite(make_short4(v.x, v.y, v.z, static_cast<short>(f.y)), volume,
              x * 8, y, z);
}

static cudaSurfaceObject_t surface_of(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t out = 0;
  if (cudaCreateSurfaceObject(&out, &resource) != cudaSuccess)
    printf("cudaCreateSurfaceObject failed\n");
  return out;
}

int main() {
  const int w = 60, h = 33;
  std::vector<float> data(w * h);
  for (int i = 0; i < w * h; ++i)
    data[i] = 1.0f + i;
  float* dev;
  CHECK(cudaMalloc(&dev, w * h * sizeof(float)));
  CHECK(cudaMemcpy(dev, data.data(), w * h * sizeof(float),
                   cudaMemcpyHostToDevice));
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  CHECK(cudaMallocArray(&array, &format, w, h, cudaArraySurfaceLoadStore));
  cudaSurfaceObject_t surface = surface_of(array);
  dim3 block(16, 8), grid((w + 15) / 16, (h + 7) / 8);
  store<<<grid, block>>>(surface, dev, w, h);

  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc sampling = {};
  cudaTextureObject_t tex;
  CHECK(cudaCreateTextureObject(&tex, &resource, &sampling, nullptr));
  CHECK(cudaMemset(dev, 0, w * h * sizeof(float)));
  load<<<grid, block>>>(tex, dev, w, h);
  std::vector<float> got(w * h);
  CHECK(cudaMemcpy(got.data(), dev, w * h * sizeof(float),
                   cudaMemcpyDeviceToHost));
  if (got != data) {
    printf("what was written to the surface is not what the texture shows\n");
    return 1;
  }

  beyond<<<1, 1>>>(surface, dev);
  float out[4];
  CHECK(cudaMemcpy(out, dev, sizeof(out), cudaMemcpyDeviceToHost));
  if (out[0] != 0 || out[1] != data[3 * w] || out[2] != data[(h - 1) * w + 2] ||
      out[3] != 0) {
    printf("beyond: %g %g %g %g\n", out[0], out[1], out[2], out[3]);
    return 1;
  }
  CHECK(cudaMemcpy2DFromArray(got.data(), w * sizeof(float), array, 0, 0,
                              w * sizeof(float), h, cudaMemcpyDeviceToHost));
  if (got != data) {
    printf("a store outside has changed the array\n");
    return 1;
  }
  CHECK(cudaDestroyTextureObject(tex));
  CHECK(cudaDestroySurfaceObject(surface));

  cudaChannelFormatDesc four = cudaCreateChannelDesc<short4>();
  cudaChannelFormatDesc two = cudaCreateChannelDesc<float2>();
  cudaChannelFormatDesc one = cudaCreateChannelDesc<unsigned char>();
  cudaArray_t volume, layers, line;
  CHECK(cudaMalloc3DArray(&volume, &four, make_cudaExtent(4, 4, 4),
                          cudaArraySurfaceLoadStore));
  CHECK(cudaMalloc3DArray(&layers, &two, make_cudaExtent(4, 4, 4),
                          cudaArraySurfaceLoadStore | cudaArrayLayered));
  CHECK(cudaMallocArray(&line, &one, 16, 0, cudaArraySurfaceLoadStore));
  shapes<<<1, 64>>>(surface_of(volume), surface_of(layers), surface_of(line));
  std::vector<short> shorts(64 * 4);
  cudaMemcpy3DParms copy = {};
  copy.srcArray = volume;
  copy.dstPtr = make_cudaPitchedPtr(shorts.data(), 4 * 8, 4, 4);
  copy.extent = make_cudaExtent(4, 4, 4);
  copy.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3D(&copy));
  unsigned char bytes[16];
  CHECK(cudaMemcpy2DFromArray(bytes, 16, line, 0, 0, 16, 1,
                              cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) {
    int x = i % 4, y = i / 4 % 4, z = i / 16;
    int from = z * 16 + y * 4 + 3 - x;
    int below = z * 16 + (3 - y) * 4 + x;
    const short* v = &shorts[4 * i];
    if (v[0] != from || v[1] != -from || v[2] != 2 * from || v[3] != below ||
        (z == 0 && bytes[i] != i * 3)) {
      printf("element %d: %d %d %d %d\n", i, v[0], v[1], v[2], v[3]);
      return 1;
    }
  }
  printf("ok\n");
}
