#include "nodes/cli/profiles.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {

struct profiles_folder {
  std::filesystem::path dir;

  profiles_folder() {
    std::string name =
        std::filesystem::temp_directory_path() / "profilesXXXXXX";
    dir = ::mkdtemp(name.data());
  }
  ~profiles_folder() { std::filesystem::remove_all(dir); }

  /// Returns why a file of this text has no profile x; empty where it has one.
  std::string why(const std::string& text) const {
    std::ofstream{dir / "file"} << text;
    auto got = vgpu::read_profile(dir / "file", "x");
    return got ? "" : got.why().what;
  }
};

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(files_of_profiles, profiles_folder)

BOOST_AUTO_TEST_CASE(
    values_in_values_are_refused_before_they_use_up_the_stack) {
  const auto good = std::string{"[x]\nshare = 0.5\n"};
  BOOST_TEST(why(good + "[y]\nlist = [[1], [2, [3]]]\n") == "");
  for (std::string open : {"[", "{a=", "[\n", "{a=[\n"}) {
    std::string deep = "deep = ";
    for (auto i = 0; i < 100'000; ++i)
      deep += open;
    BOOST_TEST(says(why(good + deep), "is not a file of profiles"));
  }
}

BOOST_AUTO_TEST_CASE(what_takes_minutes_to_parse_is_refused) {
  std::string dotted = "[";
  for (auto i = 0; i < 100'000; ++i)
    dotted += "a.";
  BOOST_TEST(says(why(dotted + "x]\nshare = 1\n"), "a line is longer"));
  BOOST_TEST(says(why(std::string(2 << 20, '\n')), "larger than 1 MiB"));
}

BOOST_AUTO_TEST_CASE(a_folder_is_no_file_of_profiles) {
  auto got = vgpu::read_profile(dir, "x");
  BOOST_REQUIRE(!got);
  BOOST_TEST(says(got.why().what, "cannot read"));
}

BOOST_AUTO_TEST_SUITE_END()
