// Which addresses are memory of a vGPU.
#include "actors/state/vgpu_state.hpp"
#include "schema/base/cuda_fault.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;

namespace {

constexpr auto first = window_of(0);
constexpr std::uint64_t quota = 8 * granule_bytes;

} // namespace

BOOST_AUTO_TEST_SUITE(what_a_vgpu_has)

// A GPU's driver places variables below the windows when it finds the addresses
// above them taken. The cpu device places them in the upper part of the window.
BOOST_AUTO_TEST_CASE(variables_are_memory_wherever_a_device_put_them) {
  for (device_address at :
       {std::uint64_t{0x2aac'dde0'0000}, first + device_placed_offset,
        std::uint64_t{0x7fe0'ebe0'0000}}) {
    vgpu_state state{first, quota};
    BOOST_TEST(!state.holds(at, 4));
    module_state has;
    has.globals.push_back({"x", at, 64, false});
    state.add(module_id{1}, has);
    BOOST_TEST(state.holds(at, 64));
    BOOST_TEST(state.holds(at + 60, 4));
    BOOST_TEST(!state.holds(at + 60, 8));
    BOOST_TEST(!state.holds(at - 1, 1));
    BOOST_TEST(!state.holds(first, 1));
    state.remove(module_id{1});
    BOOST_TEST(!state.holds(at, 4));
  }
}

BOOST_AUTO_TEST_CASE(variables_count_against_the_quota) {
  vgpu_state state{first, quota};
  auto of_variables = [](std::uint64_t bytes) {
    module_state out;
    out.globals = {{"x", 0x1000, bytes / 2, false},
                   {"y", 0x2000, bytes - bytes / 2, true}};
    return out;
  };
  auto most = of_variables(quota - granule_bytes - 64);
  BOOST_TEST(state.audit_variables(most.globals).ok());
  BOOST_TEST(!state.audit_variables(of_variables(quota + 1).globals).ok());
  state.add(module_id{1}, most);
  BOOST_TEST(state.used() == quota - granule_bytes);
  BOOST_TEST(state.audit_variables(of_variables(64).globals).ok());
  BOOST_TEST(state.audit_alloc(first, granule_bytes).ok());
  BOOST_TEST(cuda_code(state.audit_alloc(first, granule_bytes + 1)) ==
             CUDA_ERROR_OUT_OF_MEMORY);
  // A session at its quota may load a module without variables, and gets
  // what its granules still hold. So may one beyond its quota, for example
  // because of memory that another session left, but it gets nothing.
  state.allocate(first, 64);
  BOOST_TEST(state.audit_variables({}).ok());
  BOOST_TEST(state.audit_alloc(first + 64, 64).ok());
  BOOST_TEST(!state.audit_alloc(first + granule_bytes, 1).ok());
  state.count_left(granule_bytes);
  BOOST_TEST(state.audit_variables({}).ok());
  BOOST_TEST(!state.audit_alloc(first + 64, 1).ok());
  state.count_left(0);
  state.release(first, 64);
  state.remove(module_id{1});
  BOOST_TEST(state.audit_alloc(first, quota).ok());
  BOOST_TEST(state.used() == 0U);
}

BOOST_AUTO_TEST_CASE(a_heap_counts_until_it_is_replaced) {
  vgpu_state state{first, quota};
  module_state has;
  has.globals = {{"x", 0x1000, 64, false},
                 {std::string{device_heap_name}, 0x2000, granule_bytes, false}};
  BOOST_TEST(state.audit_variables(has.globals).ok());
  state.add(module_id{1}, has);
  BOOST_TEST(state.heap_bytes() == granule_bytes);
  BOOST_TEST(state.used() == 2 * granule_bytes);
  state.replace_variable(
      {std::string{device_heap_name}, 0x3000, 2 * granule_bytes, false});
  BOOST_TEST(state.used() == 3 * granule_bytes);
  state.remove(module_id{1});
  BOOST_TEST(state.used() == 2 * granule_bytes);
  state.replace_variable({std::string{device_heap_name}, 0, 0, false});
  BOOST_TEST(state.used() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
