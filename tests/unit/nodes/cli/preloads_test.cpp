#include "nodes/cli/preloads.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;
using vgpu::command::may_preload;
using vgpu::command::with_own_cupti;

struct preload_folder {
  preload_folder() {
    auto name = (fs::temp_directory_path() / "preloads-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~preload_folder() { fs::remove_all(path); }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream{path / name, std::ios::binary} << text;
    return (path / name).string();
  }
  /// Copies a program of this system, with other bytes at an offset.
  std::string changed(std::size_t at, char to) const {
    std::ifstream from{"/bin/sh", std::ios::binary};
    std::string text{std::istreambuf_iterator<char>{from}, {}};
    BOOST_REQUIRE(text.size() > at);
    text[at] = to;
    return file("changed", text);
  }

  fs::path path;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(preloads, preload_folder)

BOOST_AUTO_TEST_CASE(into_programs_of_glibc_and_scripts) {
  BOOST_TEST(may_preload("/bin/sh"));
  BOOST_TEST(may_preload(file("script", "#!/bin/sh\nexit 0\n")));
}

BOOST_AUTO_TEST_CASE(not_into_anything_else) {
  BOOST_TEST(!may_preload((path / "missing").string()));
  BOOST_TEST(!may_preload(file("empty", "")));
  BOOST_TEST(!may_preload(file("text", "hello")));
  BOOST_TEST(!may_preload(file("short", "\x7f"
                                        "ELF")));
  // A program of 32 bits, by its class.
  BOOST_TEST(!may_preload(changed(4, 1)));
}

BOOST_AUTO_TEST_CASE(ours_come_behind_what_was_preloaded) {
  auto in = path.string();
  BOOST_TEST(with_own_cupti("", in) == "");
  file("libcupti.so.13", "");
  BOOST_TEST(with_own_cupti("", in) == in + "/libcupti.so.13");
  file("libcupti.so.12", "");
  auto both = in + "/libcupti.so.13:" + in + "/libcupti.so.12";
  BOOST_TEST(with_own_cupti("", in) == both);
  BOOST_TEST(with_own_cupti("libasan.so", in) == "libasan.so:" + both);
  BOOST_TEST(with_own_cupti(both, in) == both);
}

BOOST_AUTO_TEST_SUITE_END()
