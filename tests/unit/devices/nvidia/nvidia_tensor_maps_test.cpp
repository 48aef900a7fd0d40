// Tensor maps of the nvidia device, on a fake driver: which arguments reach
// which call.
#include "devices/interface/tensor_map_unit.hpp"
#include "devices/nvidia/driver/tensor_maps.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

#include <cstring>
#include <vector>

using namespace vgpu;
using namespace vgpu::device;
using namespace vgpu::test;

namespace {

/// Returns a map of the fake driver as the arguments that it was made of.
std::vector<std::int64_t> words_of(const result<tensor_map>& map) {
  BOOST_TEST_REQUIRE(map.ok());
  std::vector<std::int64_t> out(sizeof(tensor_map) / 8);
  std::memcpy(out.data(), map->data(), sizeof(tensor_map));
  while (!out.empty() && out.back() == 0)
    out.pop_back();
  return out;
}

tensor_map_spec spec(tensor_map_form form) {
  tensor_map_spec x;
  x.form = static_cast<std::uint32_t>(form);
  x.address = 0x1000;
  x.type = 7;
  x.rank = 2;
  x.sizes = {20, 21, 22, 23, 24};
  x.strides = {30, 31, 32, 33};
  x.box = {40, 41, 42, 43, 44};
  x.lower = {-50, -51, -52};
  x.upper = {60, 61, 62};
  x.channels = 70;
  x.pixels = 71;
  x.steps = {80, 81, 82, 83, 84};
  x.interleave = 2;
  x.mode = 1;
  x.swizzle = 6;
  x.promotion = 3;
  x.fill = 1;
  return x;
}

struct with_maps : with_device {
  tensor_map_unit& maps = dynamic_cast<tensor_map_unit&>(*dev);
};

using map_arguments = std::vector<std::int64_t>;

} // namespace

BOOST_FIXTURE_TEST_SUITE(nvidia_tensor_maps, with_maps)

BOOST_AUTO_TEST_CASE(a_tiled_maps_arguments_reach_the_driver) {
  auto expected =
      map_arguments{1, 7, 0x1000, 20, 21, 30, 40, 41, 80, 81, 2, 6, 3, 1};
  BOOST_TEST((words_of(maps.encode(spec(tensor_map_form::tiled))) == expected));
}

BOOST_AUTO_TEST_CASE(an_im2col_maps_arguments_reach_the_driver) {
  auto x = spec(tensor_map_form::im2col);
  x.rank = 4;
  auto expected = map_arguments{2, 30, 31, 32, -50, -51, 60, 61, 70, 71};
  BOOST_TEST((words_of(maps.encode(x)) == expected));
  x.form = static_cast<std::uint32_t>(tensor_map_form::im2col_wide);
  expected = map_arguments{3, -50, 60, 1};
  BOOST_TEST((words_of(maps.encode(x)) == expected));
}

BOOST_AUTO_TEST_CASE(a_moved_map_changes_only_its_address) {
  auto x = spec(tensor_map_form::moved);
  for (std::size_t i = 0; i < x.from.size(); ++i)
    x.from[i] = i + 1;
  auto expected =
      map_arguments{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0x1000};
  BOOST_TEST((words_of(maps.encode(x)) == expected));
}

BOOST_AUTO_TEST_CASE(a_drivers_refusal_keeps_its_code) {
  auto x = spec(tensor_map_form::tiled);
  x.rank = 3;
  auto map = maps.encode(x);
  BOOST_TEST_REQUIRE(!map.ok());
  BOOST_TEST((cuda_code(map.why()) == CUDA_ERROR_INVALID_VALUE));
  BOOST_TEST((dev->error() == CUDA_SUCCESS));
}

BOOST_AUTO_TEST_CASE(an_older_driver_lacks_the_newest_form_alone) {
  auto older = *api;
  older.cuTensorMapEncodeIm2colWide = nullptr;
  auto wide =
      nvidia::encode_tensor_map(older, spec(tensor_map_form::im2col_wide));
  BOOST_TEST_REQUIRE(!wide.ok());
  BOOST_TEST((cuda_code(wide.why()) == CUDA_ERROR_NOT_SUPPORTED));
  BOOST_TEST(
      nvidia::encode_tensor_map(older, spec(tensor_map_form::tiled)).ok());
}

BOOST_AUTO_TEST_SUITE_END()
