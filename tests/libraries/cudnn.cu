// cuDNN: convolutions forwards and backwards by each algorithm that it offers,
// pooling, softmax and normalisation, compared with the host's sums.
// nvcc: -std=c++17 -lcudnn
#include "checked.hpp"

#include <cudnn.h>

namespace {

constexpr int images = 2, in = 4, out = 6, high = 9, wide = 8, filter = 3,
              pad = 1;

using values = std::vector<float>;

std::size_t at(int n, int c, int y, int x, int channels) {
  return ((std::size_t(n) * channels + c) * high + y) * wide + x;
}

std::size_t weight(int o, int i, int y, int x) {
  return ((std::size_t(o) * in + i) * filter + y) * filter + x;
}

/// Calls `f` with each triple of places that a convolution multiplies: of the
/// input, of the weights and of the output.
template <class F>
void each_product(F f) {
  for (int n = 0; n < images; ++n)
    for (int o = 0; o < out; ++o)
      for (int i = 0; i < in; ++i)
        for (int y = 0; y < high; ++y)
          for (int x = 0; x < wide; ++x)
            for (int r = 0; r < filter; ++r)
              for (int s = 0; s < filter; ++s) {
                auto v = y + r - pad, u = x + s - pad;
                if (v >= 0 && v < high && u >= 0 && u < wide)
                  f(at(n, i, v, u, in), weight(o, i, r, s),
                    at(n, o, y, x, out));
              }
}

cudnnTensorDescriptor_t tensor(int channels) {
  cudnnTensorDescriptor_t x;
  LIBRARY(cudnnCreateTensorDescriptor(&x));
  LIBRARY(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
                                     images, channels, high, wide));
  return x;
}

constexpr float one = 1, zero = 0;

struct convolution {
  cudnnHandle_t dnn;
  cudnnTensorDescriptor_t x = tensor(in), y = tensor(out);
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t how;
  values vx = numbers<float>(std::size_t(images) * in * high * wide, 61);
  values vw = numbers<float>(std::size_t(out) * in * filter * filter, 62);
  values vy = numbers<float>(std::size_t(images) * out * high * wide, 63);
  device_array<char> work{std::size_t{64} << 20};

  explicit convolution(cudnnHandle_t handle) : dnn{handle} {
    LIBRARY(cudnnCreateFilterDescriptor(&w));
    LIBRARY(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                       out, in, filter, filter));
    LIBRARY(cudnnCreateConvolutionDescriptor(&how));
    LIBRARY(cudnnSetConvolution2dDescriptor(
        how, pad, pad, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    LIBRARY(cudnnSetConvolutionMathType(how, CUDNN_FMA_MATH));
  }
  convolution(const convolution&) = delete;
  convolution& operator=(const convolution&) = delete;
  ~convolution() {
    cudnnDestroyTensorDescriptor(x);
    cudnnDestroyTensorDescriptor(y);
    cudnnDestroyFilterDescriptor(w);
    cudnnDestroyConvolutionDescriptor(how);
  }

  /// Runs `f` for each algorithm that fits the workspace; one must be there.
  template <class Performance, class F>
  void each_way(const Performance* all, int count, F f) {
    auto done = 0;
    for (int i = 0; i < count; ++i)
      if (all[i].status == CUDNN_STATUS_SUCCESS &&
          all[i].memory <= work.bytes()) {
        std::printf("algorithm %d, ", int(all[i].algo));
        f(all[i].algo);
        ++done;
      }
    EXPECT(done > 0);
  }

  void forwards() {
    auto expected = std::vector<double>(vy.size());
    each_product([&](auto i, auto k, auto o) {
      expected[o] += double(vx[i]) * double(vw[k]);
    });
    auto dx = device_array<float>{vx};
    auto dw = device_array<float>{vw};
    auto dy = device_array<float>{vy.size()};
    cudnnConvolutionFwdAlgoPerf_t all[8];
    auto count = 0;
    LIBRARY(cudnnGetConvolutionForwardAlgorithm_v7(dnn, x, w, how, y, 8, &count,
                                                   all));
    each_way(all, count, [&](auto way) {
      LIBRARY(cudnnConvolutionForward(dnn, &one, x, dx.get(), w, dw.get(), how,
                                      way, work.get(), work.bytes(), &zero, y,
                                      dy.get()));
      expect_near("forwards", dy.host(), expected, 1e-5);
    });
  }

  void to_input() {
    auto expected = std::vector<double>(vx.size());
    each_product([&](auto i, auto k, auto o) {
      expected[i] += double(vy[o]) * double(vw[k]);
    });
    auto dx = device_array<float>{vx.size()};
    auto dw = device_array<float>{vw};
    auto dy = device_array<float>{vy};
    cudnnConvolutionBwdDataAlgoPerf_t all[8];
    auto count = 0;
    LIBRARY(cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn, w, y, how, x, 8,
                                                        &count, all));
    each_way(all, count, [&](auto way) {
      LIBRARY(cudnnConvolutionBackwardData(dnn, &one, w, dw.get(), y, dy.get(),
                                           how, way, work.get(), work.bytes(),
                                           &zero, x, dx.get()));
      expect_near("back to the input", dx.host(), expected, 1e-5);
    });
  }

