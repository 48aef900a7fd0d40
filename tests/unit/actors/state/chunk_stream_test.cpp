// Contents of a state that are read ahead.
#include "actors/state/chunk_stream.hpp"

#include <boost/test/unit_test.hpp>

#include <random>
#include <unistd.h>

using namespace vgpu;

namespace {

/// A state with many pieces of memory, more than are read ahead.
struct many_pieces {
  static constexpr std::size_t count = 200;

  many_pieces() {
    std::mt19937 random{5};
    state_writer to{file.get(), false};
    state_index index;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::byte> piece(1 + random() % 100'000);
      if (i % 7 != 0) // the others are zero, and take no room
        for (auto& x : piece)
          x = static_cast<std::byte>(random());
      index.memory.push_back(*to.add(0x1000 * (i + 1), piece));
      pieces.push_back(std::move(piece));
    }
    BOOST_REQUIRE(to.finish(index).ok());
    from = std::move(*state_reader::open(file.get()));
  }

  bool is_piece(std::size_t i, const std::shared_ptr<std::byte[]>& got) const {
    return std::equal(pieces[i].begin(), pieces[i].end(), got.get());
  }

  unique_fd file = std::move(*make_state_memory());
  std::vector<std::vector<std::byte>> pieces;
  state_reader from;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(chunk_streams, many_pieces)

BOOST_AUTO_TEST_CASE(contents_come_in_the_order_in_which_they_are_wanted) {
  auto backwards = from.index().memory;
  std::ranges::reverse(backwards);
  chunk_stream stream{from, backwards};
  for (auto i = count; i-- > 0;) {
    auto got = stream.next();
    BOOST_REQUIRE(got.ok());
    BOOST_TEST_REQUIRE(is_piece(i, *got));
  }
}

BOOST_AUTO_TEST_CASE(damaged_contents_fail_in_their_place) {
  constexpr std::size_t damaged = 100;
  auto all = from.index().memory;
  auto old = std::byte{0};
  auto at = static_cast<off_t>(all[damaged].offset);
  BOOST_REQUIRE(::pread(file.get(), &old, 1, at) == 1);
  auto other = ~old;
  BOOST_REQUIRE(::pwrite(file.get(), &other, 1, at) == 1);
  chunk_stream stream{from, all};
  for (std::size_t i = 0; i < count; ++i) {
    auto got = stream.next();
    BOOST_TEST_REQUIRE(got.ok() == (i != damaged));
    if (got)
      BOOST_TEST_REQUIRE(is_piece(i, *got));
  }
}

BOOST_AUTO_TEST_CASE(a_stream_may_end_before_its_contents_were_taken) {
  for (auto taken : {0, 1, 30}) {
    chunk_stream stream{from, from.index().memory};
    for (auto i = 0; i < taken; ++i)
      BOOST_TEST(stream.next().ok());
  }
  chunk_stream none{from, {}};
}

BOOST_AUTO_TEST_SUITE_END()
