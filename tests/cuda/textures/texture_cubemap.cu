// A cubemap, whose elements are read by their directions, and several cubemaps
// in one array.
#include "../check.hpp"

#include <cstdio>
#include <vector>

__device__ float3 direction(int face, float u, float v) {
  switch (face) {
  case 0:
    return make_float3(1, -v, -u);
  case 1:
    return make_float3(-1, -v, u);
  case 2:
    return make_float3(u, 1, v);
  case 3:
    return make_float3(u, -1, -v);
  case 4:
    return make_float3(u, -v, 1);
  default:
    return make_float3(-u, -v, -1);
  }
}

__global__ void look(cudaTextureObject_t tex, float* out, int width, int cube) {
  int x = threadIdx.x, y = threadIdx.y, face = blockIdx.x;
  float u = (x + 0.5f) / width * 2 - 1, v = (y + 0.5f) / width * 2 - 1;
  float3 d = direction(face, u, v);
  out[(face * width + y) * width + x] =
      cube < 0 ? texCubemap<float>(tex, d.x * 3, d.y * 3, d.z * 3)
               : texCubemapLayered<float>(tex, d.x, d.y, d.z, cube);
}

static int check(const std::vector<float>& got, const float* want,
                 const char* what) {
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != want[i]) {
      printf("%s, element %zu: %g, not %g\n", what, i, got[i], want[i]);
      return 1;
    }
  return 0;
}

int main() {
  const int w = 16, cubes = 3, faces = 6;
  const int cube = w * w * faces;
  std::vector<float> data(cube * cubes);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<float>(i) + 0.5f;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  std::vector<float> got(cube);
  float* out;
  CHECK(cudaMalloc(&out, cube * sizeof(float)));

  for (int layered = 0; layered < 2; ++layered) {
    int count = layered ? cubes : 1;
    cudaArray_t array;
    CHECK(cudaMalloc3DArray(
        &array, &format, make_cudaExtent(w, w, faces * count),
        layered ? cudaArrayCubemap | cudaArrayLayered : cudaArrayCubemap));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(data.data(), w * sizeof(float), w, w);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(w, w, faces * count);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc sampling = {};
    sampling.normalizedCoords = true;
    sampling.filterMode = cudaFilterModeLinear;
    for (auto& mode : sampling.addressMode)
      mode = cudaAddressModeClamp;
    cudaTextureObject_t tex;
    CHECK(cudaCreateTextureObject(&tex, &resource, &sampling, nullptr));
    for (int i = 0; i < count; ++i) {
      look<<<faces, dim3(w, w)>>>(tex, out, w, layered ? i : -1);
      CHECK(cudaMemcpy(got.data(), out, cube * sizeof(float),
                       cudaMemcpyDeviceToHost));
      if (check(got, &data[i * cube], layered ? "of several" : "alone"))
        return 1;
    }
    CHECK(cudaDestroyTextureObject(tex));
    CHECK(cudaFreeArray(array));
  }

  // A cubemap must have six square faces.
  cudaArray_t none;
  if (cudaMalloc3DArray(&none, &format, make_cudaExtent(w, w, 5),
                        cudaArrayCubemap) != cudaErrorInvalidValue ||
      cudaMalloc3DArray(&none, &format, make_cudaExtent(w, 8, 6),
                        cudaArrayCubemap) != cudaErrorInvalidValue) {
    printf("a cubemap of another shape was made\n");
    return 1;
  }
  CHECK(cudaFree(out));
  printf("ok\n");
}
