// A layered texture, whose layers are separate images that are not filtered
// with their neighbours.
#include "../check.hpp"

#include <cstdio>
#include <vector>

__global__ void transform(cudaTextureObject_t tex, float* out, int width,
                          int height, int layer) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  float u = (x + 0.5f) / width, v = (y + 0.5f) / height;
  out[(layer * height + y) * width + x] =
      -tex2DLayered<float>(tex, u, v, layer) + layer;
}

__global__ void lines(cudaTextureObject_t tex, float* out, int width) {
  out[blockIdx.x * width + threadIdx.x] =
      tex1DLayered<float>(tex, threadIdx.x + 1.0f, blockIdx.x);
}

int main() {
  const int w = 64, h = 32, layers = 5;
  std::vector<float> data(w * h * layers);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<float>(i % 1000) * 0.25f;

  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(w, h, layers),
                          cudaArrayLayered));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(data.data(), w * sizeof(float), w, h);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(w, h, layers);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));

  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc sampling = {};
  sampling.normalizedCoords = true;
  sampling.filterMode = cudaFilterModeLinear;
  sampling.addressMode[0] = cudaAddressModeWrap;
  sampling.addressMode[1] = cudaAddressModeWrap;
  cudaTextureObject_t tex;
  CHECK(cudaCreateTextureObject(&tex, &resource, &sampling, nullptr));

  float* out;
  CHECK(cudaMalloc(&out, data.size() * sizeof(float)));
  for (int layer = 0; layer < layers; ++layer)
    transform<<<dim3(w / 8, h / 8), dim3(8, 8)>>>(tex, out, w, h, layer);
  std::vector<float> got(data.size());
  CHECK(cudaMemcpy(got.data(), out, data.size() * sizeof(float),
                   cudaMemcpyDeviceToHost));
  for (int i = 0; i < w * h * layers; ++i)
    if (got[i] != -data[i] + i / (w * h)) {
      printf("element %d: %g, not %g\n", i, got[i], -data[i] + i / (w * h));
      return 1;
    }
  CHECK(cudaDestroyTextureObject(tex));

  // Copies a slice of it back, into the middle of a larger block.
  std::vector<float> slice(20 * 10, -1);
  cudaMemcpy3DParms back = {};
  back.srcArray = array;
  back.srcPos = make_cudaPos(7, 3, 2);
  back.dstPtr = make_cudaPitchedPtr(slice.data(), 20 * sizeof(float), 20, 10);
  back.dstPos = make_cudaPos(4, 1, 0);
  back.extent = make_cudaExtent(8, 6, 1);
  back.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3D(&back));
  for (int y = 0; y < 10; ++y)
    for (int x = 0; x < 20; ++x) {
      bool in = x >= 4 && x < 12 && y >= 1 && y < 7;
      float want = in ? data[(2 * h + y - 1 + 3) * w + x - 4 + 7] : -1.0f;
      if (slice[y * 20 + x] != want) {
        printf("slice (%d, %d): %g, not %g\n", x, y, slice[y * 20 + x], want);
        return 1;
      }
    }
  CHECK(cudaFreeArray(array));

  // Reads lines in layers, halfway between their elements.
  CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(w, 0, layers),
                          cudaArrayLayered));
  copy.srcPtr = make_cudaPitchedPtr(data.data(), w * sizeof(float), w, 1);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(w, 1, layers);
  CHECK(cudaMemcpy3D(&copy));
  resource.res.array.array = array;
  sampling.normalizedCoords = false;
  sampling.addressMode[0] = cudaAddressModeClamp;
  CHECK(cudaCreateTextureObject(&tex, &resource, &sampling, nullptr));
  lines<<<layers, w>>>(tex, out, w);
  CHECK(cudaMemcpy(got.data(), out, w * layers * sizeof(float),
                   cudaMemcpyDeviceToHost));
  for (int i = 0; i < w * layers; ++i) {
    int x = i % w;
    float want = (data[i] + data[x + 1 < w ? i + 1 : i]) / 2;
    if (got[i] != want) {
      printf("line element %d: %g, not %g\n", i, got[i], want);
      return 1;
    }
  }
  CHECK(cudaDestroyTextureObject(tex));
  CHECK(cudaFreeArray(array));
  CHECK(cudaFree(out));
  printf("ok\n");
}
