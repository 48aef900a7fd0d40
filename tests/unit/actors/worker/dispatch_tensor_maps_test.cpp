// How tensor maps get from a device to the program, and what a replay does with
// them.
#include "tests/unit/actors/data_plane_fixture.hpp"

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace {

struct map_world : world {
  static constexpr std::uint64_t place = 8192;

  std::optional<CUresult> encode(tensor_map_spec what,
                                 std::uint64_t room = sizeof(tensor_map)) {
    return ask(call::tensor_map_encode{what, {place, room}});
  }

  /// Returns the first word of the map that the plain device made.
  std::uint64_t brought() const {
    std::uint64_t word = 0;
    std::memcpy(&word, area.arena().data() + place, sizeof word);
    return word;
  }

  bool differs(std::chrono::milliseconds at_most) {
    return told("replay-differs", at_most);
  }

  tensor_map_spec matrix{.address = 0x500012340000, .rank = 2};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(tensor_maps, map_world)

BOOST_AUTO_TEST_CASE(a_map_arrives_mapped) {
  begin(transport::automatic, true);
  BOOST_TEST((encode(matrix) == CUDA_SUCCESS));
  BOOST_TEST(brought() == matrix.address);
}

BOOST_AUTO_TEST_CASE(a_map_arrives_forwarded) {
  begin(transport::forwarded, true);
  BOOST_TEST((encode(matrix) == CUDA_SUCCESS));
  BOOST_TEST(brought() == matrix.address);
}

BOOST_AUTO_TEST_CASE(a_bad_map_fails_its_call_alone) {
  begin(transport::automatic, true);
  auto bad = matrix;
  bad.rank = 6;
  BOOST_TEST((encode(bad) == CUDA_ERROR_INVALID_VALUE));
  bad = matrix;
  bad.form = 4;
  BOOST_TEST((encode(bad) == CUDA_ERROR_INVALID_VALUE));
  BOOST_TEST((encode(matrix, 127) == CUDA_ERROR_INVALID_VALUE));
  // The device itself refuses this address.
  bad = matrix;
  bad.address += 8;
  BOOST_TEST((encode(bad) == CUDA_ERROR_MISALIGNED_ADDRESS));
  BOOST_TEST((encode(matrix) == CUDA_SUCCESS));
  add(3);
  BOOST_TEST(read_counter() == 3u);
}

BOOST_AUTO_TEST_CASE(a_replay_does_not_write_a_delivered_map_again) {
  auto first = begin(transport::automatic, false);
  BOOST_TEST((encode(matrix) == CUDA_SUCCESS));
  std::memset(area.arena().data() + place, 0x5a, 8);
  replace(first);
  add(2);
  BOOST_TEST(read_counter() == 2u);
  BOOST_TEST(brought() == 0x5a5a5a5a5a5a5a5au);
  BOOST_TEST(!differs(200ms));
}

BOOST_AUTO_TEST_CASE(a_device_that_makes_other_maps_is_reported) {
  auto first = begin(transport::automatic, false);
  BOOST_TEST((encode(matrix) == CUDA_SUCCESS));
  drift = 1;
  replace(first);
  BOOST_TEST(differs(120s));
}

BOOST_AUTO_TEST_SUITE_END()
