#include "tests/unit/interposer/driver_fixture.hpp"

#include <array>
#include <string>

using namespace vgpu;
using namespace vgpu::test;

namespace {

void* number_of(std::uintptr_t x) {
  return reinterpret_cast<void*>(x);
}

constexpr char text[] = ".version 8.0\n";

} // namespace

BOOST_FIXTURE_TEST_SUITE(linking_options, driver_fixture)

BOOST_AUTO_TEST_CASE(a_modules_options_reach_the_worker) {
  CUjit_option option = CU_JIT_MAX_REGISTERS;
  void* value = number_of(24);
  CUmodule module = nullptr;
  REQUIRE_OK(cuModuleLoadDataEx(&module, text, 1, &option, &value));
  BOOST_TEST(fake().settings().option(CU_JIT_MAX_REGISTERS).value() == 24U);
  REQUIRE_OK(cuModuleUnload(module));
  REQUIRE_OK(cuModuleLoadData(&module, text));
  BOOST_TEST(fake().settings().empty());
  REQUIRE_OK(cuModuleUnload(module));
}

BOOST_AUTO_TEST_CASE(a_librarys_options_reach_the_worker_with_its_first_use) {
  CUjit_option option = CU_JIT_OPTIMIZATION_LEVEL;
  void* value = number_of(1);
  CUlibrary library = nullptr;
  CUmodule module = nullptr;
  REQUIRE_OK(cuLibraryLoadData(&library, text, &option, &value, 1, nullptr,
                               nullptr, 0));
  REQUIRE_OK(cuLibraryGetModule(&module, library));
  BOOST_TEST(fake().settings().option(CU_JIT_OPTIMIZATION_LEVEL).value() == 1U);
  REQUIRE_OK(cuLibraryUnload(library));
}

BOOST_AUTO_TEST_CASE(a_librarys_own_options_are_checked) {
  CUlibrary library = nullptr;
  auto code = [&](CUlibraryOption option) {
    auto got = cuLibraryLoadData(&library, text, nullptr, nullptr, 0, &option,
                                 nullptr, 1);
    if (got == CUDA_SUCCESS)
      REQUIRE_OK(cuLibraryUnload(library));
    return got;
  };
  CHECK_CODE(code(CU_LIBRARY_BINARY_IS_PRESERVED), CUDA_SUCCESS);
  CHECK_CODE(code(CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE),
             CUDA_SUCCESS);
  CHECK_CODE(code(unknown_value<CUlibraryOption>(2)), CUDA_ERROR_INVALID_VALUE);
  auto preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
  CHECK_CODE(cuLibraryLoadFromFile(&library, "/dev/null", nullptr, nullptr, 0,
                                   &preserved, nullptr, 1),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(a_part_is_compiled_when_it_is_added) {
  auto checks = [] {
    return fake().counts()[static_cast<std::uint16_t>(call::part_check::id)];
  };
  CUlinkState link = nullptr;
  REQUIRE_OK(cuLinkCreate(0, nullptr, nullptr, &link));
  auto before = checks();
  std::string part{text};
  CUjit_option option = CU_JIT_MAX_REGISTERS;
  void* value = number_of(32);
  REQUIRE_OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, part.data(), part.size() + 1,
                           nullptr, 1, &option, &value));
  BOOST_TEST(checks() == before + 1);
  BOOST_TEST(fake().settings().option(CU_JIT_MAX_REGISTERS).value() == 32U);
  // The linked image keeps the options, for whoever loads it.
  void* image = nullptr;
  REQUIRE_OK(cuLinkComplete(link, &image, nullptr));
  CUmodule module = nullptr;
  REQUIRE_OK(cuModuleLoadData(&module, image));
  BOOST_TEST(fake().settings().option(CU_JIT_MAX_REGISTERS).value() == 32U);
  REQUIRE_OK(cuModuleUnload(module));
  REQUIRE_OK(cuLinkDestroy(link));
}

BOOST_AUTO_TEST_CASE(a_link_is_completed_once) {
  CUlinkState link = nullptr;
  REQUIRE_OK(cuLinkCreate(0, nullptr, nullptr, &link));
  void* image = nullptr;
  std::size_t bytes = 0;
  // A link of nothing succeeds, and its image can be loaded.
  REQUIRE_OK(cuLinkComplete(link, &image, &bytes));
  BOOST_TEST(bytes != 0U);
  CUmodule module = nullptr;
  REQUIRE_OK(cuModuleLoadData(&module, image));
  REQUIRE_OK(cuModuleUnload(module));
  CHECK_CODE(cuLinkComplete(link, &image, &bytes), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(cuLinkDestroy(link));
}

BOOST_AUTO_TEST_CASE(a_link_is_tried_where_definitions_may_meet) {
  auto loads = [] {
    return fake().counts()[static_cast<std::uint16_t>(call::module_load::id)];
  };
  CUlinkState link = nullptr;
  REQUIRE_OK(cuLinkCreate(0, nullptr, nullptr, &link));
  auto add = [&](std::string part) {
    return cuLinkAddData(link, CU_JIT_INPUT_PTX, part.data(), part.size() + 1,
                         "part", 0, nullptr, nullptr);
  };
  auto before = loads();
  REQUIRE_OK(add(".version 8.0\n.visible .func f() { ret; }\n"));
  REQUIRE_OK(add(".version 8.0\n.visible .func g() { ret; }\n"
                 ".extern .func f();\n"));
  BOOST_TEST(loads() == before);
  REQUIRE_OK(add(".version 8.0\n.visible .func f() { ret; }\n"));
  BOOST_TEST(loads() == before + 1);
  REQUIRE_OK(cuLinkDestroy(link));
}

BOOST_AUTO_TEST_SUITE_END()
