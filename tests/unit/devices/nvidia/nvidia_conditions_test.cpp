// Words that kernels set by cudaGraphSetConditional, on a fake driver.
#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

#include "devices/nvidia/driver/conditions.hpp"
#include "schema/base/cuda_fault.hpp"

#include <cstring>

#include <sys/mman.h>

namespace vgpu::test {

namespace {

// These addresses are below those that sanitizers use.
constexpr device_address place = 0x5000'0000, other_place = 0x6000'0000;
static_assert(is_condition_place(place) && is_condition_place(other_place));

bool is_free(device_address at) {
  auto* got = ::mmap(reinterpret_cast<void*>(at), condition_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED)
    return false;
  ::munmap(got, condition_bytes);
  return true;
}

struct with_conditions : fake {
  with_conditions() : words(api) { words.open(of(9, 0)); }

  static properties of(int major, int minor) {
    properties out;
    out.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = major;
    out.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = minor;
    return out;
  }
  static void base_is(std::uint64_t x) {
    call<void(std::uint64_t)>("fake_base_of_conditions")(x);
  }
  CUresult set(device_address address, device_address at) {
    return cuda_code(words.set(memory_id{1}, address, at));
  }

  nvidia::conditions words;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(nvidia_conditions, with_conditions)

BOOST_AUTO_TEST_CASE(words_are_mapped_where_handles_point) {
  BOOST_TEST(words.place_of(base) == 0U);
  BOOST_TEST(set(base, place) == CUDA_SUCCESS);
  BOOST_TEST(words.place_of(base) == place);
  BOOST_TEST(words.place_of(base + 44) == place + 44);
  BOOST_TEST(words.place_of(base - 1) == 0U);
  BOOST_TEST(words.place_of(base + condition_bytes) == 0U);
  // A kernel computes this address from the word's handle.
  auto handle = condition_handle(place + 44);
  auto stored_at = 4 * (handle & 0xffff'ffff) - 4;
  BOOST_TEST(stored_at == place + 44);
  auto* word = reinterpret_cast<std::uint32_t*>(stored_at);
  BOOST_TEST(*word == 0U);
  *word = 7;
  // Setting it again changes nothing, and the words may move in the program.
  BOOST_TEST(set(base + 4 * g, place) == CUDA_SUCCESS);
  BOOST_TEST(words.place_of(base) == 0U);
  BOOST_TEST(words.place_of(base + 4 * g) == place);
  BOOST_TEST(*word == 7U);
  words.forget(memory_id{2});
  BOOST_TEST(words.place_of(base + 4 * g) == place);
  words.forget(memory_id{1});
  BOOST_TEST(words.place_of(base + 4 * g) == 0U);
}

BOOST_AUTO_TEST_CASE(a_driver_that_uses_other_addresses_is_refused) {
  base_is(0x7f00'1234'5678);
  BOOST_TEST(set(base, place) == CUDA_ERROR_NOT_SUPPORTED);
  BOOST_TEST(words.place_of(base) == 0U);
  BOOST_TEST(is_free(place));
}

BOOST_AUTO_TEST_CASE(used_addresses_are_left_alone) {
  auto* other =
      ::mmap(reinterpret_cast<void*>(place + 4096), 4096, PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  BOOST_REQUIRE(other != MAP_FAILED);
  BOOST_TEST(set(base, place) == CUDA_ERROR_NOT_SUPPORTED);
  BOOST_TEST(set(base, other_place) == CUDA_SUCCESS);
  ::munmap(other, 4096);
}

BOOST_AUTO_TEST_CASE(other_devices_have_no_conditions) {
  nvidia::conditions others{api};
  others.open(of(10, 0));
  BOOST_TEST(cuda_code(others.set(memory_id{1}, base, place)) ==
             CUDA_ERROR_NOT_SUPPORTED);
  BOOST_TEST(is_free(place));
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
