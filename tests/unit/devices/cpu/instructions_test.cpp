// Results of single instructions, compared with the host's arithmetic and the
// special cases of the PTX ISA.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace vgpu::test {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

template <class T>
std::string ptx_type() {
  if constexpr (sizeof(T) == 2)
    return "b16";
  else if constexpr (sizeof(T) == 4)
    return "b32";
  else
    return "b64";
}

/// Runs `code` for each row of operands. The code reads %a, %b and %c and
/// writes %d.
struct instructions : device_fixture {
  template <class D, class A, class B = A, class C = B>
  std::vector<D> apply(const std::string& code, std::vector<A> a,
                       std::vector<B> b = {}, std::vector<C> c = {}) {
    auto n = a.size();
    b.resize(n);
    c.resize(n);
    auto load_one = [](const std::string& reg, const std::string& type,
                       int param, std::size_t size) {
      auto p = std::to_string(param);
      return "  ld.param.u64 %p, [k_" + p + "];\n  mad.wide.u32 %p, %i, " +
             std::to_string(size) + ", %p;\n  ld.global." + type + " " + reg +
             ", [%p];\n";
    };
    auto text = ".version 9.0\n.target sm_90\n.address_size 64\n"
                ".visible .entry k(.param .u64 k_0, .param .u64 k_1, "
                ".param .u64 k_2, .param .u64 k_3, .param .u32 k_4) {\n"
                "  .reg .u32 %i, %n, %t;\n  .reg .u64 %p;\n"
                "  .reg .pred %out, %q, %r;\n  .reg ." +
                ptx_type<A>() + " %a;\n  .reg ." + ptx_type<B>() +
                " %b;\n  .reg ." + ptx_type<C>() + " %c;\n  .reg ." +
                ptx_type<D>() +
                " %d;\n  mov.u32 %i, %ctaid.x;\n"
                "  mov.u32 %t, %tid.x;\n  mad.lo.u32 %i, %i, 32, %t;\n"
                "  ld.param.u32 %n, [k_4];\n"
                "  setp.ge.u32 %out, %i, %n;\n  @%out exit;\n" +
                load_one("%a", ptx_type<A>(), 0, sizeof(A)) +
                load_one("%b", ptx_type<B>(), 1, sizeof(B)) +
                load_one("%c", ptx_type<C>(), 2, sizeof(C)) + code +
                "\n  ld.param.u64 %p, [k_3];\n  mad.wide.u32 %p, %i, " +
                std::to_string(sizeof(D)) + ", %p;\n  st.global." +
                ptx_type<D>() + " [%p], %d;\n  ret;\n}\n";
    load_ptx(text);
    auto out = memory(n * sizeof(D));
    auto code_ok = run("k", {u32(n / 32 + 1)}, {32},
                       arguments{upload(a), upload(b), upload(c), out, u32(n)});
    BOOST_REQUIRE_EQUAL(code_ok, CUDA_SUCCESS);
    return download<D>(out, n);
  }
};

u32 bits(float x) {
  return std::bit_cast<u32>(x);
}
u64 bits(double x) {
  return std::bit_cast<u64>(x);
}

const auto inf = std::numeric_limits<float>::infinity();
const auto nan = std::numeric_limits<float>::quiet_NaN();
const auto tiny = std::numeric_limits<float>::denorm_min();

std::vector<float> floats() {
  auto out = std::vector<float>{
      0.0f,   -0.0f,       1.0f,     -1.0f,    0.5f,   1.5f,  2.5f,   -2.5f,
      0.1f,   3.3333333f,  inf,      -inf,     nan,    tiny,  -tiny,  1e38f,
      -3e38f, 1e-38f,      2.9e9f,   -2.9e9f,  4.3e9f, 1e19f, -1e19f, 255.5f,
      -0.7f,  16777217.0f, 65519.0f, 65520.0f, 6e-8f};
  auto x = 12345u;
  for (auto i = 0; i < 100; ++i) {
    x = x * 1664525u + 1013904223u;
    out.push_back(std::bit_cast<float>(x));
  }
  return out;
}

