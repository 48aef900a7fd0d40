// Addresses computed from a base and an index. Loads and stores must use the
// address that the instructions before them computed, whatever is written in
// between and however the lanes' indices lie.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include <cstdint>
#include <numeric>

namespace vgpu::test {

namespace {

/// A kernel k(in, out). %t is its thread, and %p and %q are in and out.
struct one_kernel : device_fixture {
  void load_body(const std::string& body) {
    load_ptx(".version 9.0\n.target sm_90\n.address_size 64\n"
             ".visible .entry k(.param .u64 k_0, .param .u64 k_1) {\n"
             "  .reg .b32 %t, %i, %n, %x, %y, %z, %w;\n"
             "  .reg .b64 %p, %q, %a, %b, %c, %d, %v;\n  .reg .pred %o;\n"
             "  ld.param.u64 %p, [k_0];\n  ld.param.u64 %q, [k_1];\n"
             "  mov.u32 %t, %tid.x;\n"
             // Thread t stores its result here.
             "  mul.wide.u32 %c, %t, 4;\n  add.s64 %d, %q, %c;\n" +
             body + "  ret;\n}\n");
  }

  /// Returns the results of 32 threads, whose input is 100, 101 and so on.
  std::vector<std::uint32_t> results(std::int64_t offset = 0) {
    auto words = std::vector<std::uint32_t>(256);
    std::iota(words.begin(), words.end(), 100u);
    auto in = upload(words);
    auto out = upload(std::vector<std::uint32_t>(64));
    code = run("k", {1}, {32}, arguments{in + offset, out});
    return code == CUDA_SUCCESS ? download<std::uint32_t>(out, 32)
                                : std::vector<std::uint32_t>{};
  }

