// Chunks of a state's file that are written as memory.
#include "actors/state/mapped_chunks.hpp"
#include "actors/state/state_transfer.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <vector>

using namespace vgpu;

namespace {

struct mapped_file {
  unique_fd file = std::move(*make_state_memory());
  mapped_chunks mapped{file.get()};

  static state_chunk chunk(std::uint64_t number) {
    return {.address = number << 30,
            .bytes = static_cast<std::uint32_t>(state_chunk_bytes),
            .offset = number * state_chunk_bytes};
  }
  static std::vector<std::byte> filled(int with) {
    return std::vector<std::byte>(state_chunk_bytes,
                                  static_cast<std::byte>(with));
  }
  /// Stores contents as a snapshot does. Returns whether they were written as
  /// memory.
  bool store(state_chunk& x, const std::vector<std::byte>& bytes) {
    auto is_memory = false;
    auto place_of = [&](auto& what) {
      auto place = mapped.at(what);
      is_memory = !place.empty();
      return place;
    };
    BOOST_TEST(store_contents(file.get(), x, bytes, place_of).ok());
    return is_memory;
  }
  /// Returns the bytes of memory that the file takes.
  std::uint64_t pages() const {
    struct stat info {};
    BOOST_TEST(::fstat(file.get(), &info) == 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  std::vector<std::byte> stored(const state_chunk& x) const {
    std::vector<std::byte> out(x.bytes);
    BOOST_TEST(read_state_bytes(file.get(), x.offset, out).ok());
    return out;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(chunks_as_memory, mapped_file)

BOOST_AUTO_TEST_CASE(contents_are_written_as_memory) {
  auto one = chunk(1), far = chunk(70);
  BOOST_TEST(grow_state(file.get(), 71 * state_chunk_bytes).ok());
  BOOST_TEST(store(one, filled(1)));
  BOOST_TEST(store(far, filled(2)));
  BOOST_TEST((stored(one) == filled(1)));
  BOOST_TEST(store(one, filled(3)));
  BOOST_TEST((stored(one) == filled(3)));
  BOOST_TEST((stored(far) == filled(2)));
}

BOOST_AUTO_TEST_CASE(behind_the_end_they_are_written_to_the_file) {
  auto one = chunk(1), next = chunk(2);
  BOOST_TEST(!store(one, filled(1)));
  BOOST_TEST(store(one, filled(2)));
  BOOST_TEST((stored(one) == filled(2)));
  BOOST_TEST(!store(next, filled(3)));
  BOOST_TEST((stored(next) == filled(3)));
}

BOOST_AUTO_TEST_CASE(zeros_take_no_pages_and_others_may_come_back) {
  auto x = chunk(1);
  BOOST_TEST(grow_state(file.get(), 2 * state_chunk_bytes).ok());
  BOOST_TEST(!store(x, filled(0)));
  BOOST_TEST(pages() == 0u);
  BOOST_TEST(store(x, filled(2)));
  BOOST_TEST(pages() == state_chunk_bytes);
  store(x, filled(0));
  BOOST_CHECK(x.form == chunk_form::zero);
  BOOST_TEST(pages() == 0u);
  BOOST_TEST((stored(x) == filled(0)));
  BOOST_TEST(store(x, filled(6)));
  BOOST_TEST((stored(x) == filled(6)));
}

BOOST_AUTO_TEST_CASE(what_was_truncated_is_not_memory) {
  auto x = chunk(1);
  BOOST_TEST(grow_state(file.get(), 2 * state_chunk_bytes).ok());
  BOOST_TEST(store(x, filled(1)));
  BOOST_REQUIRE(::ftruncate(file.get(), 0) == 0);
  BOOST_TEST(mapped.at(x).empty());
}

BOOST_AUTO_TEST_CASE(only_whole_chunks_are_mapped) {
  auto x = chunk(1);
  x.bytes = 4096;
  BOOST_TEST(mapped.at(x).empty());
  x = chunk(1);
  x.offset += 4096;
  BOOST_TEST(mapped.at(x).empty());
}

BOOST_AUTO_TEST_SUITE_END()
