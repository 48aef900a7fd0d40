// What a vGPU has: which addresses are memory of it.
#include "actors/vgpu_state.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;

namespace {

constexpr auto first = window_of(0);
constexpr std::uint64_t quota = 1 << 20;

} // namespace

BOOST_AUTO_TEST_SUITE(what_a_vgpu_has)

// A GPU's driver chose places below the windows when it found what is above
// them taken; the cpu device takes the upper part of the window.
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

BOOST_AUTO_TEST_SUITE_END()