/// Makes every pair of the special values, and pairs of neighbours of the
/// others.
template <class T>
void pairs(const std::vector<T>& from, std::vector<T>& a, std::vector<T>& b) {
  for (auto i = 0u; i < from.size(); ++i)
    for (auto j = 0u; j < 30 && j < from.size(); ++j) {
      a.push_back(from[i]);
      b.push_back(from[j]);
    }
}

u32 canonical(float x) {
  return std::isnan(x) ? 0x7fffffffu : bits(x);
}

/// Returns a value that the host computes with a rounding mode.
template <class F>
auto rounded(int mode, F f) {
  std::fesetround(mode);
  auto x = f();
  std::fesetround(FE_TONEAREST);
  return x;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(instructions_of_ptx, instructions)

BOOST_AUTO_TEST_CASE(float_arithmetic_rounds_by_its_mode) {
  auto a = std::vector<float>{};
  auto b = std::vector<float>{};
  pairs(floats(), a, b);
  struct mode {
    const char* name;
    int host;
  };
  for (auto m : {mode{"rn", FE_TONEAREST}, mode{"rz", FE_TOWARDZERO},
                 mode{"rm", FE_DOWNWARD}, mode{"rp", FE_UPWARD}}) {
    auto check = [&](const std::string& name, auto f) {
      auto got = apply<u32>(name + "." + m.name + ".f32 %d, %a, %b;", a, b);
      for (auto i = 0u; i < a.size(); ++i) {
        volatile float x = a[i];
        volatile float y = b[i];
        auto want = rounded(m.host, [&] {
          volatile float r = f(x, y);
          return float(r);
        });
        BOOST_REQUIRE_MESSAGE(got[i] == canonical(want),
                              name << "." << m.name << " " << a[i] << " "
                                   << b[i] << ": " << std::hex << got[i]
                                   << " not " << canonical(want));
      }
    };
    check("add", [](float x, float y) { return x + y; });
    check("sub", [](float x, float y) { return x - y; });
    check("mul", [](float x, float y) { return x * y; });
    check("div", [](float x, float y) { return x / y; });
  }
}

BOOST_AUTO_TEST_CASE(fused_multiply_add_rounds_once) {
  auto a = std::vector<float>{};
  auto b = std::vector<float>{};
  pairs(floats(), a, b);
  auto c = std::vector<float>(b.rbegin(), b.rend());
  auto got = apply<u32>("fma.rn.f32 %d, %a, %b, %c;", a, b, c);
  for (auto i = 0u; i < a.size(); ++i)
    BOOST_REQUIRE_EQUAL(got[i], canonical(std::fma(a[i], b[i], c[i])));
  auto sat = apply<float>("fma.rn.sat.f32 %d, %a, %b, %c;", a, b, c);
  for (auto i = 0u; i < a.size(); ++i) {
    auto x = std::fma(a[i], b[i], c[i]);
    BOOST_REQUIRE_EQUAL(sat[i], x > 0 ? std::min(x, 1.0f) : 0.0f);
  }
}

BOOST_AUTO_TEST_CASE(subnormals_are_flushed_with_ftz) {
  auto a = std::vector<float>{tiny, -tiny, 1e-30f, 1.0f};
  auto b = std::vector<float>{1.0f, 0.0f, 1e-10f, 2.0f};
  auto got = apply<u32>("mul.rn.ftz.f32 %d, %a, %b;", a, b);
  BOOST_TEST(got[0] == 0u);
  BOOST_TEST(got[1] == 0x80000000u);
  BOOST_TEST(got[2] == 0u);
  BOOST_TEST(got[3] == bits(2.0f));
  auto kept = apply<u32>("mul.rn.f32 %d, %a, %b;", a, b);
  BOOST_TEST(kept[0] == 1u);
}

BOOST_AUTO_TEST_CASE(min_and_max_prefer_numbers) {
  auto a = std::vector<float>{nan, 1.0f, nan, 0.0f, -0.0f, 3.0f};
  auto b = std::vector<float>{2.0f, nan, nan, -0.0f, 0.0f, -4.0f};
  auto low = apply<u32>("min.f32 %d, %a, %b;", a, b);
  BOOST_TEST(low[0] == bits(2.0f));
  BOOST_TEST(low[1] == bits(1.0f));
  BOOST_TEST(low[2] == 0x7fffffffu);
  BOOST_TEST(low[3] == 0x80000000u);
  BOOST_TEST(low[4] == 0x80000000u);
  BOOST_TEST(low[5] == bits(-4.0f));
  auto high = apply<u32>("max.NaN.f32 %d, %a, %b;", a, b);
  BOOST_TEST(high[0] == 0x7fffffffu);
  BOOST_TEST(high[3] == 0u);
  BOOST_TEST(high[5] == bits(3.0f));
}

BOOST_AUTO_TEST_CASE(float_to_integer_rounds_and_clamps) {
  auto a = floats();
  auto clamp32 = [](double x) {
    return std::isnan(x)        ? 0
           : x >= 2147483647.0  ? 2147483647
           : x <= -2147483648.0 ? s32(-2147483647 - 1)
                                : s32(x);
  };
  auto rzi = apply<s32>("cvt.rzi.s32.f32 %d, %a;", a);
  auto rni = apply<s32>("cvt.rni.s32.f32 %d, %a;", a);
  auto rmi = apply<s32>("cvt.rmi.s32.f32 %d, %a;", a);
  auto rpi = apply<s32>("cvt.rpi.s32.f32 %d, %a;", a);
  auto u = apply<u32>("cvt.rzi.u32.f32 %d, %a;", a);
  auto l = apply<s64>("cvt.rzi.s64.f32 %d, %a;", a);
  for (auto i = 0u; i < a.size(); ++i) {
    auto x = double{a[i]};
    BOOST_REQUIRE_EQUAL(rzi[i], clamp32(std::trunc(x)));
    BOOST_REQUIRE_EQUAL(rni[i], clamp32(std::nearbyint(x)));
    BOOST_REQUIRE_EQUAL(rmi[i], clamp32(std::floor(x)));
    BOOST_REQUIRE_EQUAL(rpi[i], clamp32(std::ceil(x)));
    auto wide = std::isnan(x) || x < 0 ? 0u : x >= 4294967296.0 ? ~0u : u32(x);
    BOOST_REQUIRE_EQUAL(u[i], wide);
    auto min64 = std::numeric_limits<s64>::min();
    auto max64 = std::numeric_limits<s64>::max();
    BOOST_REQUIRE_EQUAL(l[i], std::isnan(x) ? min64
                              : x >= 0x1p63 ? max64
                              : x < -0x1p63 ? min64
                                            : s64(x));
  }
}

BOOST_AUTO_TEST_CASE(integers_to_floats) {
  auto a = std::vector<s64>{0,
                            1,
                            -1,
                            16777217,
                            -16777219,
                            1ll << 53,
                            (1ll << 53) + 1,
                            INT64_MAX,
                            INT64_MIN,
                            123456789123456789};
  auto f = apply<float>("cvt.rn.f32.s64 %d, %a;", a);
  auto up = apply<float>("cvt.rp.f32.s64 %d, %a;", a);
  auto d = apply<double>("cvt.rz.f64.u64 %d, %a;", a);
  for (auto i = 0u; i < a.size(); ++i) {
    BOOST_TEST(f[i] == float(a[i]));
    volatile auto x = a[i];
    BOOST_TEST(up[i] == rounded(FE_UPWARD, [&] {
                 volatile float r = float(x);
                 return float(r);
               }));
    BOOST_TEST(d[i] == rounded(FE_TOWARDZERO, [&] {
                 volatile double r = double(u64(x));
                 return double(r);
               }));
  }
}

BOOST_AUTO_TEST_CASE(half_precision) {
  auto a = floats();
  auto back = apply<u32>("{ .reg .b16 %h; cvt.rn.f16.f32 %h, %a; "
                         "cvt.f32.f16 %d, %h; }",
                         a);
  for (auto i = 0u; i < a.size(); ++i) {
    auto want = a[i];
    if (!std::isnan(want)) {
      // A half has eleven bits, a smallest step of 2^-24, and is infinite from
      // 65520 on.
      auto e = 0;
      std::frexp(want, &e);
      auto step = std::ldexp(1.0, std::max(e - 11, -24));
      want = float(std::nearbyint(double(want) / step) * step);
      if (std::fabs(a[i]) >= 65520.0f)
        want = std::copysign(inf, want);
    }
    BOOST_REQUIRE_MESSAGE(back[i] == canonical(want),
                          a[i] << ": " << std::bit_cast<float>(back[i])
                               << " not " << want);
  }
  auto sum = apply<u32>("{ .reg .b16 %x, %y; cvt.rn.f16x2.f32 %d, %a, %b; "
                        "add.f16x2 %d, %d, %d; }",
                        std::vector<float>{1.5f}, std::vector<float>{-0.25f});
  BOOST_TEST(sum[0] == 0x4200b800u);
}

BOOST_AUTO_TEST_CASE(integer_arithmetic) {
  auto a = std::vector<u32>{0, 1, 2, 7, 0x7fffffff, 0x80000000, ~0u, 12345};
  auto as = std::vector<u32>{};
  auto bs = std::vector<u32>{};
  pairs(a, as, bs);
  auto check = [&](const std::string& code, auto f) {
    auto got = apply<u32>(code + " %d, %a, %b;", as, bs);
    for (auto i = 0u; i < as.size(); ++i)
      BOOST_REQUIRE_MESSAGE(got[i] == u32(f(as[i], bs[i])),
                            code << " " << as[i] << " " << bs[i] << ": "
                                 << got[i] << " not " << u32(f(as[i], bs[i])));
  };
  check("mul.hi.s32",
        [](u32 x, u32 y) { return (s64(s32(x)) * s64(s32(y))) >> 32; });
  check("mul.hi.u32", [](u32 x, u32 y) { return (u64(x) * y) >> 32; });
  check("shl.b32", [](u32 x, u32 y) { return y > 31 ? 0 : x << y; });
  check("shr.u32", [](u32 x, u32 y) { return y > 31 ? 0 : x >> y; });
  check("shr.s32", [](u32 x, u32 y) { return s32(x) >> (y > 31 ? 31 : y); });
  check("min.s32", [](u32 x, u32 y) { return std::min(s32(x), s32(y)); });
  check("max.u32", [](u32 x, u32 y) { return std::max(x, y); });
  check("add.sat.s32", [](u32 x, u32 y) {
    return std::clamp<s64>(s64(s32(x)) + s32(y), INT32_MIN, INT32_MAX);
  });
  check("div.u32", [](u32 x, u32 y) { return y == 0 ? ~0u : x / y; });
  check("rem.s32", [](u32 x, u32 y) {
    return y == 0 ? s64(x) : s64(s32(x)) % s64(s32(y));
  });
  check("mul24.lo.s32", [](u32 x, u32 y) {
    return s64(s32(x << 8) >> 8) * (s32(y << 8) >> 8);
  });
}

BOOST_AUTO_TEST_CASE(bit_fields) {
  auto a = std::vector<u32>{0x12345678, 0xdeadbeef, 0x80000000, 0xffffffff};
  auto n = std::vector<u32>(4);
  auto one = [&](const std::string& code) { return apply<u32>(code, a)[1]; };
  BOOST_TEST(one("bfe.u32 %d, %a, 8, 12;") == 0xdbeu);
  BOOST_TEST(one("bfe.s32 %d, %a, 8, 12;") == 0xfffffdbeu);
  BOOST_TEST(one("bfe.s32 %d, %a, 28, 12;") == 0xfffffffdu);
  BOOST_TEST(one("bfe.u32 %d, %a, 0, 0;") == 0u);
  BOOST_TEST(one("bfi.b32 %d, 5, %a, 4, 8;") == 0xdeadb05fu);
  BOOST_TEST(one("popc.b32 %d, %a;") == 24u);
  BOOST_TEST(one("clz.b32 %d, %a;") == 0u);
  BOOST_TEST(one("brev.b32 %d, %a;") == 0xf77db57bu);
  BOOST_TEST(one("bfind.u32 %d, %a;") == 31u);
  BOOST_TEST(one("bfind.s32 %d, %a;") == 29u);
  BOOST_TEST(one("bfind.shiftamt.u32 %d, %a;") == 0u);
  BOOST_TEST(one("prmt.b32 %d, %a, 0x11223344, 0x5017;") == 0x33efbe11u);
  BOOST_TEST(one("prmt.b32 %d, %a, 0, 0x8888;") == 0xffffffffu);
  BOOST_TEST(one("lop3.b32 %d, %a, 0x0f0f0f0f, 0x00ff00ff, 0xe8;") ==
             ((0xdeadbeefu & 0x0f0f0f0f) | (0xdeadbeefu & 0x00ff00ff) |
              (0x0f0f0f0fu & 0x00ff00ff)));
  BOOST_TEST(one("shf.l.wrap.b32 %d, %a, 0x1, 36;") == 0x1du);
  BOOST_TEST(one("shf.r.clamp.b32 %d, %a, 0x1, 36;") == 1u);
  BOOST_TEST(one("sad.u32 %d, %a, 0xdeadbef5, 100;") == 106u);
  BOOST_TEST(one("dp4a.u32.u32 %d, %a, 0x01010101, 1;") ==
             0xdeu + 0xad + 0xbe + 0xef + 1);
  BOOST_TEST(one("vabsdiff4.u32.u32.u32.add %d, %a, 0, 1;") ==
             0xdeu + 0xad + 0xbe + 0xef + 1);
  BOOST_TEST(one("slct.u32.s32 %d, 1, 2, %a;") == 2u);
  BOOST_TEST(one("set.lt.u32.s32 %d, %a, 0;") == 0xffffffffu);
  BOOST_TEST(one("fns.b32 %d, %a, 0, 3;") == 2u);
  BOOST_TEST(one("bmsk.clamp.b32 %d, 4, 8;") == 0xff0u);
  BOOST_TEST(one("szext.wrap.s32 %d, %a, 8;") == 0xffffffefu);
}

BOOST_AUTO_TEST_CASE(carries_go_from_word_to_word) {
  auto a = std::vector<u64>{~0ull, 0x00000001ffffffffull, 5};
  auto b = std::vector<u64>{1, 0x0000000200000003ull, 7};
  auto split = "{ .reg .b32 %al, %ah, %bl, %bh; mov.b64 {%al, %ah}, %a; "
               "mov.b64 {%bl, %bh}, %b; ";
  auto join = " mov.b64 %d, {%al, %ah}; }";
  auto sum =
      apply<u64>(std::string{split} +
                     "add.cc.u32 %al, %al, %bl; addc.u32 %ah, %ah, %bh;" + join,
                 a, b);
  auto difference =
      apply<u64>(std::string{split} +
                     "sub.cc.u32 %al, %al, %bl; subc.u32 %ah, %ah, %bh;" + join,
                 a, b);
  auto product =
      apply<u64>(std::string{split} +
                     "mul.lo.u32 %al, %al, %bl; mad.lo.cc.u32 %al, %bl, 3, "
                     "%al; madc.hi.u32 %ah, %bl, 3, %ah;" +
                     join,
                 a, b);
  for (auto i = 0u; i < a.size(); ++i) {
    BOOST_TEST(sum[i] == a[i] + b[i]);
    BOOST_TEST(difference[i] == a[i] - b[i]);
    auto low = u64(u32(u32(a[i]) * u32(b[i])));
    BOOST_TEST(product[i] == (a[i] >> 32 << 32) + low + u64(u32(b[i])) * 3);
  }
}

BOOST_AUTO_TEST_CASE(comparisons_and_predicates) {
  auto a = std::vector<float>{1, 2, nan, inf};
  auto b = std::vector<float>{2, 2, 2, inf};
  auto test = [&](const std::string& code) {
    auto got = apply<u32>(code + " selp.u32 %d, 1, 0, %q;", a, b);
    return got[0] | got[1] << 1 | got[2] << 2 | got[3] << 3;
  };
  BOOST_TEST(test("setp.lt.f32 %q, %a, %b;") == 0b0001u);
  BOOST_TEST(test("setp.ne.f32 %q, %a, %b;") == 0b0001u);
  BOOST_TEST(test("setp.neu.f32 %q, %a, %b;") == 0b0101u);
  BOOST_TEST(test("setp.geu.f32 %q, %a, %b;") == 0b1110u);
  BOOST_TEST(test("setp.equ.f32 %q, %a, %b;") == 0b1110u);
  BOOST_TEST(test("setp.nan.f32 %q, %a, %b;") == 0b0100u);
  BOOST_TEST(test("setp.num.f32 %q, %a, %b;") == 0b1011u);
  BOOST_TEST(test("setp.eq.f32 %r, %a, %b; "
                  "setp.lt.or.f32 %q|%r, %a, %b, %r;") == 0b1011u);
  BOOST_TEST(test("setp.eq.f32 %r, %a, %b; "
                  "setp.lt.and.f32 %r|%q, %a, %b, !%r;") == 0b0100u);
  BOOST_TEST(test("testp.infinite.f32 %q, %a;") == 0b1000u);
  BOOST_TEST(test("setp.lt.f32 %q, %a, %b; @!%q setp.eq.f32 %q, %a, %b;") ==
             0b1011u);
}

BOOST_AUTO_TEST_CASE(approximate_functions_are_near_enough) {
  auto a = std::vector<float>{};
  for (auto i = 1; i < 200; ++i)
    a.push_back(float(i) * 0.05f - 3.0f);
  auto near = [&](const std::string& name, double bound, auto f) {
    auto got = apply<float>(name + " %d, %a;", a);
    for (auto i = 0u; i < a.size(); ++i) {
      auto want = double(f(double(a[i])));
      if (std::isfinite(want))
        BOOST_REQUIRE_MESSAGE(std::fabs(double(got[i]) - want) <=
                                  bound * std::max(1.0, std::fabs(want)),
                              name << " " << a[i] << ": " << got[i] << " not "
                                   << want);
    }
  };
  near("ex2.approx.ftz.f32", 3e-7, [](double x) { return std::exp2(x); });
  near("lg2.approx.f32", 3e-7, [](double x) { return std::log2(x); });
  near("sin.approx.f32", 5e-7, [](double x) { return std::sin(x); });
  near("cos.approx.f32", 5e-7, [](double x) { return std::cos(x); });
  near("rsqrt.approx.f32", 2e-7, [](double x) { return 1 / std::sqrt(x); });
  near("tanh.approx.f32", 1e-4, [](double x) { return std::tanh(x); });
}

BOOST_AUTO_TEST_CASE(doubles) {
  auto a = std::vector<double>{1.0, 2.0, -0.5, 1e300, 0.1};
  auto b = std::vector<double>{3.0, 7.0, 0.25, 1e10, 0.2};
  auto up = apply<u64>("div.rp.f64 %d, %a, %b;", a, b);
  auto root = apply<u64>("sqrt.rn.f64 %d, %b;", a, b);
  for (auto i = 0u; i < a.size(); ++i) {
    volatile auto x = a[i];
    volatile auto y = b[i];
    BOOST_TEST(up[i] == bits(rounded(FE_UPWARD, [&] {
                 volatile double r = x / y;
                 return double(r);
               })));
    BOOST_TEST(root[i] == bits(std::sqrt(b[i])));
  }
}

// PTX ISA, "Vectors": 32 bytes at once.
BOOST_AUTO_TEST_CASE(vectors_of_256_bits) {
  load_ptx(R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to) {
  .reg .b32 %r<8>; .reg .b64 %a<2>; .reg .b64 %d<4>;
  ld.param.u64 %a0, [from];
  ld.param.u64 %a1, [to];
  ld.global.nc.v8.f32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%a0+32];
  st.global.v8.b32 [%a1], {%r7, %r6, %r5, %r4, %r3, %r2, %r1, %r0};
  ld.global.v4.b64 {%d0, %d1, %d2, %d3}, [%a0];
  st.global.v4.b64 [%a1+32], {%d3, %d2, %d1, %d0};
  ret;
})");
  auto from = std::vector<u32>{};
  for (auto i = 0u; i < 16; ++i)
    from.push_back(i);
  auto to = memory(64);
  BOOST_REQUIRE_EQUAL(run("k", {1}, {1}, arguments{upload(from), to}),
                      CUDA_SUCCESS);
  auto expected =
      std::vector<u32>{15, 14, 13, 12, 11, 10, 9, 8, 6, 7, 4, 5, 2, 3, 0, 1};
  BOOST_TEST(download<u32>(to, 16) == expected,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
