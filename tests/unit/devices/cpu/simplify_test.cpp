// Lowering moves and removes instructions, which must not change the results of
// kernels of many blocks that run one after the other in the same frames.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace vgpu::test {

namespace {

using u32 = std::uint32_t;

const auto head =
    std::string{".version 9.0\n.target sm_90\n.address_size 64\n"
                ".visible .entry k(.param .u64 k_0, .param .u32 k_1) {\n"
                "  .reg .u32 %i, %t, %n, %b, %c, %s, %x, %y;\n"
                "  .reg .u64 %p, %q;\n  .reg .pred %o;\n"};

struct one_thread : device_fixture {
  one_thread() : device_fixture{std::uint64_t{1} << 30, 1} {}
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(simplify, one_thread)

BOOST_AUTO_TEST_CASE(every_block_has_the_values_of_hoisted_instructions) {
  // %s begins as a parameter and is changed later. Half of the blocks leave
  // early, and %y is computed only on the path that they do not take.
  load_ptx(head + "  ld.param.u64 %p, [k_0];\n"
                  "  ld.param.u32 %n, [k_1];\n"
                  "  mov.u32 %t, %tid.x;\n"
                  "  mov.u32 %b, %ntid.x;\n"
                  "  mov.u32 %c, %ctaid.x;\n"
                  "  mad.lo.u32 %i, %c, %b, %t;\n"
                  "  cvta.to.global.u64 %q, %p;\n"
                  "  mad.wide.u32 %q, %i, 4, %q;\n"
                  "  and.b32 %x, %c, 1;\n"
                  "  setp.ne.u32 %o, %x, 0;\n"
                  "  @%o bra odd;\n"
                  "  mov.u32 %s, %n;\n"
                  "  mov.u32 %x, 0;\n"
                  "again:\n"
                  "  add.u32 %s, %s, %t;\n"
                  "  add.u32 %x, %x, 1;\n"
                  "  setp.lt.u32 %o, %x, 3;\n"
                  "  @%o bra again;\n"
                  "  st.global.u32 [%q], %s;\n"
                  "  exit;\n"
                  "odd:\n"
                  "  shl.b32 %y, %n, 1;\n"
                  "  add.u32 %x, %y, %c;\n"
                  "  st.global.u32 [%q], %x;\n"
                  "  ret;\n}\n");
  constexpr auto blocks = 101u, threads = 40u, n = 1000u;
  auto out = memory(blocks * threads * sizeof(u32));
  // The kernel runs twice, because each launch has its own frames.
  for (auto plus : {0u, 7u}) {
    BOOST_REQUIRE_EQUAL(run("k", {blocks}, {threads}, arguments{out, n + plus}),
                        CUDA_SUCCESS);
    auto got = download<u32>(out, blocks * threads);
    for (auto c = 0u; c < blocks; ++c)
      for (auto t = 0u; t < threads; ++t)
        BOOST_REQUIRE_EQUAL(got[c * threads + t],
                            c % 2 != 0 ? 2 * (n + plus) + c : n + plus + 3 * t);
  }
}

BOOST_AUTO_TEST_CASE(atomic_adds_at_one_address_return_each_sum) {
  // The result replaces the addend.
  load_ptx(head + "  ld.param.u64 %p, [k_0];\n"
                  "  mov.u32 %t, %tid.x;\n"
                  "  ld.param.u32 %x, [k_1];\n"
                  "  atom.global.add.u32 %x, [%p+128], %x;\n"
                  "  mad.wide.u32 %q, %t, 4, %p;\n"
                  "  st.global.u32 [%q], %x;\n"
                  "  ret;\n}\n");
  auto out = upload(std::vector<u32>(33));
  BOOST_REQUIRE_EQUAL(run("k", {1}, {32}, arguments{out, 3u}), CUDA_SUCCESS);
  auto got = download<u32>(out, 33);
  BOOST_TEST(got.back() == 96u);
  got.pop_back();
  std::sort(got.begin(), got.end());
  for (auto i = 0u; i < 32; ++i)
    BOOST_TEST(got[i] == 3 * i);
}

BOOST_AUTO_TEST_CASE(shared_atomics_count_with_and_without_results) {
  // Lane t adds to word t % 5 without using the result, and then to word 8 with
  // a result that decides where it stores.
  load_ptx(head + "  .shared .align 4 .b8 bins[64];\n"
                  "  ld.param.u64 %p, [k_0];\n"
                  "  mov.u32 %t, %tid.x;\n"
                  "  mov.u32 %b, bins;\n"
                  "  shl.b32 %x, %t, 2;\n"
                  "  add.u32 %s, %b, %x;\n"
                  "  mov.u32 %y, 0;\n"
                  "  setp.lt.u32 %o, %t, 16;\n"
                  "  @%o st.shared.u32 [%s], %y;\n"
                  "  bar.sync 0;\n"
                  "  rem.u32 %x, %t, 5;\n"
                  "  shl.b32 %x, %x, 2;\n"
                  "  add.u32 %x, %b, %x;\n"
                  "  atom.shared.add.u32 %i, [%x], 1;\n"
                  "  atom.shared.add.u32 %c, [%b+32], 1;\n"
                  "  mad.wide.u32 %q, %c, 4, %p;\n"
                  "  st.global.u32 [%q+64], %t;\n"
                  "  bar.sync 0;\n"
                  "  mad.wide.u32 %q, %t, 4, %p;\n"
                  "  @%o ld.shared.u32 %y, [%s];\n"
                  "  @%o st.global.u32 [%q], %y;\n"
                  "  ret;\n}\n");
  constexpr auto threads = 96u;
  auto out = upload(std::vector<u32>(16 + threads));
  BOOST_REQUIRE_EQUAL(run("k", {1}, {threads}, arguments{out, 0u}),
                      CUDA_SUCCESS);
  auto got = download<u32>(out, 16 + threads);
  for (auto i = 0u; i < 5; ++i)
    BOOST_TEST(got[i] == threads / 5 + (i < threads % 5 ? 1u : 0u));
  BOOST_TEST(got[8] == threads);
  got.erase(got.begin(), got.begin() + 16);
  std::sort(got.begin(), got.end());
  auto each = std::vector<u32>(threads);
  std::iota(each.begin(), each.end(), 0u);
  BOOST_TEST(got == each);
}

BOOST_AUTO_TEST_CASE(a_missing_parameter_fails_only_when_it_is_read) {
  const auto text = head + "  ld.param.u64 %p, [k_0];\n"
                           "  ld.param.u32 %n, [k_1];\n"
                           "  mov.u32 %t, %tid.x;\n"
                           "  mov.u32 %b, %ntid.x;\n"
                           "  setp.eq.u32 %o, %n, 0;\n"
                           "  @%o bra out;\n"
                           "  ld.param.u32 %x, [k_1+4096];\n"
                           "  st.global.u32 [%p], %x;\n"
                           "out:\n  ret;\n}\n";
  load_ptx(text);
  auto out = memory(4);
  BOOST_TEST(run("k", {4}, {32}, arguments{out, 0u}) == CUDA_SUCCESS);
  BOOST_TEST(run("k", {4}, {32}, arguments{out, 1u}) ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
