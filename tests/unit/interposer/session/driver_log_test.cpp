// The log in which a program can read why its calls failed.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;

namespace {

struct log_fixture : driver_fixture {
  CUlogIterator start = 0;
  log_fixture() { REQUIRE_OK(cuLogsCurrent(&start, 0)); }

  static void fail() {
    CUdeviceptr p = 0;
    CHECK_CODE(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
  }
  /// Returns the log since the beginning of the test.
  std::string text(std::size_t room = 60000) {
    std::vector<char> buffer(room, 'x');
    auto from = start;
    auto size = room;
    REQUIRE_OK(cuLogsDumpToMemory(&from, buffer.data(), &size, 0));
    BOOST_TEST(size < room);
    BOOST_TEST((size == 0 || buffer[size] == '\0'));
    return {buffer.data(), size};
  }
};

std::ptrdiff_t lines_in(const std::string& x) {
  return std::count(x.begin(), x.end(), '\n');
}

void CUDA_CB hear(void* to, CUlogLevel level, char* message, size_t length) {
  auto& heard = *static_cast<std::vector<std::string>*>(to);
  heard.emplace_back(message, length);
  BOOST_TEST(level == CU_LOG_LEVEL_ERROR);
  // Failures of a callback's own calls are not reported, because that would not
  // end.
  CUdeviceptr p = 0;
  cuMemAlloc(&p, 0);
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(driver_logs, log_fixture)

BOOST_AUTO_TEST_CASE(a_call_that_fails_is_named) {
  BOOST_TEST(text().empty());
  fail();
  auto got = text();
  BOOST_TEST(lines_in(got) == 1);
  BOOST_TEST(got.ends_with(
      "[CUDA][E] Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemAlloc_v2\n"));
  auto next = start;
  REQUIRE_OK(cuLogsCurrent(&next, 0));
  BOOST_TEST(next == start + 1);
}

BOOST_AUTO_TEST_CASE(not_ready_is_not_logged_as_a_failure) {
  fake().pause();
  CUdeviceptr p = 0;
  REQUIRE_OK(cuMemAlloc(&p, 64));
  REQUIRE_OK(cuMemsetD8Async(p, 0, 64, nullptr));
  CHECK_CODE(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  fake().resume();
  REQUIRE_OK(cuMemFree(p));
  BOOST_TEST(text().empty());
}

BOOST_AUTO_TEST_CASE(a_refusal_says_why) {
  CUmemGenericAllocationHandle x = 0;
  CHECK_CODE(cuMulticastCreate(&x, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  auto got = text();
  BOOST_TEST(got.find("cuMulticastCreate is not supported (multicast "
                      "objects)\n") != std::string::npos);
  BOOST_TEST(got.ends_with("Returning 801 (CUDA_ERROR_NOT_SUPPORTED) from "
                           "cuMulticastCreate\n"));
}

BOOST_AUTO_TEST_CASE(callbacks_get_messages_until_they_are_removed) {
  std::vector<std::string> heard;
  CUlogsCallbackHandle handle = nullptr;
  REQUIRE_OK(cuLogsRegisterCallback(hear, &heard, &handle));
  fail();
  BOOST_TEST_REQUIRE(heard.size() == 1U);
  BOOST_TEST(heard[0] ==
             "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemAlloc_v2");
  REQUIRE_OK(cuLogsUnregisterCallback(handle));
  CHECK_CODE(cuLogsUnregisterCallback(handle), CUDA_ERROR_INVALID_VALUE);
  fail();
  BOOST_TEST(heard.size() == 1U);
  CHECK_CODE(cuLogsRegisterCallback(nullptr, nullptr, &handle),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(the_newest_hundred_messages_are_kept) {
  for (int i = 0; i < 150; ++i)
    fail();
  auto got = text();
  BOOST_TEST(lines_in(got) == 101);
  BOOST_TEST(got.starts_with("Log buffer has rolled over since the previous "
                             "dump. The oldest messages will be missing\n"));
}

BOOST_AUTO_TEST_CASE(a_small_buffer_gets_the_newest_messages) {
  for (int i = 0; i < 5; ++i)
    fail();
  auto got = text(400);
  BOOST_TEST(got.starts_with("The provided buffer is not large enough to hold "
                             "all messages. Some messages will be missing\n"));
  BOOST_TEST(lines_in(got) < 6);
  BOOST_TEST(lines_in(got) > 1);
  std::array<char, 100> little{};
  std::size_t size = little.size();
  auto from = start;
  CHECK_CODE(cuLogsDumpToMemory(&from, little.data(), &size, 0),
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(size == 0U);
  BOOST_TEST(from == start);
}

BOOST_AUTO_TEST_CASE(an_iterator_advances) {
  fail();
  std::array<char, 1000> buffer{};
  auto size = buffer.size();
  auto from = start;
  REQUIRE_OK(cuLogsDumpToMemory(&from, buffer.data(), &size, 0));
  BOOST_TEST(size > 0U);
  size = buffer.size();
  REQUIRE_OK(cuLogsDumpToMemory(&from, buffer.data(), &size, 0));
  BOOST_TEST(size == 0U);
  from += 1000;
  CHECK_CODE(cuLogsDumpToMemory(&from, buffer.data(), &size, 0),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuLogsDumpToMemory(nullptr, nullptr, &size, 0),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuLogsDumpToMemory(nullptr, buffer.data(), nullptr, 0),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuLogsCurrent(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(the_log_can_be_written_to_a_file) {
  fail();
  auto path = std::filesystem::temp_directory_path() /
              ("driver-log-" + std::to_string(::getpid()));
  auto from = start;
  REQUIRE_OK(cuLogsDumpToFile(&from, path.c_str(), 0));
  BOOST_TEST(from == start + 1);
  std::ifstream in{path};
  std::string line;
  BOOST_TEST(!!std::getline(in, line));
  BOOST_TEST(line.ends_with("from cuMemAlloc_v2"));
  BOOST_TEST(!std::getline(in, line));
  std::filesystem::remove(path);
  CHECK_CODE(cuLogsDumpToFile(nullptr, "/nowhere/at.all", 0),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuLogsDumpToFile(nullptr, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_SUITE_END()
