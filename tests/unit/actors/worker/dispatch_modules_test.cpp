// How a compiler's messages get from a device to the program, and hints of
// launches to a device.
#include "tests/unit/actors/data_plane_fixture.hpp"

#include "schema/base/launch_hint.hpp"

#include <array>
#include <cstring>
#include <string>

using namespace vgpu;
using namespace vgpu::test;

namespace {

struct module_world : world {
  static constexpr std::uint64_t place = 16384, room = 64;

  /// Sends a part, and asks for its check with so many options.
  std::optional<CUresult> check(unsigned options) {
    const std::string part = "part";
    auto hash = XXH3_128bits(part.data(), part.size());
    call::digest digest{hash.low64, hash.high64};
    call::append(
        log,
        call::image_part{.image = digest, .offset = 0, .total = part.size()}, 0,
        0, static_cast<std::uint32_t>(part.size()),
        [&](auto to) { std::memcpy(to.data(), part.data(), part.size()); }, {});
    jit_settings how;
    for (unsigned i = 0; i < options; ++i)
      how.options[i] = 1;
    auto bytes = encode(how);
    std::memset(area.arena().data() + place, 0, room);
    return ask(call::part_check{digest, {place, room}, bytes});
  }
  std::string said() const {
    return reinterpret_cast<const char*>(area.arena().data() + place);
  }

  void both_ways(transport by) {
    begin(by, true);
    BOOST_TEST((check(2) == CUDA_SUCCESS));
    BOOST_TEST(said() == "2 options");
    BOOST_TEST((check(3) == CUDA_ERROR_INVALID_PTX));
    BOOST_TEST(said() == "an odd number: 3");
    // The session goes on.
    add(3);
    BOOST_TEST(read_counter() == 3u);
  }

  /// Adds to the counter by a launch with these bytes behind its parameters.
  void add_hinted(std::uint32_t what, std::uint32_t attribute) {
    std::array<std::byte, 12> parameters{};
    std::memcpy(parameters.data(), &counter, 8);
    std::memcpy(parameters.data() + 8, &what, 4);
    launch_hint hint;
    hint.attribute = attribute;
    auto block = with_hints(parameters, {&hint, 1});
    append(call::launch{.stream = {legacy_stream},
                        .module = {{7}},
                        .flags = call::launch::hinted,
                        .bytes = block});
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(modules_and_launches, module_world)

BOOST_AUTO_TEST_CASE(messages_of_a_compiler_arrive_mapped) {
  both_ways(transport::automatic);
}

BOOST_AUTO_TEST_CASE(messages_of_a_compiler_arrive_forwarded) {
  both_ways(transport::forwarded);
}

BOOST_AUTO_TEST_CASE(a_launch_with_hints_has_its_parameters) {
  begin(transport::automatic, true);
  add_hinted(4, CU_LAUNCH_ATTRIBUTE_PRIORITY);
  BOOST_TEST(read_counter() == 4u);
}

BOOST_AUTO_TEST_SUITE_END()
