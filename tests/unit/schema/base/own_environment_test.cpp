// A process that has cleared its environment still knows the settings of its
// start.
#include "schema/base/own_environment.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <sys/wait.h>
#include <unistd.h>

using namespace vgpu;

namespace {

// The test starts itself with this variable, which tells it which case to run.
constexpr auto* asked_case = "VGPU_TEST_OWN_ENVIRONMENT";

bool setting_is(const char* name, const char* value) {
  const auto* text = setting(name);
  return text != nullptr && std::string_view{text} == value;
}

/// What a started process tells of its environment: 0 when all is right.
int look_around() {
  if (::clearenv() != 0 || std::getenv(asked_case) != nullptr)
    return 2;
  if (!setting_is(asked_case, "look") || !setting_is("VGPU_TEST_EMPTY", ""))
    return 3;
  if (setting("VGPU_TEST") != nullptr || setting("VGPU_TEST_OTHER") != nullptr)
    return 4;
  ::setenv(asked_case, "again", 1);
  return setting_is(asked_case, "again") ? 0 : 5;
}

// Before main(), as Boost.Test would run all cases again.
[[maybe_unused]] const bool has_looked = [] {
  if (const auto* text = std::getenv(asked_case);
      text != nullptr && std::string_view{text} == "look")
    ::_exit(look_around());
  return true;
}();

} // namespace

BOOST_AUTO_TEST_SUITE(own_environments)

BOOST_AUTO_TEST_CASE(a_cleared_environment_is_remembered) {
  std::string self = "/proc/self/exe",
              which = std::string{asked_case} + "=look",
              empty = "VGPU_TEST_EMPTY=";
  std::array<char*, 2> arguments{self.data(), nullptr};
  std::array<char*, 3> environment{which.data(), empty.data(), nullptr};
  auto child = ::fork();
  if (child == 0) {
    ::execve(self.c_str(), arguments.data(), environment.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  BOOST_TEST(WIFEXITED(status));
  BOOST_TEST(WEXITSTATUS(status) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
