// Draws the Mandelbrot set and writes it as a PNG picture.
// nvcc: -lpng
#include "../example.hpp"

#include <cmath>
#include <png.h>

// Every product is fused explicitly, so that host and GPU round alike.
__host__ __device__ int escape_count(float cx, float cy, int most) {
  float x = 0, y = 0;
  for (int i = 0; i < most; ++i) {
    if (fmaf(x, x, y * y) > 4.0f)
      return i;
    float next_x = fmaf(x, x, fmaf(-y, y, cx));
    y = fmaf(2.0f * x, y, cy);
    x = next_x;
  }
  return most;
}

struct view {
  int width, height, most;
  float left, top, step;
};

__host__ __device__ int escape_count_at(const view& v, int column, int row) {
  return escape_count(fmaf(v.step, static_cast<float>(column), v.left),
                      fmaf(-v.step, static_cast<float>(row), v.top), v.most);
}

__global__ void draw(view v, unsigned short* counts) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column < v.width && row < v.height)
    counts[row * v.width + column] = escape_count_at(v, column, row);
}

static bool write_png(const char* path, const view& v,
                      const std::vector<unsigned short>& counts) {
  std::vector<unsigned char> rgb;
  rgb.reserve(counts.size() * 3);
  for (int count : counts) {
    bool inside = count == v.most;
    rgb.push_back(inside ? 0 : static_cast<unsigned char>(count * 5));
    rgb.push_back(inside ? 0 : static_cast<unsigned char>(count * 2));
    rgb.push_back(inside ? 0 : static_cast<unsigned char>(64 + count));
  }
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = v.width;
  image.height = v.height;
  image.format = PNG_FORMAT_RGB;
  if (png_image_write_to_file(&image, path, 0, rgb.data(), 0, nullptr))
    return true;
  std::fprintf(stderr, "mandelbrot: cannot write %s: %s\n", path,
               image.message);
  return false;
}

int main(int argc, char** argv) {
  const char* path = "mandelbrot.png";
  if (argc > 1 && argv[1][0] != '-') {
    path = argv[1];
    --argc;
    ++argv;
  }
  long width = 480, height = 320, most = 160;
  parse_arguments(argc, argv, "mandelbrot [file.png]",
                  "Draws the Mandelbrot set into file.png (mandelbrot.png).",
                  {{"width", &width, 1, 8192, "pixels in a row"},
                   {"height", &height, 1, 8192, "rows"},
                   {"iterations", &most, 1, 60000, "after which to give up"}});
  view v;
  v.width = static_cast<int>(width);
  v.height = static_cast<int>(height);
  v.most = static_cast<int>(most);
  v.step = 3.0f / static_cast<float>(width);
  v.left = -2.2f;
  v.top = 0.5f * v.step * static_cast<float>(height);

  std::vector<unsigned short> counts(width * height);
  size_t bytes = counts.size() * sizeof(counts[0]);
  unsigned short* dev_counts;
  check(cudaMalloc(&dev_counts, bytes), "cudaMalloc");
  dim3 block(16, 16);
  dim3 grid((v.width + 15) / 16, (v.height + 15) / 16);
  draw<<<grid, block>>>(v, dev_counts);
  check(cudaGetLastError(), "launch of draw");
  check(cudaMemcpy(counts.data(), dev_counts, bytes, cudaMemcpyDeviceToHost),
        "copy counts");
  check(cudaFree(dev_counts), "cudaFree");

  long inside = 0;
  for (int row = 0; row < v.height; ++row) {
    for (int column = 0; column < v.width; ++column) {
      int count = counts[row * v.width + column];
      int expected = escape_count_at(v, column, row);
      if (count != expected) {
        std::printf("mandelbrot: pixel (%d, %d) is %d, expected %d\n", column,
                    row, count, expected);
        return 1;
      }
      inside += count == v.most;
    }
  }
  if (!write_png(path, v, counts))
    return 1;
  std::printf("mandelbrot: %ld x %ld, %ld pixels inside, all right, see %s\n",
              width, height, inside, path);
}
