// A volume in a 3D texture, whose bytes are read as numbers from 0 to 1 and
// filtered in three dimensions. Also reads the volume by points, with a border.
#include "../check.hpp"

#include <cmath>
#include <cstdio>
#include <vector>

const int nx = 20, ny = 12, nz = 8;

__global__ void slice(cudaTextureObject_t tex, float* out, int width,
                      int height, float w) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height)
    out[y * width + x] = tex3D<float>(tex, x / static_cast<float>(width),
                                      y / static_cast<float>(height), w);
}

__global__ void points(cudaTextureObject_t tex, int* out, int z) {
  int x = threadIdx.x - 1, y = blockIdx.x - 1;
  out[blockIdx.x * blockDim.x + threadIdx.x] =
      tex3D<unsigned char>(tex, x + 0.5f, y + 0.5f, z + 0.5f);
}

static std::vector<unsigned char> volume;

static double texel(int x, int y, int z) {
  auto in = [](int i, int n) { return i < 0 ? 0 : i >= n ? n - 1 : i; };
  return volume[(in(z, nz) * ny + in(y, ny)) * nx + in(x, nx)] / 255.0;
}

static double sample(double u, double v, double w) {
  double p[3] = {u * nx - 0.5, v * ny - 0.5, w * nz - 0.5};
  int i[3];
  double a[3];
  for (int k = 0; k < 3; ++k) {
    double fixed = std::floor(p[k] * 256 + 0.5) / 256;
    i[k] = static_cast<int>(std::floor(fixed));
    a[k] = fixed - i[k];
  }
  double sum = 0;
  for (int k = 0; k < 8; ++k)
    sum += (k & 1 ? a[0] : 1 - a[0]) * (k & 2 ? a[1] : 1 - a[1]) *
           (k & 4 ? a[2] : 1 - a[2]) *
           texel(i[0] + (k & 1), i[1] + (k >> 1 & 1), i[2] + (k >> 2));
  return sum;
}

int main() {
  volume.resize(nx * ny * nz);
  for (size_t i = 0; i < volume.size(); ++i)
    volume[i] = static_cast<unsigned char>(i * 7919 >> 3);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned char>();
  cudaArray_t array;
  CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(nx, ny, nz)));
  // Copies two halves, one from device memory and one from host memory.
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(volume.data(), nx, nx, ny);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(nx, ny, nz / 2);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));
  unsigned char* half;
  CHECK(cudaMalloc(&half, nx * ny * nz / 2));
  CHECK(cudaMemcpy(half, &volume[nx * ny * nz / 2], nx * ny * nz / 2,
                   cudaMemcpyHostToDevice));
  copy.srcPtr = make_cudaPitchedPtr(half, nx, nx, ny);
  copy.dstPos = make_cudaPos(0, 0, nz / 2);
  copy.kind = cudaMemcpyDeviceToDevice;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMemcpy3DAsync(&copy, stream));

  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc sampling = {};
  sampling.normalizedCoords = 1;
  sampling.filterMode = cudaFilterModeLinear;
  sampling.readMode = cudaReadModeNormalizedFloat;
  for (auto& mode : sampling.addressMode)
    mode = cudaAddressModeClamp;
  cudaTextureObject_t tex;
  CHECK(cudaCreateTextureObject(&tex, &resource, &sampling, nullptr));
  const int w = 50, h = 30;
  float* out;
  CHECK(cudaMalloc(&out, w * h * sizeof(float)));
  for (float z : {0.0f, 0.3f, 0.77f}) {
    slice<<<dim3(4, 4), dim3(16, 8), 0, stream>>>(tex, out, w, h, z);
    std::vector<float> got(w * h);
    CHECK(cudaMemcpyAsync(got.data(), out, w * h * sizeof(float),
                          cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < w * h; ++i) {
      float u = i % w / static_cast<float>(w),
            v = i / w / static_cast<float>(h);
      double want = sample(u, v, z);
      if (std::fabs(got[i] - want) > 0.012) {
        printf("z %g, element %d: %g, not %g\n", z, i, got[i], want);
        return 1;
      }
    }
  }
  CHECK(cudaDestroyTextureObject(tex));

  cudaTextureDesc bordered = {};
  for (auto& mode : bordered.addressMode)
    mode = cudaAddressModeBorder;
  CHECK(cudaCreateTextureObject(&tex, &resource, &bordered, nullptr));
  int* codes;
  CHECK(cudaMalloc(&codes, (nx + 2) * (ny + 2) * sizeof(int)));
  for (int z : {0, nz - 1, nz}) {
    points<<<ny + 2, nx + 2, 0, stream>>>(tex, codes, z);
    std::vector<int> got((nx + 2) * (ny + 2));
    CHECK(cudaMemcpyAsync(got.data(), codes, got.size() * sizeof(int),
                          cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < got.size(); ++i) {
      int x = static_cast<int>(i) % (nx + 2) - 1;
      int y = static_cast<int>(i) / (nx + 2) - 1;
      bool in = x >= 0 && x < nx && y >= 0 && y < ny && z < nz;
      int want = in ? volume[(z * ny + y) * nx + x] : 0;
      if (got[i] != want) {
        printf("(%d, %d, %d): %d, not %d\n", x, y, z, got[i], want);
        return 1;
      }
    }
  }
  CHECK(cudaDestroyTextureObject(tex));
  CHECK(cudaFreeArray(array));
  printf("ok\n");
}
