#include "tests/unit/interposer/driver_fixture.hpp"

#include <array>
#include <cstring>
#include <string>
#include <vector>

using namespace vgpu::test;

namespace {

using slots = const void* const*;

slots table(const char* hex) {
  CUuuid id{};
  for (std::size_t i = 0; i < 16; ++i)
    id.bytes[i] =
        static_cast<char>(std::stoi(std::string{hex + 2 * i, 2}, nullptr, 16));
  const void* out = &id;
  if (cuGetExportTable(&out, &id) != CUDA_SUCCESS) {
    BOOST_TEST((out == nullptr));
    return nullptr;
  }
  return static_cast<slots>(out);
}

template <class F>
F* entry_of(slots t, std::size_t i) {
  return reinterpret_cast<F*>(const_cast<void*>(t[i]));
}

constexpr auto runtime = "6bd5fb6c5bf4e74a8987d93912fd9df9";
constexpr auto hooks = "a094798c2e742e7493f20800200c0a66";
constexpr auto thread_state = "42d85a8123f6cb478298f6e78a3aecdc";
constexpr auto storage = "c693336e1121df11a8c368f355d89593";
constexpr auto checks = "263e88607cd2614392f6bbd5006dfa7e";
constexpr auto integrity = "d4082055bde6704b8d34ba123c66e1f2";
constexpr auto tools_context = "21318c60971432488ca641ff7324c8f2";
constexpr auto tools_module = "6e163fbeb958444d835ce182aff1991e";

std::vector<void*> removed_keys;

} // namespace

BOOST_FIXTURE_TEST_SUITE(export_tables, driver_fixture)

BOOST_AUTO_TEST_CASE(each_table_has_its_size_and_no_gap) {
  for (auto [id, bytes] : {std::pair{runtime, 104},
                           {hooks, 56},
                           {thread_state, 32},
                           {checks, 32},
                           {integrity, 24},
                           {tools_context, 760},
                           {tools_module, 128}}) {
    auto t = table(id);
    BOOST_REQUIRE((t != nullptr));
    BOOST_TEST(reinterpret_cast<std::uintptr_t>(t[0]) ==
               static_cast<std::uintptr_t>(bytes));
    for (int i = 1; i < bytes / 8; ++i)
      BOOST_TEST((t[i] != nullptr));
    BOOST_TEST(table(id) == t);
  }
  BOOST_TEST((table("bfdb432d000000000000000000000000") == nullptr));
}

BOOST_AUTO_TEST_CASE(the_runtimes_tables_work) {
  CUcontext x = nullptr;
  auto primary_of = entry_of<CUresult(CUcontext*, CUdevice)>(table(runtime), 2);
  REQUIRE_OK(primary_of(&x, 0));
  BOOST_TEST(x == primary);
  REQUIRE_OK(primary_of(&x, 1));
  unsigned flags = 0;
  int active = 1;
  REQUIRE_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
  BOOST_TEST(active == 0);
  std::uint32_t* words = nullptr;
  std::size_t n = 0;
  entry_of<void(std::uint32_t**, std::size_t*)>(table(hooks), 2)(&words, &n);
  BOOST_TEST(n >= 523U);
  BOOST_TEST(words[522] == 0U);
  entry_of<void(std::uint32_t**, std::size_t*)>(table(hooks), 6)(&words, &n);
  BOOST_TEST(n >= 14U);
  CUcontext current = nullptr;
  REQUIRE_OK(entry_of<CUresult(CUcontext*)>(table(thread_state), 2)(&current));
  BOOST_TEST(current == primary);
  std::uint32_t flag = 7;
  CUcontext other = nullptr;
  REQUIRE_OK((entry_of<CUresult(CUcontext, std::uint32_t*, CUcontext*)>(
      table(checks), 2)(primary, &flag, &other)));
  BOOST_TEST(flag == 0U);
  BOOST_TEST(entry_of<std::uint32_t()>(table(checks), 3)() == 0U);
  std::uint64_t id = 0;
  unsigned long long same = 1;
  REQUIRE_OK((entry_of<CUresult(CUcontext, std::uint64_t*)>(
      table(tools_context), 4)(primary, &id)));
  REQUIRE_OK(cuCtxGetId(primary, &same));
  BOOST_TEST(id == same);
  std::array<std::uint8_t, 16> proof{};
  auto prove = entry_of<CUresult(std::uint32_t, std::uint64_t, std::uint8_t*)>(
      table(integrity), 1);
  REQUIRE_OK(prove(13000, 1, proof.data()));
  BOOST_TEST(proof[0] == 0x5c);
}