  CUresult code = CUDA_SUCCESS;
};

template <class F>
std::vector<std::uint32_t> each_thread(F f) {
  auto out = std::vector<std::uint32_t>(32);
  for (auto t = 0u; t < 32; ++t)
    out[t] = f(t);
  return out;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(simplify_addresses, one_kernel)

BOOST_AUTO_TEST_CASE(lanes_read_neighbours_or_one_word) {
  load_body("  mul.wide.s32 %a, %t, 4;\n  add.s64 %b, %p, %a;\n"
            "  mov.u32 %i, 7;\n  add.u32 %i, %i, %t;\n  sub.u32 %i, %i, %t;\n"
            "  mul.wide.s32 %a, %i, 4;\n  add.s64 %v, %a, %p;\n"
            "  ld.global.u32 %x, [%b+8];\n  ld.global.u32 %y, [%v];\n"
            "  add.u32 %x, %x, %y;\n  st.global.u32 [%d], %x;\n");
  BOOST_TEST(results() == each_thread([](auto t) { return 102u + t + 107u; }));
}

BOOST_AUTO_TEST_CASE(indices_may_be_signed_or_unsigned) {
  // The indices go down from 31, below zero, and beyond 2^31.
  load_body("  sub.u32 %i, 31, %t;\n  mul.wide.s32 %a, %i, 4;\n"
            "  add.s64 %b, %p, %a;\n  ld.global.u32 %x, [%b];\n"
            "  sub.u32 %i, %t, 16;\n  mul.wide.s32 %a, %i, 4;\n"
            "  add.s64 %b, %p, %a;\n  ld.global.u32 %y, [%b+64];\n"
            "  sub.u64 %v, %p, 17179869056;\n"
            "  add.u32 %i, %t, 4294967264;\n  mul.wide.u32 %a, %i, 4;\n"
            "  add.s64 %b, %v, %a;\n  ld.global.u32 %z, [%b+4];\n"
            "  mad.lo.u32 %x, %x, 1000, %y;\n  mad.lo.u32 %x, %x, 1000, %z;\n"
            "  st.global.u32 [%d], %x;\n");
  BOOST_TEST(results() == each_thread([](auto t) {
               return ((131u - t) * 1000 + 100 + t) * 1000 + 101 + t;
             }));
}

BOOST_AUTO_TEST_CASE(indices_may_overflow_between_lanes) {
  // Lane 16 has the smallest index, so its address does not follow lane 15's.
  load_body("  add.u32 %i, %t, 2147483632;\n  mul.wide.s32 %a, %i, 4;\n"
            "  sub.u64 %v, %p, 8589934528;\n"
            "  setp.lt.u32 %o, %t, 16;\n  @%o bra low;\n"
            "  add.u64 %v, %v, 17179869184;\n"
            "low:\n  add.s64 %b, %v, %a;\n  ld.global.u32 %x, [%b];\n"
            "  st.global.u32 [%d], %x;\n");
  BOOST_TEST(results() == each_thread([](auto t) { return 100u + t; }));
  load_body("  add.u32 %i, %t, 2147483632;\n  mul.wide.s32 %a, %i, 4;\n"
            "  sub.u64 %v, %p, 8589934528;\n  add.s64 %b, %v, %a;\n"
            "  ld.global.u32 %x, [%b];\n  st.global.u32 [%d], %x;\n");
  (void)results();
  BOOST_TEST(code == CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_CASE(writes_to_the_index_in_between_change_nothing) {
  load_body("  mul.wide.s32 %a, %t, 4;\n  add.s64 %b, %p, %a;\n"
            "  mov.u32 %i, %t;\n  mul.wide.s32 %a, %i, 4;\n"
            "  add.u32 %i, %i, 5;\n  add.s64 %v, %p, %a;\n"
            "  add.u32 %i, %i, 6;\n"
            "  ld.global.u32 %x, [%b];\n  ld.global.u32 %y, [%v];\n"
            "  mul.wide.s32 %a, %i, 4;\n  add.s64 %v, %p, %a;\n"
            "  ld.global.u32 %z, [%v];\n"
            "  mad.lo.u32 %x, %x, 1000, %y;\n  mad.lo.u32 %x, %x, 1000, %z;\n"
            "  st.global.u32 [%d], %x;\n");
  BOOST_TEST(results() == each_thread([](auto t) {
               return ((100u + t) * 1000 + 100 + t) * 1000 + 111 + t;
             }));
}

BOOST_AUTO_TEST_CASE(a_changing_base_is_read_at_each_use) {
  load_body("  mul.wide.s32 %a, %t, 4;\n  mov.u32 %n, 0;\n  mov.u32 %x, 0;\n"
            "again:\n  add.s64 %b, %p, %a;\n  ld.global.u32 %y, [%b];\n"
            "  mad.lo.u32 %x, %x, 10, %y;\n  add.s64 %p, %p, 4;\n"
            "  add.u32 %n, %n, 1;\n  setp.lt.u32 %o, %n, 3;\n"
            "  @%o bra again;\n  st.global.u32 [%d], %x;\n");
  BOOST_TEST(results() == each_thread([](auto t) {
               return (100u + t) * 100 + (101 + t) * 10 + 102 + t;
             }));
}

BOOST_AUTO_TEST_CASE(an_address_may_be_of_the_round_before) {
  load_body("  mov.u32 %i, %t;\n  mul.wide.s32 %a, %i, 4;\n"
            "  add.s64 %b, %p, %a;\n  mov.u32 %n, 0;\n  mov.u32 %x, 0;\n"
            "again:\n  add.u32 %i, %i, 2;\n  ld.global.u32 %y, [%b];\n"
            "  mad.lo.u32 %x, %x, 10, %y;\n  mul.wide.s32 %a, %i, 4;\n"
            "  add.s64 %b, %p, %a;\n"
            "  add.u32 %n, %n, 1;\n  setp.lt.u32 %o, %n, 3;\n"
            "  @%o bra again;\n  st.global.u32 [%d], %x;\n");
  BOOST_TEST(results() == each_thread([](auto t) {
               return (100u + t) * 100 + (102 + t) * 10 + 104 + t;
             }));
}

BOOST_AUTO_TEST_CASE(an_address_may_be_incremented) {
  load_body("  mul.wide.s32 %a, %t, 4;\n  add.s64 %b, %p, %a;\n"
            "  mov.u32 %n, 0;\n  mov.u32 %x, 0;\n"
            "again:\n  ld.global.u32 %y, [%b];\n"
            "  mad.lo.u32 %x, %x, 10, %y;\n  add.s64 %b, %b, 8;\n"
            "  add.u32 %n, %n, 1;\n  setp.lt.u32 %o, %n, 3;\n"
            "  @%o bra again;\n  st.global.u32 [%d], %x;\n");
  BOOST_TEST(results() == each_thread([](auto t) {
               return (100u + t) * 100 + (102 + t) * 10 + 104 + t;
             }));
}

BOOST_AUTO_TEST_CASE(bases_may_differ_between_lanes) {
  load_body("  setp.lt.u32 %o, %t, 9;\n  mov.u64 %v, %p;\n"
            "  @%o add.u64 %v, %p, 40;\n"
            "  mul.wide.s32 %a, %t, 4;\n  add.s64 %b, %v, %a;\n"
            "  ld.global.u32 %x, [%b];\n  st.global.u32 [%d], %x;\n");
  BOOST_TEST(results() ==
             each_thread([](auto t) { return 100u + t + (t < 9 ? 10 : 0); }));
}

BOOST_AUTO_TEST_CASE(guards_vectors_and_other_sizes_work) {
  // Steps of 12 and of 0 bytes, a guard, vectors, and single bytes.
  load_body("  mov.u32 %x, 5;\n  mul.wide.s32 %a, %t, 12;\n"
            "  add.s64 %b, %p, %a;\n  setp.ge.u32 %o, %t, 3;\n"
            "  @%o ld.global.u32 %x, [%b];\n"
            "  mul.wide.u32 %a, %t, 0;\n  add.s64 %b, %p, %a;\n"
            "  ld.global.u32 %y, [%b+4];\n  add.u32 %x, %x, %y;\n"
            "  mul.wide.u32 %a, %t, 16;\n  add.s64 %b, %p, %a;\n"
            "  ld.global.v4.u32 {%y, %z, %w, %i}, [%b];\n"
            "  add.u32 %x, %x, %i;\n"
            "  mul.wide.u32 %a, %t, 8;\n  add.s64 %b, %p, %a;\n"
            "  st.global.v2.u32 [%b], {%x, %y};\n"
            "  ld.global.v2.u32 {%z, %w}, [%b];\n"
            "  sub.u32 %w, %w, %y;\n  add.u32 %x, %z, %w;\n"
            "  mul.wide.u32 %a, %t, 1;\n  add.s64 %b, %q, %a;\n"
            "  st.global.u8 [%b+128], %x;\n  ld.global.u8 %z, [%b+128];\n"
            "  and.b32 %w, %x, 255;\n  sub.u32 %z, %z, %w;\n"
            "  add.u32 %x, %x, %z;\n  st.global.u32 [%d], %x;\n");
  BOOST_TEST(results() == each_thread([](auto t) {
               return (t >= 3 ? 100u + 3 * t : 5) + 101 + 103 + 4 * t;
             }));
}

BOOST_AUTO_TEST_CASE(a_misaligned_access_is_reported) {
  const std::string body =
      "  mul.wide.s32 %a, %t, 4;\n  add.s64 %b, %p, %a;\n"
      "  ld.global.u32 %x, [%b];\n  st.global.u32 [%d], %x;\n";
  load_body(body);
  BOOST_TEST(results() == each_thread([](auto t) { return 100u + t; }));
  (void)results(2);
  BOOST_TEST(code == CUDA_ERROR_MISALIGNED_ADDRESS);
}

BOOST_AUTO_TEST_CASE(an_access_beyond_memory_is_reported) {
  // The last lane is beyond the memory.
  load_body("  mul.wide.s32 %a, %t, 4;\n  add.s64 %b, %p, %a;\n"
            "  ld.global.u32 %x, [%b];\n  st.global.u32 [%d], %x;\n");
  (void)results(static_cast<std::int64_t>(2 * granule_bytes) - 31 * 4);
  BOOST_TEST(code == CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
