// Textures of plain memory: consecutive elements (tex1Dfetch), and rows with a
// pitch. Bytes are read as numbers from 0 to 1, or unchanged.
#include "../check.hpp"

#include <cstdio>
#include <vector>

__global__ void fetch(cudaTextureObject_t tex, int4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = tex1Dfetch<int4>(tex, i);
}

__global__ void fetch_bytes(cudaTextureObject_t bytes,
                            cudaTextureObject_t numbers, uchar4* as_bytes,
                            float4* as_numbers) {
  int i = threadIdx.x;
  as_bytes[i] = tex1Dfetch<uchar4>(bytes, i);
  as_numbers[i] = tex1Dfetch<float4>(numbers, i);
}

__global__ void shift(cudaTextureObject_t tex, float* out, int width,
                      int height, float by_x, float by_y) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  out[y * width + x] =
      tex2D<float>(tex, (x + by_x) / width, (y + by_y) / height);
}

int main() {
  const int n = 1000;
  std::vector<int> data(4 * n);
  for (int i = 0; i < 4 * n; ++i)
    data[i] = i * 1103515245 + 12345;
  int4 *in, *out;
  CHECK(cudaMalloc(&in, n * sizeof(int4)));
  CHECK(cudaMalloc(&out, n * sizeof(int4)));
  CHECK(cudaMemcpy(in, data.data(), n * sizeof(int4), cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = in;
  resource.res.linear.desc = cudaCreateChannelDesc<int4>();
  resource.res.linear.sizeInBytes = n * sizeof(int4);
  cudaTextureDesc plain = {};
  cudaTextureObject_t tex;
  CHECK(cudaCreateTextureObject(&tex, &resource, &plain, nullptr));
  fetch<<<(n + 127) / 128, 128>>>(tex, out, n);
  std::vector<int> got(4 * n);
  CHECK(cudaMemcpy(got.data(), out, n * sizeof(int4), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 4 * n; ++i)
    if (got[i] != data[i]) {
      printf("int %d: %d, not %d\n", i, got[i], data[i]);
      return 1;
    }
  CHECK(cudaDestroyTextureObject(tex));

  // Reads the same bytes in two ways.
  resource.res.linear.desc = cudaCreateChannelDesc<uchar4>();
  cudaTextureObject_t bytes, numbers;
  CHECK(cudaCreateTextureObject(&bytes, &resource, &plain, nullptr));
  cudaTextureDesc scaled = {};
  scaled.readMode = cudaReadModeNormalizedFloat;
  CHECK(cudaCreateTextureObject(&numbers, &resource, &scaled, nullptr));
  uchar4* b;
  float4* f;
  CHECK(cudaMalloc(&b, 256 * sizeof(uchar4)));
  CHECK(cudaMalloc(&f, 256 * sizeof(float4)));
  fetch_bytes<<<1, 256>>>(bytes, numbers, b, f);
  std::vector<unsigned char> got_bytes(1024);
  std::vector<float> got_numbers(1024);
  CHECK(cudaMemcpy(got_bytes.data(), b, 1024, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(got_numbers.data(), f, 4096, cudaMemcpyDeviceToHost));
  auto raw = reinterpret_cast<const unsigned char*>(data.data());
  for (int i = 0; i < 1024; ++i) {
    float d = got_numbers[i] - raw[i] / 255.0f;
    if (got_bytes[i] != raw[i] || d > 1e-6f || d < -1e-6f) {
      printf("byte %d: %d and %g\n", i, got_bytes[i], got_numbers[i]);
      return 1;
    }
  }
  CHECK(cudaDestroyTextureObject(bytes));
  CHECK(cudaDestroyTextureObject(numbers));

  // Shifts rows by whole elements, with wrapping at the edges.
  const int w = 48, h = 40, by_x = 13, by_y = 37;
  std::vector<float> image(w * h);
  for (int i = 0; i < w * h; ++i)
    image[i] = static_cast<float>(i);
  float *rows, *moved;
  size_t pitch;
  CHECK(cudaMallocPitch(&rows, &pitch, w * sizeof(float), h));
  CHECK(cudaMalloc(&moved, w * h * sizeof(float)));
  CHECK(cudaMemcpy2D(rows, pitch, image.data(), w * sizeof(float),
                     w * sizeof(float), h, cudaMemcpyHostToDevice));
  cudaResourceDesc pitched = {};
  pitched.resType = cudaResourceTypePitch2D;
  pitched.res.pitch2D.devPtr = rows;
  pitched.res.pitch2D.desc = cudaCreateChannelDesc<float>();
  pitched.res.pitch2D.width = w;
  pitched.res.pitch2D.height = h;
  pitched.res.pitch2D.pitchInBytes = pitch;
  cudaTextureDesc wrapped = {};
  wrapped.normalizedCoords = 1;
  wrapped.addressMode[0] = wrapped.addressMode[1] = cudaAddressModeWrap;
  CHECK(cudaCreateTextureObject(&tex, &pitched, &wrapped, nullptr));
  shift<<<dim3(w / 16, h / 8), dim3(16, 8)>>>(tex, moved, w, h, by_x + 0.5f,
                                              by_y + 0.5f);
  std::vector<float> got_image(w * h);
  CHECK(cudaMemcpy(got_image.data(), moved, w * h * sizeof(float),
                   cudaMemcpyDeviceToHost));
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x) {
      float want = image[(y + by_y) % h * w + (x + by_x) % w];
      if (got_image[y * w + x] != want) {
        printf("(%d, %d): %g, not %g\n", x, y, got_image[y * w + x], want);
        return 1;
      }
    }
  CHECK(cudaDestroyTextureObject(tex));
  printf("ok\n");
}
