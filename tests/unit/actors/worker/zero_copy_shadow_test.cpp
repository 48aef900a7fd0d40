// Host memory that kernels use in place, where the program and the worker have
// a copy each: which changes each side sends, and when.
#include "actors/worker/serve/forwarded_answers.hpp"
#include "actors/worker/session/worker_bounds.hpp"
#include "actors/worker/session/zero_copy_shadow.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/actors/data_plane_fixture.hpp"
#include "tests/unit/actors/talker.hpp"

#include <numeric>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;

namespace {

constexpr auto line = changed_line::bytes;

/// Watched lines in this process's own memory.
struct watched_lines {
  alignas(line) std::array<std::byte, 4 * line> bytes{};
  device_address place = reinterpret_cast<device_address>(bytes.data());
  std::shared_ptr<zero_copy_shadow> memory =
      std::make_shared<zero_copy_shadow>(0);

  void watch(bool replayed = false) {
    // The last line is incomplete.
    BOOST_REQUIRE(memory->watch(place, bytes.size() - 5, replayed).ok());
  }
  changed_line line_of(std::size_t which, std::size_t byte, int value) const {
    changed_line out{.address = place + which * line,
                     .changed = std::uint64_t{1} << byte};
    out.now[byte] = static_cast<std::byte>(value);
    return out;
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(zero_copy)

BOOST_FIXTURE_TEST_CASE(bytes_that_kernels_write_are_sent_once, watched_lines) {
  BOOST_TEST(!memory->any());
  watch();
  BOOST_TEST(memory->any());
  BOOST_TEST(memory->changes().empty());
  bytes[line + 2] = std::byte{7};
  auto told = memory->changes();
  BOOST_REQUIRE(told.size() == 1u);
  BOOST_TEST(told[0].address == place + line);
  BOOST_TEST(told[0].changed == 1u << 2);
  BOOST_TEST(memory->changes().empty());
  memory->forget(place);
  BOOST_TEST(!memory->any());
}

BOOST_FIXTURE_TEST_CASE(the_programs_own_bytes_are_not_sent_back,
                        watched_lines) {
  watch();
  bytes[3] = std::byte{1}; // a kernel's byte in the same line
  BOOST_TEST(memory->write(std::vector{line_of(0, 2, 9)}).ok());
  BOOST_TEST((bytes[2] == std::byte{9}));
  BOOST_TEST((bytes[3] == std::byte{1}));
  auto told = memory->changes();
  BOOST_REQUIRE(told.size() == 1u);
  BOOST_TEST(told[0].changed == 1u << 3);
}

BOOST_FIXTURE_TEST_CASE(unwatched_memory_is_not_written, watched_lines) {
  watch();
  auto odd = line_of(1, 0, 1);
  odd.address += 1;
  BOOST_TEST(!memory->write(std::vector{odd}).ok());
  BOOST_TEST(!memory->write(std::vector{line_of(4, 0, 1)}).ok());
  auto below = line_of(0, 0, 1);
  below.address -= line;
  BOOST_TEST(!memory->write(std::vector{below}).ok());
  memory->forget(place);
  BOOST_TEST(!memory->write(std::vector{line_of(0, 0, 1)}).ok());
  BOOST_TEST((bytes == std::array<std::byte, 4 * line>{}));
}

/// The worker keeps two copies, so it does not keep as much as a program asks.
BOOST_FIXTURE_TEST_CASE(the_quota_bounds_what_is_copied, watched_lines) {
  auto refused = [&](std::uint64_t bytes_there, const char* told) {
    auto got = memory->watch(place + bytes.size(), bytes_there, false);
    BOOST_REQUIRE(!got.ok());
    BOOST_TEST(cuda_code(got) == CUDA_ERROR_OUT_OF_MEMORY);
    BOOST_TEST(got.why().what.find(told) != std::string::npos);
  };
  refused(worker_bounds::used_in_place(0) + 1, "or 1024 MiB");
  watch();
  refused(worker_bounds::used_in_place(0), "or 1024 MiB");
  memory->allow(std::uint64_t{64} << 20);
  refused(worker_bounds::used_in_place(64u << 20), "or 1088 MiB");
  refused(~std::uint64_t{0}, "or 1088 MiB");
}

BOOST_FIXTURE_TEST_CASE(all_lines_are_sent_after_a_replay_or_restore,
                        watched_lines) {
  watch(true);
  BOOST_TEST(memory->changes().size() == 4u);
  BOOST_TEST(memory->changes().empty());
  memory->restored();
  auto told = memory->changes();
  BOOST_REQUIRE(told.size() == 4u);
  BOOST_TEST(told[3].changed == ~std::uint64_t{0});
}

BOOST_FIXTURE_TEST_CASE(changes_by_kernels_are_sent_before_an_answer,
                        watched_lines) {
  forwarded_answers answers{[] {}};
  answers.tell_of(memory);
  answers.answer({1, {8}}, CUDA_SUCCESS, 0);
  BOOST_TEST((answers.next()->head.where == data::answer::place::none));
  watch();
  bytes[0] = std::byte{1};
  answers.answer({1, {16}}, CUDA_SUCCESS, 0);
  auto first = answers.next();
  BOOST_REQUIRE((first && first->head.where == data::answer::place::zero_copy));
  BOOST_TEST(first->head.slot == 0);
  auto lines = lines_of(first->payload);
  BOOST_REQUIRE(lines.size() == 1u);
  BOOST_TEST(lines[0].address == place);
  BOOST_TEST(answers.next()->head.call.value == 16u);
  BOOST_TEST(!answers.next());
  bytes[1] = std::byte{1};
  answers.tell_now();
  BOOST_TEST((answers.next()->head.where == data::answer::place::zero_copy));
}

/// A replay's memory is outdated until its end.
BOOST_FIXTURE_TEST_CASE(a_replay_sends_no_changes_before_its_end,
                        watched_lines) {
  forwarded_answers answers{[] {}};
  answers.tell_of(memory);
  answers.hold();
  watch(true);
  bytes[0] = std::byte{1};
  answers.answer({1, {16}}, CUDA_SUCCESS, 0);
  answers.tell_now();
  BOOST_TEST(!answers.next());
  bytes[0] = std::byte{2};
  answers.release();
  auto first = answers.next();
  BOOST_REQUIRE((first && first->head.where == data::answer::place::zero_copy));
  BOOST_TEST((lines_of(first->payload)[0].now[0] == std::byte{2}));
  BOOST_TEST(answers.next()->head.call.value == 16u);
}

/// The client keeps what the program wrote and has not sent yet.
BOOST_FIXTURE_TEST_CASE(both_sides_bytes_are_kept, world) {
  talker worker{zmq, link_options::form::bind, "tcp://127.0.0.1:*"};
  connect(transport::forwarded);
  BOOST_TEST(area.header().host_apart.load() % 2 == 0u);
  lease(1, {{worker.endpoint(), "", "elsewhere"}, {}, {}});
  (void)worker.next<data::attach>();
  BOOST_TEST(area.header().host_apart.load() % 2 == 1u);
  worker.say(data::attached{});
  auto host = std::move(*area.view_host());
  auto known = std::move(*area.view_host_known());
  host.data()[0] = std::byte{50}; // the program's, not sent yet
  changed_line told{.address = host_window, .changed = 0b11};
  told.now[0] = std::byte{1};
  told.now[1] = std::byte{2};
  told.now[2] = std::byte{3}; // did not change
  auto outside = told;
  outside.address = host_window + area.host_bytes();
  std::vector<changed_line> lines{outside, told};
  worker.say(data::answer{.number = 1, .where = data::answer::place::zero_copy},
             std::as_bytes(std::span{lines}));
  auto call = append(call::device_sync{}, 1);
  worker.say(data::answer{.number = 2, .call = call, .slot = 1}, {});
  BOOST_TEST((answer_of(1) == CUDA_SUCCESS));
  BOOST_TEST((host.data()[0] == std::byte{50}));
  BOOST_TEST((known.data()[0] == std::byte{1}));
  BOOST_TEST((host.data()[1] == std::byte{2}));
  BOOST_TEST((known.data()[1] == std::byte{2}));
  BOOST_TEST((host.data()[2] == std::byte{0}));
}

BOOST_AUTO_TEST_SUITE_END()
