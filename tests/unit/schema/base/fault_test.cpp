// What a fault says to our own code, and which CUresult a program sees.
#include "schema/base/cuda_fault.hpp"

#include <boost/test/unit_test.hpp>

#include <set>
#include <string>

using namespace vgpu;

namespace {

BOOST_AUTO_TEST_SUITE(faults)

BOOST_AUTO_TEST_CASE(each_kind_has_its_own_name) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < fault_kinds; ++i)
    names.insert(name_of(static_cast<fault_kind>(i)));
  BOOST_TEST(names.size() == fault_kinds);
  BOOST_TEST(!names.contains("?"));
}

BOOST_AUTO_TEST_CASE(a_program_sees_the_code_of_the_kind) {
  const std::pair<fault_kind, CUresult> all[] = {
      {fault_kind::usage, CUDA_ERROR_INVALID_VALUE},
      {fault_kind::corrupt, CUDA_ERROR_INVALID_VALUE},
      {fault_kind::missing, CUDA_ERROR_INVALID_HANDLE},
      {fault_kind::refused, CUDA_ERROR_NOT_PERMITTED},
      {fault_kind::not_ready, CUDA_ERROR_NOT_READY},
      {fault_kind::exhausted, CUDA_ERROR_OUT_OF_MEMORY},
      {fault_kind::no_device, CUDA_ERROR_NO_DEVICE},
      {fault_kind::unsupported, CUDA_ERROR_NOT_SUPPORTED},
      {fault_kind::other_version, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH},
      {fault_kind::unreachable, CUDA_ERROR_SYSTEM_NOT_READY},
      {fault_kind::lost, CUDA_ERROR_DEVICE_UNAVAILABLE},
      {fault_kind::system, CUDA_ERROR_OPERATING_SYSTEM},
      {fault_kind::internal, CUDA_ERROR_UNKNOWN}};
  BOOST_TEST(std::size(all) + 1 == fault_kinds); // all but `device`
  for (auto [kind, code] : all)
    BOOST_TEST((cuda_code(fault{kind, {}}) == code), name_of(kind));
}

BOOST_AUTO_TEST_CASE(a_drivers_own_code_passes_unchanged) {
  for (auto code : {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_INVALID_HANDLE,
                    CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_LAUNCH_TIMEOUT}) {
    auto why = cuda_fault(code, "a kernel failed");
    BOOST_TEST((why.kind == fault_kind::device));
    BOOST_TEST((cuda_code(why) == code));
    BOOST_TEST((cuda_code(status{why}) == code));
    BOOST_TEST((cuda_code(why.reworded("call 7: a kernel failed")) == code));
  }
  BOOST_TEST((cuda_code(status{}) == CUDA_SUCCESS));
  BOOST_TEST((cuda_code(cuda_fault(CUDA_SUCCESS, {})) == CUDA_ERROR_UNKNOWN));
}

BOOST_AUTO_TEST_CASE(a_peers_code_becomes_a_kind) {
  BOOST_TEST((kind_of(CUDA_ERROR_SYSTEM_NOT_READY) == fault_kind::unreachable));
  BOOST_TEST((kind_of(CUDA_ERROR_INVALID_VALUE) == fault_kind::usage));
  BOOST_TEST((kind_of(CUDA_ERROR_UNKNOWN) == fault_kind::internal));
  BOOST_TEST((kind_of(CUDA_ERROR_ASSERT) == fault_kind::refused));
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace
