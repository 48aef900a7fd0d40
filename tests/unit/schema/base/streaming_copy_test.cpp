#include "schema/base/streaming_copy.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace vgpu;

BOOST_AUTO_TEST_SUITE(streaming_copies)

/// Copies between addresses of any alignment, and checks the bytes around the
/// target.
BOOST_AUTO_TEST_CASE(all_bytes_arrive_and_no_others_change) {
  constexpr auto untouched = std::byte{0xee};
  constexpr std::size_t margin = 128;
  std::vector<std::byte> source(streamed_from + 2 * margin);
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<std::byte>(i * 31 + i / 251);
  for (auto bytes : {std::size_t{0}, std::size_t{1}, streamed_from - 1,
                     streamed_from, streamed_from + 1, streamed_from + 63})
    for (std::size_t from : {0, 1, 15, 64})
      for (std::size_t to : {0, 1, 16, 63, 64}) {
        std::vector<std::byte> target(bytes + 2 * margin, untouched);
        auto* begin = target.data() + to;
        streaming_copy(begin, source.data() + from, bytes);
        BOOST_TEST(std::equal(begin, begin + bytes, source.data() + from));
        auto is_untouched = [](std::byte x) { return x == untouched; };
        BOOST_TEST(std::all_of(target.data(), begin, is_untouched));
        BOOST_TEST(std::all_of(begin + bytes, target.data() + target.size(),
                               is_untouched));
      }
}

BOOST_AUTO_TEST_SUITE_END()
