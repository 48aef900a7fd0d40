// Answers of many bytes, which travel in parts from a worker on another host.
#include "actors/worker/serve/forwarded_answers.hpp"
#include "tests/unit/actors/data_plane_fixture.hpp"

#include <boost/test/data/test_case.hpp>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace {

/// Not a multiple of any size by which answers are cut.
constexpr std::uint64_t long_bytes = (std::uint64_t{3} << 20) + 12345;
constexpr std::uint64_t arena_offset = 8192 + 64;
constexpr std::uint64_t host_offset = 4096 + 77;

struct long_answers_world : world {
  static constexpr device_address memory = first_window + 32 * granule_bytes;
  std::vector<std::byte> contents = std::vector<std::byte>(long_bytes);

  void fill_memory() {
    for (std::size_t i = 0; i < contents.size(); ++i)
      contents[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
    append(call::mem_alloc{.address = memory, .bytes = 2 * granule_bytes});
    call::append(log,
                 call::write{.stream = {legacy_stream},
                             .to = {memory, 0, 0},
                             .size = {long_bytes, 1, 1}},
                 0, 0, static_cast<std::uint32_t>(long_bytes),
                 [&](auto to) {
                   std::copy(contents.begin(), contents.end(), to.begin());
                 },
                 {});
  }

  CUresult read_arena() {
    return ask(call::read{.stream = {legacy_stream},
                          .from = {memory, 0, 0},
                          .size = {long_bytes, 1, 1},
                          .to = {arena_offset, long_bytes}})
        .value_or(CUDA_ERROR_TIMEOUT);
  }
  /// Returns an answer's bytes in the arena, and one byte before and after
  /// them.
  std::vector<std::byte> arena_now() const {
    auto at = area.arena().subspan(arena_offset - 1, long_bytes + 2);
    return {at.begin(), at.end()};
  }
  std::vector<std::byte> host_now() const {
    std::vector<std::byte> out(long_bytes + 2);
    BOOST_REQUIRE(::pread(area.host_fd(), out.data(), out.size(),
                          host_offset - 1) == static_cast<ssize_t>(out.size()));
    return out;
  }
  bool is_whole(const std::vector<std::byte>& got) const {
    return got.front() == std::byte{} && got.back() == std::byte{} &&
           std::equal(contents.begin(), contents.end(), got.begin() + 1);
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(long_answers, long_answers_world)

BOOST_DATA_TEST_CASE_F(long_answers_world,
                       long_answers_arrive_whole_and_write_nothing_else,
                       boost::unit_test::data::make(both), where) {
  auto first =
      begin(where.same_host ? transport::automatic : transport::forwarded,
            where.same_host);
  fill_memory();
  BOOST_TEST(read_arena() == CUDA_SUCCESS);
  BOOST_TEST(is_whole(arena_now()));
  BOOST_TEST(
      (ask(call::read_host{.stream = {legacy_stream},
                           .to = {host_window + host_offset, 0, 0},
                           .from = {memory, 0, 0},
                           .size = {long_bytes, 1, 1}}) == CUDA_SUCCESS));
  BOOST_TEST(is_whole(host_now()));
  // Another worker reads all of it again, and finds the same digests.
  if (where.same_host)
    return;
  replace(first);
  BOOST_TEST((ask(call::device_sync{}) == CUDA_SUCCESS));
  BOOST_TEST(!told("replay-differs", 200ms));
}

/// This also holds for a part, which does not name the slot that waits for it.
BOOST_AUTO_TEST_CASE(delivered_parts_are_not_written_again) {
  auto worker = begin(transport::forwarded, false);
  fill_memory();
  BOOST_TEST(read_arena() == CUDA_SUCCESS);
  std::ranges::fill(area.arena().subspan(arena_offset, long_bytes),
                    std::byte{42});
  auto before = arena_now();
  kill_client();
  connect(transport::forwarded, true);
  lease(1, worker);
  BOOST_TEST((ask(call::device_sync{}) == CUDA_SUCCESS));
  BOOST_TEST((arena_now() == before));
}

/// The bytes that a worker keeps for its client are bounded, even where the
/// client takes nothing.
BOOST_AUTO_TEST_CASE(a_worker_bounds_the_answers_that_it_keeps) {
  constexpr std::uint64_t longest = std::uint64_t{16} << 20;
  forwarded_answers answers{[] {}};
  std::uint64_t landed = 0;
  for (; !answers.congested(false); landed += longest) {
    BOOST_REQUIRE(landed < 4 * longest);
    auto place = answers.land_host(host_window, longest);
    answers.deliver_host({1, {landed}}, CUDA_SUCCESS, host_window, place, 0);
  }
  while (answers.next())
    BOOST_TEST(answers.congested(false)); // it may have to send them again
  answers.acknowledge(answers.count());
  BOOST_TEST(!answers.congested(false));
}

BOOST_AUTO_TEST_CASE(an_answer_that_found_no_room_comes_again_in_its_order) {
  forwarded_answers answers{[] {}};
  for (std::uint64_t call = 1; call <= 3; ++call)
    answers.answer({1, {call}}, CUDA_SUCCESS, 0);
  BOOST_TEST(answers.next()->head.call.value == 1U);
  BOOST_TEST(answers.next()->head.call.value == 2U);
  answers.take_back();
  BOOST_TEST(answers.next()->head.call.value == 2U);
  BOOST_TEST(answers.next()->head.call.value == 3U);
  BOOST_TEST(!answers.next().has_value());
}

BOOST_AUTO_TEST_CASE(a_failed_answer_brings_its_payload) {
  forwarded_answers answers{[] {}};
  constexpr std::string_view text = "ptxas error: undeclared_thing";
  auto place = answers.land({.offset = 64, .bytes = 4096}, text.size());
  BOOST_REQUIRE(place.ok());
  std::ranges::copy(std::as_bytes(std::span{text}), place->bytes.begin());
  answers.deliver({1, {0}}, CUDA_ERROR_INVALID_PTX, text.size(), *place, 64, 0);
  auto sent = answers.next();
  BOOST_REQUIRE(sent.has_value());
  BOOST_TEST((sent->head.result == CUDA_ERROR_INVALID_PTX));
  BOOST_TEST(std::ranges::equal(sent->payload, std::as_bytes(std::span{text})));
}

BOOST_AUTO_TEST_CASE(short_answers_travel_whole) {
  forwarded_answers answers{[] {}};
  BOOST_TEST(answers.part_of(4) >= 4u);
  BOOST_TEST(answers.part_of(100'000) >= 100'000u);
  BOOST_TEST(answers.part_of(1 << 20) <= (1u << 20) / 4);
  BOOST_TEST(answers.part_of(16 << 20) <= 1u << 20);
}

BOOST_AUTO_TEST_SUITE_END()