  void to_weights() {
    auto expected = std::vector<double>(vw.size());
    each_product([&](auto i, auto k, auto o) {
      expected[k] += double(vy[o]) * double(vx[i]);
    });
    auto dx = device_array<float>{vx};
    auto dw = device_array<float>{vw.size()};
    auto dy = device_array<float>{vy};
    cudnnConvolutionBwdFilterAlgoPerf_t all[8];
    auto count = 0;
    LIBRARY(cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn, x, y, how, w, 8,
                                                          &count, all));
    each_way(all, count, [&](auto way) {
      LIBRARY(cudnnConvolutionBackwardFilter(dnn, &one, x, dx.get(), y,
                                             dy.get(), how, way, work.get(),
                                             work.bytes(), &zero, w, dw.get()));
      expect_near("back to the weights", dw.host(), expected, 1e-5);
    });
  }
};

void softmax(cudnnHandle_t dnn) {
  auto x = numbers<float>(std::size_t(images) * in * high * wide, 64);
  auto expected = std::vector<double>(x.size());
  for (int n = 0; n < images; ++n)
    for (int v = 0; v < high; ++v)
      for (int u = 0; u < wide; ++u) {
        auto sum = 0.0;
        for (int c = 0; c < in; ++c)
          sum += std::exp(double(x[at(n, c, v, u, in)]));
        for (int c = 0; c < in; ++c)
          expected[at(n, c, v, u, in)] =
              std::exp(double(x[at(n, c, v, u, in)])) / sum;
      }
  auto dx = device_array<float>{x};
  auto dy = device_array<float>{x.size()};
  auto as = tensor(in);
  LIBRARY(cudnnSoftmaxForward(dnn, CUDNN_SOFTMAX_ACCURATE,
                              CUDNN_SOFTMAX_MODE_CHANNEL, &one, as, dx.get(),
                              &zero, as, dy.get()));
  expect_near("softmax", dy.host(), expected, 1e-5);
  LIBRARY(cudnnDestroyTensorDescriptor(as));
}

void normalisation(cudnnHandle_t dnn) {
  constexpr auto epsilon = 1e-5;
  auto x = numbers<float>(std::size_t(images) * in * high * wide, 65);
  auto scale = numbers<float>(in, 66), bias = numbers<float>(in, 67);
  auto expected = std::vector<double>(x.size());
  constexpr auto count = double(images) * high * wide;
  for (int c = 0; c < in; ++c) {
    auto each = [&](auto f) {
      for (int n = 0; n < images; ++n)
        for (int v = 0; v < high; ++v)
          for (int u = 0; u < wide; ++u)
            f(at(n, c, v, u, in));
    };
    auto mean = 0.0, spread = 0.0;
    each([&](auto i) { mean += x[i] / count; });
    each([&](auto i) { spread += (x[i] - mean) * (x[i] - mean) / count; });
    each([&](auto i) {
      expected[i] =
          (x[i] - mean) / std::sqrt(spread + epsilon) * scale[c] + bias[c];
    });
  }
  auto as = tensor(in);
  cudnnTensorDescriptor_t of;
  LIBRARY(cudnnCreateTensorDescriptor(&of));
  constexpr auto mode = CUDNN_BATCHNORM_SPATIAL;
  LIBRARY(cudnnDeriveBNTensorDescriptor(of, as, mode));
  auto dx = device_array<float>{x};
  auto dy = device_array<float>{x.size()};
  auto ds = device_array<float>{scale};
  auto db = device_array<float>{bias};
  LIBRARY(cudnnBatchNormalizationForwardTraining(
      dnn, mode, &one, &zero, as, dx.get(), as, dy.get(), of, ds.get(),
      db.get(), 1, nullptr, nullptr, epsilon, nullptr, nullptr));
  expect_near("normalisation", dy.host(), expected, 1e-5);
  LIBRARY(cudnnDestroyTensorDescriptor(of));
  LIBRARY(cudnnDestroyTensorDescriptor(as));
}

} // namespace

int main() {
  cudnnHandle_t dnn;
  LIBRARY(cudnnCreate(&dnn));
  {
    auto x = convolution{dnn};
    x.forwards();
    x.to_input();
    x.to_weights();
  }
  softmax(dnn);
  normalisation(dnn);
  LIBRARY(cudnnDestroy(dnn));
  std::puts("PASSED");
}
