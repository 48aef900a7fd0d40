// Textures compared with the host's implementation of "Texture Fetching" in the
// CUDA C++ Programming Guide, for every address mode, filter and kind of
// number.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include "devices/interface/texture_unit.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>

namespace vgpu::test {

namespace {

constexpr auto look_text = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry look(.param .u64 tex, .param .u64 at, .param .u64 out) {
.reg .u64 %t, %a, %o;
.reg .u32 %i, %n, %l;
.reg .f32 %x, %y, %z, %r, %g, %b, %w;
mov.u32 %i, %ctaid.x;
mov.u32 %n, %ntid.x;
mov.u32 %l, %tid.x;
mad.lo.u32 %i, %i, %n, %l;
ld.param.u64 %t, [tex];
ld.param.u64 %a, [at];
ld.param.u64 %o, [out];
mad.wide.u32 %a, %i, 12, %a;
mad.wide.u32 %o, %i, 16, %o;
ld.global.f32 %x, [%a];
ld.global.f32 %y, [%a+4];
ld.global.f32 %z, [%a+8];
LOOK
st.global.f32 [%o], %r;
st.global.f32 [%o+4], %g;
st.global.f32 [%o+8], %b;
st.global.f32 [%o+12], %w;
ret;
}
)";

std::string module_of(const std::string& look) {
  auto out = std::string{look_text};
  out.replace(out.find("LOOK"), 4, look);
  return out;
}

struct place {
  float x, y, z;
};

constexpr auto wrap = std::uint32_t{CU_TR_ADDRESS_MODE_WRAP};
constexpr auto clamp = std::uint32_t{CU_TR_ADDRESS_MODE_CLAMP};
constexpr auto mirror = std::uint32_t{CU_TR_ADDRESS_MODE_MIRROR};
constexpr auto border = std::uint32_t{CU_TR_ADDRESS_MODE_BORDER};

/// Returns the index that replaces one outside the texture, as the guide
/// defines it. -1 is the border.
int replaced(int i, int n, std::uint32_t mode, bool normalized) {
  if (i >= 0 && i < n)
    return i;
  if (mode == border)
    return -1;
  if (mode == clamp || !normalized)
    return i < 0 ? 0 : n - 1;
  while (i < 0)
    i += 2 * n;
  i %= 2 * n;
  if (mode == wrap)
    return i % n;
  return i < n ? i : 2 * n - 1 - i;
}

struct texture_fixture : device_fixture {
  device::texture_unit& unit = dynamic_cast<device::texture_unit&>(*dev);
  std::mt19937 random{1234};
  std::uint64_t arrays = 0;
  std::uint64_t textures = 0;

  std::uint64_t array(const array_shape& shape,
                      const std::vector<std::byte>& bytes) {
    auto id = array_id{++arrays};
    BOOST_REQUIRE(unit.create_array(id, shape, upload(bytes)).ok());
    return id.value;
  }

  std::uint64_t texture(const texture_spec& what) {
    auto id = texture_id{++textures};
    auto got = unit.create_texture(id, what);
    BOOST_REQUIRE(got.ok());
    return *got;
  }

  std::vector<std::byte> noise(std::size_t bytes) {
    auto out = std::vector<std::byte>(bytes);
    for (auto& x : out)
      x = std::byte(random() & 255);
    return out;
  }

  std::vector<std::byte> reals(std::size_t count) {
    auto out = std::vector<std::byte>(count * 4);
    for (auto i = std::size_t{0}; i < count; ++i) {
      auto x = std::uniform_real_distribution<float>{-1, 1}(random);
      std::memcpy(&out[4 * i], &x, 4);
    }
    return out;
  }

  std::vector<place> places(std::size_t count, float low, float high) {
    auto out = std::vector<place>(count);
    auto one = std::uniform_real_distribution<float>{low, high};
    for (auto& p : out)
      p = {one(random), one(random), one(random)};
    return out;
  }

