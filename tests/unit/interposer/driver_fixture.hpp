// The driver as programs use it, served by the fake client.
#pragma once

#include "tests/unit/interposer/fake_client.hpp"

#include <cuda.h>

#include <boost/test/unit_test.hpp>

#include <bit>
#include <string>

namespace vgpu::test {

/// The one fake client of this test program.
fake_client& fake();

/// A program that has called cuInit, with the primary context of device 0
/// current.
struct driver_fixture {
  driver_fixture();
  ~driver_fixture();
  CUcontext primary = nullptr;
};

/// Returns a value outside the enumeration, as C programs may pass.
template <class Enum>
Enum unknown_value(int value) {
  return std::bit_cast<Enum>(value);
}

inline const char* name_of(CUresult code) {
  const char* name = nullptr;
  return cuGetErrorName(code, &name) == CUDA_SUCCESS ? name : "?";
}

} // namespace vgpu::test

/// Requires that a driver call returns this code, and shows both by name.
#define CHECK_CODE(call, code)                                                 \
  BOOST_TEST(std::string{vgpu::test::name_of(call)} == #code)
#define REQUIRE_OK(call)                                                       \
  BOOST_TEST_REQUIRE(std::string{vgpu::test::name_of(call)} == "CUDA_SUCCESS")
