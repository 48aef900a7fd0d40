#include "interposer/code/jit_options.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

using namespace vgpu::interposer;

namespace {

void* number(std::uintptr_t x) {
  return reinterpret_cast<void*>(x);
}

/// Takes one option, or two.
CUresult take(jit_use use, std::vector<CUjit_option> options,
              std::vector<void*> values) {
  jit_request request;
  return request.take(use, static_cast<unsigned>(options.size()),
                      options.data(), values.data());
}

CUresult take(CUjit_option option, std::uintptr_t value,
              jit_use use = jit_use::load) {
  return take(use, {option}, {number(value)});
}

} // namespace

BOOST_AUTO_TEST_SUITE(jit_options)

BOOST_AUTO_TEST_CASE(values_out_of_their_range_are_refused) {
  struct limit {
    CUjit_option option;
    std::uintptr_t good, bad;
  };
  constexpr limit all[] = {
      {CU_JIT_MAX_REGISTERS, 1, 0},
      {CU_JIT_CACHE_MODE, CU_JIT_CACHE_OPTION_CA, 3},
      {CU_JIT_TARGET, CU_TARGET_COMPUTE_90A, 91},
      {CU_JIT_TARGET, CU_TARGET_COMPUTE_75,
       CU_COMPUTE_ACCELERATED_TARGET_BASE + 75},
  };
  for (const auto& x : all) {
    BOOST_TEST(take(x.option, x.good) == CUDA_SUCCESS, "option " << x.option);
    BOOST_TEST(take(x.option, x.bad) == CUDA_ERROR_INVALID_VALUE,
               "option " << x.option);
  }
}

BOOST_AUTO_TEST_CASE(a_compiler_judges_its_own_options) {
  for (std::uintptr_t value : {0U, 5U, 7U, ~0U}) {
    BOOST_TEST(take(CU_JIT_OPTIMIZATION_LEVEL, value) == CUDA_SUCCESS);
    BOOST_TEST(take(CU_JIT_FALLBACK_STRATEGY, value) == CUDA_SUCCESS);
  }
  CUjit_option option = CU_JIT_NEW_SM3X_OPT;
  void* value = nullptr;
  jit_request request;
  BOOST_TEST(request.take(jit_use::load, 1, &option, &value) == CUDA_SUCCESS);
  BOOST_TEST(request.settings().option(option).has_value());
}

BOOST_AUTO_TEST_CASE(lists_are_not_null) {
  for (auto option :
       {CU_JIT_GLOBAL_SYMBOL_NAMES, CU_JIT_GLOBAL_SYMBOL_ADDRESSES,
        CU_JIT_GLOBAL_SYMBOL_COUNT, CU_JIT_REFERENCED_KERNEL_NAMES,
        CU_JIT_REFERENCED_VARIABLE_NAMES})
    BOOST_TEST(take(option, 0) == CUDA_ERROR_INVALID_VALUE);
  for (auto option :
       {CU_JIT_REFERENCED_KERNEL_COUNT, CU_JIT_REFERENCED_VARIABLE_COUNT})
    BOOST_TEST(take(option, 0) == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(options_that_contradict_each_other_are_refused) {
  BOOST_TEST(take(jit_use::load, {CU_JIT_TARGET, CU_JIT_THREADS_PER_BLOCK},
                  {number(90), number(128)}) == CUDA_ERROR_INVALID_VALUE);
  // A linker requires exact matches.
  BOOST_TEST(take(CU_JIT_FALLBACK_STRATEGY, 0, jit_use::link) ==
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(options_that_do_not_exist_are_refused) {
  for (int wrong : {-1, int{CU_JIT_NUM_OPTIONS}, 1000}) {
    CUjit_option option{};
    std::memcpy(&option, &wrong, sizeof(option));
    void* value = nullptr;
    jit_request request;
    BOOST_TEST(request.take(jit_use::load, 1, &option, &value) ==
               CUDA_ERROR_INVALID_VALUE);
  }
  jit_request request;
  BOOST_TEST(request.take(jit_use::load, 1, nullptr, nullptr) ==
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(options_that_change_code_are_settings) {
  CUjit_option options[] = {CU_JIT_MAX_REGISTERS, CU_JIT_LTO,
                            CU_JIT_GENERATE_LINE_INFO,
                            CU_JIT_TARGET_FROM_CUCONTEXT};
  void* values[] = {number(40), number(1), number(1), nullptr};
  jit_request request;
  BOOST_REQUIRE(request.take(jit_use::load, 4, options, values) ==
                CUDA_SUCCESS);
  const auto& got = request.settings();
  BOOST_TEST(got.options.size() == 2U);
  BOOST_TEST(got.option(CU_JIT_MAX_REGISTERS).value() == 40U);
  BOOST_TEST(got.option(CU_JIT_GENERATE_LINE_INFO).value() == 1U);
}

BOOST_AUTO_TEST_CASE(logs_grow_and_report_their_sizes) {
  std::array<char, 16> info{}, errors{};
  errors.fill('x');
  CUjit_option options[] = {
      CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
      CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
      CU_JIT_WALL_TIME};
  void* values[] = {info.data(), number(8), errors.data(),
                    number(errors.size()), number(7)};
  jit_request request;
  BOOST_REQUIRE(request.take(jit_use::link, 5, options, values) ==
                CUDA_SUCCESS);
  BOOST_TEST(errors[0] == '\0');
  BOOST_TEST(values[3] == nullptr);
  request.inform("one ");
  request.inform("two ");
  BOOST_TEST(std::string{info.data()} == "one two");
  BOOST_TEST(values[1] == number(7));
  request.fail("fatal");
  BOOST_TEST(std::string{errors.data()} == "fatal");
  BOOST_TEST(values[3] == number(5));
  request.fail("error\n");
  BOOST_TEST(std::string{errors.data()} == "fatal\nerror");
  request.finish();
  float time = -1;
  std::memcpy(&time, static_cast<void*>(&values[4]), sizeof(time));
  BOOST_TEST(time >= 0);
}

BOOST_AUTO_TEST_CASE(symbols_need_names_addresses_and_a_number) {
  const char* names[] = {"a", "b", "a"};
  int place = 0;
  void* addresses[] = {&place, &place, &place};
  std::vector<CUjit_option> options{CU_JIT_GLOBAL_SYMBOL_NAMES,
                                    CU_JIT_GLOBAL_SYMBOL_ADDRESSES,
                                    CU_JIT_GLOBAL_SYMBOL_COUNT};
  auto taken = [&](void* first, void* second, std::uintptr_t count) {
    return take(jit_use::load, options, {first, second, number(count)});
  };
  BOOST_TEST(taken(names, addresses, 2) == CUDA_SUCCESS);
  BOOST_TEST(taken(names, addresses, 3) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(taken(nullptr, addresses, 2) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(taken(names, nullptr, 2) == CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_SUITE_END()
