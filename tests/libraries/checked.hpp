// What the programs of this folder share: memory of the device, numbers to
// compute with, and comparing what a library answers with what the host finds.
#pragma once

#include "../cuda/check.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

/// Ends the program with 1 where a library's call fails: their success is 0.
#define LIBRARY(call)                                                          \
  do {                                                                         \
    auto library_status = static_cast<int>(call);                              \
    if (library_status != 0) {                                                 \
      std::printf("%s:%d: %s: status %d\n", __FILE__, __LINE__, #call,         \
                  library_status);                                             \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

/// `count` elements of the device's memory, freed with the object.
template <class T>
class device_array {
public:
  explicit device_array(std::size_t count) : count_{count} {
    CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), bytes()));
    CHECK(cudaMemset(data_, 0, bytes()));
  }
  explicit device_array(const std::vector<T>& from)
      : device_array(from.size()) {
    CHECK(cudaMemcpy(data_, from.data(), bytes(), cudaMemcpyHostToDevice));
  }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  ~device_array() { cudaFree(data_); }

  T* get() const { return data_; }
  std::size_t size() const { return count_; }
  std::size_t bytes() const {
    return std::max<std::size_t>(count_, 1) * sizeof(T);
  }

  /// Waits for the device.
  std::vector<T> host() const {
    auto out = std::vector<T>(count_);
    CHECK(cudaMemcpy(out.data(), data_, count_ * sizeof(T),
                     cudaMemcpyDeviceToHost));
    return out;
  }

private:
  T* data_ = nullptr;
  std::size_t count_;
};

/// Numbers from -1 to 1, the same at each run and for each type.
template <class T = double>
std::vector<T> numbers(std::size_t count, unsigned seed) {
  auto source = std::mt19937{seed};
  auto out = std::vector<T>{};
  out.reserve(count);
  for (auto i = std::size_t{0}; i < count; ++i)
    out.push_back(static_cast<T>(
        static_cast<float>(static_cast<double>(source()) / 2147483648.0 - 1)));
  return out;
}

/// FNV-1a: shows whether two runs gave the same bits.
template <class T>
std::uint64_t digest(const std::vector<T>& x) {
  auto out = std::uint64_t{0xcbf29ce484222325};
  auto bytes = reinterpret_cast<const unsigned char*>(x.data());
  for (auto i = std::size_t{0}; i < x.size() * sizeof(T); ++i)
    out = (out ^ bytes[i]) * 0x100000001b3;
  return out;
}

/// How far two numbers are apart for `expect_near`: complex ones have their
/// own.
inline double apart(double x, double y) {
  return std::abs(x - y);
}

/// Ends the program with 1 where an element is further from `expected` than
/// `tolerance` of the largest one; prints how far, and the digest.
template <class T, class U>
void expect_near(const char* name, const std::vector<T>& got,
                 const std::vector<U>& expected, double tolerance) {
  EXPECT(got.size() == expected.size());
  auto largest = 0.0;
  auto worst = 0.0;
  for (auto i = std::size_t{0}; i < got.size(); ++i) {
    auto x = static_cast<double>(got[i]);
    auto y = static_cast<double>(expected[i]);
    // Written so that a NaN is caught.
    largest = std::max(largest, std::abs(y));
    worst = std::abs(x - y) <= worst ? worst : std::abs(x - y);
  }
  std::printf("%s: %zu numbers, %016llx\n", name, got.size(),
              static_cast<unsigned long long>(digest(got)));
  if (!(worst <= tolerance * std::max(largest, 1e-30))) {
    std::printf("%s: %g off, of %g\n", name, worst, largest);
    std::exit(1);
  }
}