// cuBLAS 13 asks for this before it gives a stream a part of its workspace.
BOOST_AUTO_TEST_CASE(each_stream_has_its_own_number) {
  auto object_of =
      entry_of<CUresult(CUcontext, CUstream, void**, std::uint32_t)>(
          table(tools_context), 51);
  auto number_of = entry_of<CUresult(CUcontext, void*, std::uint64_t*)>(
      table(tools_context), 39);
  CUstream made = nullptr;
  REQUIRE_OK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  CUcontext current = nullptr;
  REQUIRE_OK(cuCtxGetCurrent(&current));
  auto number = [&](CUstream of) {
    void* object = nullptr;
    std::uint64_t out = 0;
    REQUIRE_OK(object_of(current, of, &object, of == CU_STREAM_PER_THREAD));
    REQUIRE_OK(number_of(current, object, &out));
    unsigned long long same = 0;
    REQUIRE_OK(cuStreamGetId(of, &same));
    BOOST_TEST(out == same);
    return out;
  };
  BOOST_TEST(number(nullptr) == number(CU_STREAM_LEGACY));
  BOOST_TEST(number(nullptr) != number(made));
  BOOST_TEST(number(nullptr) != number(CU_STREAM_PER_THREAD));
  void* object = nullptr;
  REQUIRE_OK(cuStreamDestroy(made));
  CHECK_CODE(object_of(current, made, &object, 0), CUDA_ERROR_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(the_context_keeps_values_until_it_is_reset) {
  using destructor = void (*)(CUcontext, void*, void*);
  auto put = entry_of<CUresult(CUcontext, void*, void*, destructor)>(
      table(storage), 0);
  auto remove = entry_of<CUresult(CUcontext, void*)>(table(storage), 1);
  auto get = entry_of<CUresult(void**, CUcontext, void*)>(table(storage), 2);
  int key = 0, other = 0;
  void* value = nullptr;
  CHECK_CODE(get(&value, primary, &key), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(put(nullptr, &key, &key,
                 [](CUcontext, void*, void* x) { removed_keys.push_back(x); }));
  REQUIRE_OK(get(&value, nullptr, &key));
  BOOST_TEST(value == &key);
  REQUIRE_OK(put(primary, &other, &other, nullptr));
  REQUIRE_OK(remove(primary, &other));
  CHECK_CODE(remove(primary, &other), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(cuDevicePrimaryCtxReset(0));
  BOOST_REQUIRE(removed_keys.size() == 1U);
  BOOST_TEST(removed_keys[0] == &key);
  CHECK_CODE(get(&value, primary, &key), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(cuCtxSetCurrent(nullptr));
  CHECK_CODE(get(&value, nullptr, &key), CUDA_ERROR_INVALID_CONTEXT);
  REQUIRE_OK(cuCtxSetCurrent(primary));
}

BOOST_AUTO_TEST_CASE(a_modules_functions_are_visited) {
  CUmodule m = nullptr;
  REQUIRE_OK(cuModuleLoadData(&m, ".version 8.0\n"));
  std::vector<CUfunction> seen;
  auto visit =
      entry_of<unsigned(CUcontext, CUmodule, void (*)(void*, CUfunction),
                        void*)>(table(tools_module), 7);
  auto n = visit(
      primary, m,
      [](void* to, CUfunction f) {
        static_cast<std::vector<CUfunction>*>(to)->push_back(f);
      },
      &seen);
  BOOST_TEST(n == 3U);
  BOOST_TEST(seen.size() == 3U);
  int value = 0;
  REQUIRE_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, seen[0]));
  REQUIRE_OK(cuModuleUnload(m));
}

BOOST_AUTO_TEST_CASE(functions_are_found_by_name) {
  void* p = &p;
  CUdriverProcAddressQueryResult status{};
  CHECK_CODE(cuGetProcAddress("cuNothing", &p, 13000, 0, &status),
             CUDA_SUCCESS);
  BOOST_TEST((p == nullptr));
  BOOST_TEST(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  REQUIRE_OK(cuGetProcAddress("cuLibraryLoadData", &p, 11000, 0, &status));
  BOOST_TEST((p == nullptr));
  BOOST_TEST(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  REQUIRE_OK(cuGetProcAddress("cuMemAlloc", &p, 13000, 0, &status));
  BOOST_TEST(p == reinterpret_cast<void*>(&cuMemAlloc));
  REQUIRE_OK(cuGetProcAddress("cuNothing", &p, 13000, 0, nullptr));
  BOOST_TEST((p == nullptr));
  CHECK_CODE(cuGetProcAddress(nullptr, &p, 13000, 0, &status),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_SUITE_END()
