#include "nodes/cli/preloads.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;
using vgpu::command::runs_python;
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
  fs::path path;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(preloads, preload_folder)

BOOST_AUTO_TEST_CASE(into_python_and_its_scripts) {
  BOOST_TEST(runs_python(file("python3.11", "")));
  fs::create_symlink(path / "python3.11", path / "py");
  BOOST_TEST(runs_python((path / "py").string()));
  BOOST_TEST(runs_python(file("train", "#!/usr/bin/env python3\nprint()\n")));
}

BOOST_AUTO_TEST_CASE(not_into_anything_else) {
  BOOST_TEST(!runs_python((path / "missing").string()));
  BOOST_TEST(!runs_python(file("empty", "")));
  BOOST_TEST(!runs_python("/bin/sh"));
  BOOST_TEST(!runs_python(file("script", "#!/bin/sh\npython3 train.py\n")));
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
