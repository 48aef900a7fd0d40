#include "tests/unit/schema/log/log_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/mman.h>

#include <thread>

using namespace vgpu;
using test::log_fixture;

namespace {

auto state_of(const slot& s) {
  return static_cast<slot_state>(s.state.load());
}

} // namespace

// Which host addresses lie in the host window, at its edges.
static_assert(in_host_window(host_window));
static_assert(in_host_window(host_window + window_bytes - 1));
static_assert(!in_host_window(host_window + window_bytes));
static_assert(!in_host_window(host_window - 1) && !in_host_window(0));
static_assert(!in_host_window(host_window + 64, 64));
static_assert(is_within_host_window(host_window, 64, 64));
static_assert(is_within_host_window(host_window + 64, 0, 64));
static_assert(!is_within_host_window(host_window + 1, 64, 64));
static_assert(!is_within_host_window(host_window - 1, 1, 64));
static_assert(!is_within_host_window(host_window, ~std::uint64_t{0}, 64));

BOOST_FIXTURE_TEST_SUITE(session_area_, log_fixture)

BOOST_AUTO_TEST_CASE(an_answer_reaches_the_call_that_waits) {
  auto call = append(call::device_sync{}, 7);
  BOOST_TEST(server.waits(7, call));
  server.answer(7, call, CUDA_ERROR_ILLEGAL_ADDRESS, 42);
  auto& slot = program.at(7);
  BOOST_TEST((state_of(slot) == slot_state::answered));
  BOOST_TEST(slot.result.load() == 700u);
  BOOST_TEST(slot.value.load() == 42u);
}

BOOST_AUTO_TEST_CASE(a_replayed_call_does_not_answer_the_slots_next_user) {
  auto old = append(call::device_sync{}, 7);
  server.answer(7, old, CUDA_SUCCESS, 1);
  program.at(7).state = static_cast<std::uint32_t>(slot_state::free);
  server.answer(7, old, CUDA_SUCCESS, 2); // nobody waits
  BOOST_TEST(program.at(7).value.load() == 1u);
  auto young = append(call::device_sync{}, 7);
  server.answer(7, old, CUDA_SUCCESS, 3);
  BOOST_TEST((state_of(program.at(7)) == slot_state::waiting));
  server.answer(7, young, CUDA_SUCCESS, 4);
  BOOST_TEST(program.at(7).value.load() == 4u);
}

BOOST_AUTO_TEST_CASE(a_sleeping_thread_is_woken) {
  auto call = append(call::device_sync{}, 3);
  auto& slot = program.at(3);
  auto asleep = static_cast<std::uint32_t>(slot_state::waiting_asleep);
  slot.state = asleep;
  std::thread sleeper{[&] {
    while (slot.state.load() == asleep)
      sleep_while(slot.state, asleep, std::chrono::seconds{10});
  }};
  server.answer(3, call, CUDA_SUCCESS, 0);
  sleeper.join();
  BOOST_TEST((state_of(slot) == slot_state::answered));
}

BOOST_AUTO_TEST_CASE(a_host_function_is_called_once) {
  auto call = append(call::host_call{}, 9);
  server.call_host(9, call);
  server.call_host(9, call);
  BOOST_TEST((state_of(program.at(9)) == slot_state::called));
  BOOST_TEST(program.header().upcalls.load() == 1u);
}

BOOST_AUTO_TEST_CASE(replayed_text_is_printed_once) {
  server.print(console::output, 0, "one ");
  server.print(console::output, 4, "two ");
  BOOST_TEST(program.take_text(console::output) == "one two ");
  server.print(console::output, 0, "one ");
  server.print(console::output, 4, "two three");
  BOOST_TEST(program.take_text(console::output) == "three");
  BOOST_TEST(!program.has_text(console::output));
}

BOOST_AUTO_TEST_CASE(output_and_error_are_separate_texts) {
  server.print(console::error, 0, "oh");
  BOOST_TEST(!program.has_text(console::output));
  server.print(console::output, 0, "one");
  BOOST_TEST(program.take_text(console::error) == "oh");
  BOOST_TEST(!program.has_text(console::error));
  BOOST_TEST(program.take_text(console::output) == "one");
}

BOOST_AUTO_TEST_CASE(a_flood_of_text_keeps_the_newest) {
  std::string line(console_bytes / 4, 'x');
  std::uint64_t at = 0;
  for (int i = 0; i < 5; ++i, at += line.size())
    server.print(console::output, at, line);
  server.print(console::output, at, "end");
  auto text = program.take_text(console::output);
  BOOST_TEST(text.size() == console_bytes);
  BOOST_TEST(text.substr(text.size() - 3) == "end");
}

BOOST_AUTO_TEST_CASE(memory_that_could_shrink_is_refused) {
  unique_fd loose{::memfd_create("loose", MFD_CLOEXEC)};
  BOOST_REQUIRE(::ftruncate(loose.get(), 1 << 24) == 0);
  BOOST_TEST(!sealed_size(loose.get()).ok());
  for (std::size_t i = 0; i < session_area::descriptor_count; ++i) {
    auto handed = handed_over();
    handed[i] = unique_fd{::dup(loose.get())};
    BOOST_TEST(!session_area::open(handed).ok());
  }
  auto few = handed_over();
  few.pop_back();
  BOOST_TEST(!session_area::open(few).ok());
}

BOOST_AUTO_TEST_CASE(a_program_of_another_version_is_refused_by_name) {
  auto other = control_header::the_magic + (std::uint64_t{1} << 56); // "...07"
  BOOST_REQUIRE(::pwrite(program.control_fd(), &other, sizeof(other), 0) ==
                static_cast<ssize_t>(sizeof(other)));
  auto handed = handed_over();
  auto got = session_area::open(handed);
  BOOST_REQUIRE(!got.ok());
  BOOST_TEST(got.why().what.find("another version") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(areas_of_wrong_sizes_are_refused) {
  auto open = [&](std::uint64_t control, std::uint64_t log, std::uint64_t host,
                  std::uint64_t last = 0) {
    std::vector<unique_fd> handed;
    auto add = [&](std::uint64_t bytes) {
      handed.push_back(std::move(*make_sealed_memory("test", bytes)));
    };
    add(control);
    add(host);
    for (std::size_t i = 1; i < log_files; ++i)
      add(log / log_files);
    add(last != 0 ? last : log / log_files);
    return session_area::open(handed).ok();
  };
  auto control = *sealed_size(program.control_fd());
  BOOST_TEST(!open(control, minimum_log, granule_bytes)); // no header
  BOOST_TEST(!open(control - 4096, minimum_log, granule_bytes));
  BOOST_TEST(!open(control, minimum_log + 4 * 4096, granule_bytes));
  BOOST_TEST(!open(control, minimum_log, granule_bytes, minimum_log));
  BOOST_TEST(!open(control, minimum_log, granule_bytes + 1));
  BOOST_TEST(!session_area::create(minimum_log / 2, granule_bytes).ok());
}

BOOST_AUTO_TEST_SUITE_END()
