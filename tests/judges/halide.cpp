// Pipelines that Halide compiles at run time, for the host and for CUDA: what
// both compute must be the same, floating point within what fusing a
// multiplication with an addition makes of it.
#include <Halide.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <vector>

using namespace Halide;

namespace {

Var x{"x"}, y{"y"}, xo{"xo"}, yo{"yo"}, xi{"xi"}, yi{"yi"};
bool all_right = true;

/// `make` gives the pipeline, scheduled for a GPU or not. `tolerance` is
/// relative.
template <class T>
void compare(const char* name, const std::vector<int>& size, double tolerance,
             const std::function<Func(bool)>& make) {
  Buffer<T> out[2];
  for (auto gpu : {0, 1}) {
    auto target = get_host_target();
    if (gpu == 1)
      target = target.with_feature(Target::CUDA)
                   .with_feature(Target::CUDACapability50);
    out[gpu] = make(gpu == 1).realize(size, target);
    out[gpu].copy_to_host();
  }
  auto wrong = 0;
  auto hash = std::uint64_t{17};
  out[0].for_each_element([&](const int* at) {
    auto a = double(out[0](at)), b = double(out[1](at));
    // Not <=: a NaN is wrong.
    if (!(std::abs(a - b) <= tolerance * std::abs(a)))
      ++wrong;
    hash = hash * 31 + std::uint64_t(std::int64_t(b * 16));
  });
  std::printf("%s %016llx\n", name, static_cast<unsigned long long>(hash));
  if (wrong != 0)
    std::printf("%s: %d elements are wrong\n", name, wrong);
  all_right = all_right && wrong == 0;
}

void blur() {
  Buffer<std::uint8_t> in(512, 384);
  in.for_each_element(
      [&](int i, int j) { in(i, j) = std::uint8_t((i * 7) ^ (j * 13)); });
  compare<std::uint8_t>("blur", {512, 384}, 0, [&](bool gpu) {
    auto c = BoundaryConditions::repeat_edge(in);
    Func h{"h"}, v{"v"};
    h(x, y) = (cast<std::uint16_t>(c(x - 1, y)) + c(x, y) + c(x + 1, y)) / 3;
    v(x, y) = cast<std::uint8_t>((h(x, y - 1) + h(x, y) + h(x, y + 1)) / 3);
    if (gpu) {
      v.gpu_tile(x, y, xo, yo, xi, yi, 16, 16);
      h.compute_at(v, xo).gpu_threads(x, y);
    }
    return v;
  });
}

void histogram() {
  compare<int>("histogram", {256}, 0, [](bool gpu) {
    Func h{"histogram"};
    RDom r{0, 512, 0, 384};
    RVar rx{"rx"}, ry{"ry"}, rxi{"rxi"}, ryi{"ryi"};
    h(x) = 0;
    h((r.x * 7 + r.y * r.y) % 256) += 1;
    if (gpu) {
      h.gpu_tile(x, xi, 64);
      h.update().atomic().gpu_tile(r.x, r.y, rx, ry, rxi, ryi, 16, 16);
    }
    return h;
  });
}

void functions() {
  compare<float>("functions", {1024}, 2e-5, [](bool gpu) {
    Func f{"functions"};
    auto v = cast<float>(x) / 100.0f;
    f(x) = 2.0f + sin(v) * exp(-v) + sqrt(v) + pow(v + 1.0f, 1.5f) +
           atan2(v, 2.0f) + log(v + 1.0f) + floor(v) + tanh(v);
    if (gpu)
      f.gpu_tile(x, xi, 64);
    return f;
  });
  compare<double>("doubles", {2000}, 1e-15, [](bool gpu) {
    Func f{"doubles"};
    auto v = cast<double>(x) / 17;
    f(x) = v * v - fract(v) + select(x % 3 == 0, ceil(v), round(v));
    if (gpu)
      f.gpu_tile(x, xi, 128);
    return f;
  });
}

void matrices() {
  compare<float>("matrices", {128, 128}, 0, [](bool gpu) {
    Func a{"a"}, b{"b"}, m{"m"}, out{"out"};
    RDom k{0, 128};
    a(x, y) = cast<float>((x * 3 + y) % 17);
    b(x, y) = cast<float>((x + y * 5) % 13);
    m(x, y) = 0.0f;
    m(x, y) += a(k, y) * b(x, k);
    out(x, y) = m(x, y);
    a.compute_root();
    b.compute_root();
    if (gpu) {
      a.gpu_tile(x, y, xi, yi, 16, 16);
      b.gpu_tile(x, y, xi, yi, 16, 16);
      out.gpu_tile(x, y, xo, yo, xi, yi, 16, 16);
      m.compute_at(out, xi);
    }
    return out;
  });
}

void integers() {
  compare<std::int64_t>("division", {300, 20}, 0, [](bool gpu) {
    Func f{"division"};
    auto a = cast<std::int64_t>(x) * 1234567891 + y;
    f(x, y) =
        (a / (cast<std::int64_t>(y) + 3)) ^ (a % (cast<std::int64_t>(x) + 7));
    if (gpu)
      f.gpu_tile(x, y, xi, yi, 32, 4);
    return f;
  });
  compare<int>("scan", {256, 8}, 0, [](bool gpu) {
    Func f{"scan"};
    RDom r{1, 255};
    f(x, y) = x * y % 11;
    f(r, y) += f(r - 1, y);
    if (gpu) {
      f.gpu_tile(x, y, xi, yi, 32, 4);
      f.update().gpu_tile(y, yi, 8);
    }
    return f;
  });
}

} // namespace

int main() {
  blur();
  histogram();
  functions();
  matrices();
  integers();
  std::puts(all_right ? "ok" : "wrong");
  return all_right ? 0 : 1;
}