  std::vector<float> look(const std::string& how, std::uint64_t tex,
                          const std::vector<place>& at) {
    load_ptx(module_of(how));
    auto in = upload(at);
    auto out = memory(at.size() * 16);
    BOOST_REQUIRE_EQUAL(run("look", {std::uint32_t(at.size() / 64)}, {64},
                            arguments{tex, in, out}),
                        CUDA_SUCCESS);
    return download<float>(out, at.size() * 4);
  }
};

constexpr auto tex_2d = "tex.2d.v4.f32.f32 {%r, %g, %b, %w}, [%t, {%x, %y}];";
constexpr auto tex_3d =
    "tex.3d.v4.f32.f32 {%r, %g, %b, %w}, [%t, {%x, %y, %z, %z}];";

/// The elements between which a coordinate lies, with 8 bits of fraction.
struct weight {
  int first;
  double part;
};
weight weight_of(double x) {
  auto steps = std::floor((x - 0.5) * 256 + 0.5);
  auto below = std::floor(steps / 256);
  return {int(below), steps / 256 - below};
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(textures, texture_fixture)

BOOST_AUTO_TEST_CASE(every_address_mode_and_filter_in_two_dimensions) {
  constexpr auto w = 13;
  constexpr auto h = 7;
  auto bytes = reals(w * h);
  auto a = array({w, h, 0, CU_AD_FORMAT_FLOAT, 1, 0, 0}, bytes);
  auto element = [&](int x, int y) {
    float out;
    std::memcpy(&out, &bytes[std::size_t(4 * (y * w + x))], 4);
    return double{out};
  };
  for (auto mode : {wrap, clamp, mirror, border})
    for (auto filter : {CU_TR_FILTER_MODE_POINT, CU_TR_FILTER_MODE_LINEAR})
      for (auto normalized : {false, true}) {
        texture_spec x;
        x.array = a;
        x.address_x = x.address_y = mode;
        x.filter = filter;
        x.flags = normalized ? CU_TRSF_NORMALIZED_COORDINATES : 0;
        x.border_r = std::bit_cast<std::uint32_t>(0.375f);
        auto at = normalized ? places(512, -2.5f, 3.5f) : places(512, -9, 21);
        auto got = look(tex_2d, texture(x), at);
        auto taken = [&](int i, int j) {
          i = replaced(i, w, mode, normalized);
          j = replaced(j, h, mode, normalized);
          return i < 0 || j < 0 ? 0.375 : element(i, j);
        };
        for (auto i = std::size_t{0}; i < at.size(); ++i) {
          auto u = normalized ? double{at[i].x} * w : double{at[i].x};
          auto v = normalized ? double{at[i].y} * h : double{at[i].y};
          auto want = taken(int(std::floor(u)), int(std::floor(v)));
          if (filter == CU_TR_FILTER_MODE_LINEAR) {
            auto [p, s] = weight_of(u);
            auto [q, t] = weight_of(v);
            want = (1 - s) * (1 - t) * taken(p, q) +
                   s * (1 - t) * taken(p + 1, q) +
                   (1 - s) * t * taken(p, q + 1) + s * t * taken(p + 1, q + 1);
          }
          BOOST_REQUIRE_MESSAGE(std::abs(got[4 * i] - want) < 1e-6,
                                "mode " << mode << " filter " << filter
                                        << " at " << at[i].x << ", " << at[i].y
                                        << ": " << got[4 * i] << ", not "
                                        << want);
        }
      }
}

BOOST_AUTO_TEST_CASE(volumes_are_filtered_in_three_dimensions) {
  constexpr auto n = 5;
  auto bytes = reals(n * n * n);
  auto a = array({n, n, n, CU_AD_FORMAT_FLOAT, 1, 0, 0}, bytes);
  texture_spec x;
  x.array = a;
  x.address_x = wrap;
  x.address_y = clamp;
  x.address_z = mirror;
  x.filter = CU_TR_FILTER_MODE_LINEAR;
  x.flags = CU_TRSF_NORMALIZED_COORDINATES;
  auto at = places(512, -1.5f, 2.5f);
  auto got = look(tex_3d, texture(x), at);
  auto taken = [&](int i, int j, int k) {
    i = replaced(i, n, wrap, true);
    j = replaced(j, n, clamp, true);
    k = replaced(k, n, mirror, true);
    float out;
    std::memcpy(&out, &bytes[std::size_t(4 * ((k * n + j) * n + i))], 4);
    return double{out};
  };
  for (auto i = std::size_t{0}; i < at.size(); ++i) {
    auto [p, s] = weight_of(double{at[i].x} * n);
    auto [q, t] = weight_of(double{at[i].y} * n);
    auto [r, u] = weight_of(double{at[i].z} * n);
    auto want = 0.0;
    for (auto c = 0; c < 8; ++c)
      want += ((c & 1) != 0 ? s : 1 - s) * ((c & 2) != 0 ? t : 1 - t) *
              ((c & 4) != 0 ? u : 1 - u) *
              taken(p + (c & 1), q + (c >> 1 & 1), r + (c >> 2));
    BOOST_REQUIRE_SMALL(got[4 * i] - want, 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(integers_become_numbers_from_minus_one_to_one) {
  constexpr auto w = 16;
  constexpr auto h = 4;
  struct kind {
    std::uint32_t format;
    unsigned bytes;
    std::function<double(const std::byte*)> value;
  };
  auto read = [](auto type, double most) {
    return [most, type](const std::byte* p) {
      auto x = type;
      std::memcpy(&x, p, sizeof x);
      return std::max(double(x) / most, -1.0);
    };
  };
  const kind kinds[] = {
      {CU_AD_FORMAT_UNSIGNED_INT8, 1, read(std::uint8_t{}, 255)},
      {CU_AD_FORMAT_SIGNED_INT8, 1, read(std::int8_t{}, 127)},
      {CU_AD_FORMAT_UNSIGNED_INT16, 2, read(std::uint16_t{}, 65535)},
      {CU_AD_FORMAT_SIGNED_INT16, 2, read(std::int16_t{}, 32767)},
  };
  for (auto& k : kinds) {
    auto bytes = noise(w * h * 4 * k.bytes);
    texture_spec x;
    x.array = array({w, h, 0, k.format, 4, 0, 0}, bytes);
    x.address_x = x.address_y = clamp;
    auto at = places(256, 0, w);
    auto got = look(tex_2d, texture(x), at);
    for (auto i = std::size_t{0}; i < at.size(); ++i) {
      auto u = std::min(int(at[i].x), w - 1);
      auto v = std::min(int(at[i].y), h - 1);
      for (auto c = 0; c < 4; ++c)
        BOOST_REQUIRE_EQUAL(
            got[4 * i + std::size_t(c)],
            float(k.value(&bytes[std::size_t((v * w + u) * 4 + c) * k.bytes])));
    }
  }
}

BOOST_AUTO_TEST_CASE(srgb_is_converted_except_alpha) {
  auto bytes = std::vector<std::byte>(256 * 4);
  for (auto i = 0; i < 1024; ++i)
    bytes[std::size_t(i)] = std::byte(i / 4);
  texture_spec x;
  x.array = array({256, 1, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0, 0}, bytes);
  x.address_x = x.address_y = clamp;
  x.flags = CU_TRSF_SRGB;
  auto at = std::vector<place>(256);
  for (auto i = 0; i < 256; ++i)
    at[std::size_t(i)] = {float(i) + 0.5f, 0.5f, 0};
  auto got = look(tex_2d, texture(x), at);
  for (auto i = std::size_t{0}; i < 256; ++i) {
    auto c = double(i) / 255;
    auto want = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    BOOST_CHECK_SMALL(got[4 * i] - want, 1e-6);
    BOOST_CHECK_SMALL(got[4 * i + 2] - want, 1e-6);
    BOOST_CHECK_SMALL(got[4 * i + 3] - c, 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(a_seamless_cubemap_has_no_edges) {
  // All faces agree at their edges on this value, which is the direction's
  // largest component.
  constexpr auto n = 64;
  auto bytes = std::vector<std::byte>(n * n * 6 * 4);
  for (auto i = 0; i < n * n * 6; ++i) {
    auto s = (2.0 * (i % n) + 1) / n - 1;
    auto t = (2.0 * (i / n % n) + 1) / n - 1;
    auto x = float(1 / std::sqrt(1 + s * s + t * t));
    std::memcpy(&bytes[std::size_t(4 * i)], &x, 4);
  }
  texture_spec x;
  x.array =
      array({n, n, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP, 0}, bytes);
  x.address_x = x.address_y = x.address_z = clamp;
  x.filter = CU_TR_FILTER_MODE_LINEAR;
  x.flags = CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SEAMLESS_CUBEMAP;
  auto at = places(1024, -1, 1);
  auto got = look("tex.cube.v4.f32.f32 {%r, %g, %b, %w}, "
                  "[%t, {%x, %y, %z, %z}];",
                  texture(x), at);
  for (auto i = std::size_t{0}; i < at.size(); ++i) {
    auto& p = at[i];
    auto longest =
        std::max({std::abs(p.x), std::abs(p.y), std::abs(p.z), 1e-6f});
    auto want = longest / std::sqrt(p.x * p.x + p.y * p.y + p.z * p.z + 1e-12f);
    BOOST_CHECK_SMALL(double(got[4 * i] - want), 0.02);
  }
}

BOOST_AUTO_TEST_CASE(a_view_shows_some_layers_in_another_format) {
  auto bytes = std::vector<std::byte>(4 * 4 * 4 * 4);
  for (auto i = 0; i < 64; ++i) {
    auto x = float(i);
    std::memcpy(&bytes[std::size_t(4 * i)], &x, 4);
  }
  texture_spec x;
  x.array =
      array({4, 4, 4, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_LAYERED, 0},
            bytes);
  x.view = 1;
  x.view_format = CU_RES_VIEW_FORMAT_FLOAT_1X32;
  x.view_width = x.view_height = 4;
  x.first_layer = 1;
  x.last_layer = 2;
  auto at = std::vector<place>(64, place{2.5f, 1.5f, 9});
  auto got =
      look("cvt.rzi.u32.f32 %l, %z;\n"
           "tex.a2d.v4.f32.f32 {%r, %g, %b, %w}, [%t, {%l, %x, %y, %y}];",
           texture(x), at);
  BOOST_CHECK_EQUAL(got[0], 2 * 16 + 6); // the view's last layer
}

BOOST_AUTO_TEST_CASE(an_object_may_get_another_value) {
  auto bytes = reals(16);
  auto id = array_id{array({4, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0, 0}, bytes)};
  texture_spec x;
  x.array = id.value;
  auto first = texture(x);
  auto second = texture(x);
  // The value is that of the device that the program used before.
  BOOST_CHECK(unit.name_texture(texture_id{first}, 77).ok());
  BOOST_CHECK(!unit.name_texture(texture_id{second}, 77).ok());
  auto at = std::vector<place>(64, place{1.5f, 1.5f, 0});
  float want;
  std::memcpy(&want, &bytes[20], 4);
  BOOST_CHECK_EQUAL(look(tex_2d, 77, at)[0], want);
  BOOST_CHECK_EQUAL(look(tex_2d, second, at)[0], want);
  BOOST_CHECK(unit.destroy_texture(texture_id{first}).ok());
  BOOST_CHECK(!unit.destroy_texture(texture_id{first}).ok());
  BOOST_CHECK(unit.destroy_array(id).ok());
  BOOST_CHECK(!unit.create_texture(texture_id{9}, x).ok());
}

BOOST_AUTO_TEST_CASE(an_unknown_object_reads_as_zeros) {
  auto got = look(tex_2d, 99, std::vector<place>(64));
  BOOST_CHECK(got == std::vector<float>(256));
}

BOOST_AUTO_TEST_CASE(integers_outside_read_the_borders_bits) {
  texture_spec x;
  x.array = array({4, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0, 0}, noise(64));
  x.address_x = x.address_y = border;
  x.border_r = std::bit_cast<std::uint32_t>(3.0f);
  auto at = std::vector<place>(64, place{-1, 1, 0});
  BOOST_CHECK_EQUAL(look(tex_2d, texture(x), at)[0], 3.0f);
  x.array = array({4, 4, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 0}, noise(16));
  x.flags = CU_TRSF_READ_AS_INTEGER;
  BOOST_CHECK_EQUAL(look(tex_2d, texture(x), at)[0], 0.0f);
}

BOOST_AUTO_TEST_CASE(a_texture_of_freed_memory_ends_the_kernel) {
  auto at = memory(granule_bytes);
  texture_spec x;
  x.resource = CU_RESOURCE_TYPE_PITCH2D;
  x.address = at;
  x.format = CU_AD_FORMAT_FLOAT;
  x.channels = 1;
  x.width = x.height = 4;
  x.pitch = 32;
  auto tex = texture(x);
  auto where = std::vector<place>(64, place{1.5f, 1.5f, 0});
  BOOST_CHECK_EQUAL(look(tex_2d, tex, where)[0], 0);
  BOOST_REQUIRE(dev->unmap(at, granule_bytes).ok());
  auto in = upload(where);
  auto out = memory(1024);
  BOOST_CHECK_EQUAL(run("look", {1}, {64}, arguments{tex, in, out}),
                    CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_CASE(a_store_outside_ends_the_kernel_in_mode_trap) {
  constexpr unsigned stored = CUDA_ARRAY3D_SURFACE_LDST;
  texture_spec x;
  x.surface = 1;
  x.array = array({4, 4, 0, CU_AD_FORMAT_FLOAT, 1, stored, 0}, reals(16));
  auto s = texture(x);
  auto in = upload(std::vector<place>(64, place{16, 0, 0}));
  auto out = memory(1024);
  for (auto mode : {"zero", "clamp", "trap"}) {
    load_ptx(module_of(std::string{"cvt.rzi.s32.f32 %l, %x;\nsust.b.2d.b32."} +
                       mode + " [%t, {%l, 0}], {%y};\n"));
    auto want = std::string_view{mode} == "trap" ? CUDA_ERROR_ILLEGAL_ADDRESS
                                                 : CUDA_SUCCESS;
    BOOST_CHECK_EQUAL(run("look", {1}, {64}, arguments{s, in, out}), want);
  }
}

BOOST_AUTO_TEST_CASE(a_part_of_an_element_is_not_accessed) {
  constexpr unsigned stored = CUDA_ARRAY3D_SURFACE_LDST;
  texture_spec x;
  x.surface = 1;
  x.array = array({4, 4, 0, CU_AD_FORMAT_FLOAT, 1, stored, 0}, reals(16));
  auto s = texture(x);
  load_ptx(module_of("sust.b.2d.b32.trap [%t, {2, 0}], {%y};\n"));
  auto in = upload(std::vector<place>(64));
  BOOST_CHECK_EQUAL(run("look", {1}, {64}, arguments{s, in, memory(1024)}),
                    CUDA_ERROR_MISALIGNED_ADDRESS);
}

BOOST_AUTO_TEST_CASE(contradictory_objects_are_refused) {
  texture_spec x;
  x.array = 1234;
  BOOST_CHECK(!unit.create_texture(texture_id{1}, x).ok());
  x.resource = CU_RESOURCE_TYPE_LINEAR;
  x.format = 0x77;
  BOOST_CHECK(!unit.create_texture(texture_id{1}, x).ok());
  x.format = CU_AD_FORMAT_FLOAT;
  x.channels = 3;
  x.bytes = 100;
  BOOST_CHECK(!unit.create_texture(texture_id{1}, x).ok());
  array_shape shape{4, 4, 0, CU_AD_FORMAT_FLOAT, 3, 0, 0};
  BOOST_CHECK(!unit.create_array(array_id{1}, shape, base).ok());
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
