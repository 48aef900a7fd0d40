// Loads and executes every instruction form in forms.txt, which lists the
// results for special operands.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include "devices/interface/texture_unit.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <sstream>

namespace vgpu::test {

namespace {

using u64 = std::uint64_t;

/// A 64-bit word that a form's code reads or writes.
struct word {
  const char* name;
  const char* store; // PTX that stores it at [%io]
};

// The inputs are %a8, %b8, %c8 and %e8 and their lower parts. m and n are the
// lane's 16 bytes of global (%mg), shared (%ms) and local (%ml) memory.
constexpr const char* inputs[] = {"a", "b", "c", "e", "m", "n"};

constexpr word outputs[] = {
    {"d2", "cvt.u64.u16 %t8, %d2;"},    {"d4", "cvt.u64.u32 %t8, %d4;"},
    {"d8", "mov.b64 %t8, %d8;"},        {"f2", "cvt.u64.u16 %t8, %f2;"},
    {"f4", "cvt.u64.u32 %t8, %f4;"},    {"f8", "mov.b64 %t8, %f8;"},
    {"g2", "cvt.u64.u16 %t8, %g2;"},    {"g4", "cvt.u64.u32 %t8, %g4;"},
    {"g8", "mov.b64 %t8, %g8;"},        {"h2", "cvt.u64.u16 %t8, %h2;"},
    {"h4", "cvt.u64.u32 %t8, %h4;"},    {"h8", "mov.b64 %t8, %h8;"},
    {"p", "selp.b64 %t8, 1, 0, %dp;"},  {"q", "selp.b64 %t8, 1, 0, %dq;"},
    {"m", "ld.global.u64 %t8, [%mg];"}, {"m1", "ld.global.u64 %t8, [%mg+8];"},
    {"s", "ld.shared.u64 %t8, [%ms];"}, {"s1", "ld.shared.u64 %t8, [%ms+8];"},
    {"l", "ld.local.u64 %t8, [%ml];"},  {"l1", "ld.local.u64 %t8, [%ml+8];"},
};

constexpr auto row_words = std::size(inputs) + std::size(outputs);
constexpr auto row_bytes = row_words * 8;

struct expectation {
  std::string name;
  u64 bits = 0;
  double about = 0;
  char kind = 'x'; // x: bits, f: about a f32, d: about a f64, n: NaN of f64
};

struct form_case {
  std::array<u64, std::size(inputs)> in{};
  std::vector<expectation> out;
};

struct form {
  std::string name, code;
  bool refused = false;
  std::vector<form_case> cases;
  int line = 0;
};

double real(const std::string& text) {
  if (text == "nan")
    return std::numeric_limits<double>::quiet_NaN();
  return std::strtod(text.c_str(), nullptr);
}

u64 bits_of(const std::string& text) {
  auto suffix = text.empty() ? ' ' : text.back();
  auto hex = text.starts_with("0x") || text.starts_with("-0x");
  if (text.ends_with("inff") || text.ends_with("infd") || !hex) {
    auto number = text.substr(0, text.size() - 1);
    if (suffix == 'f')
      return number == "nan" ? 0x7fffffffu
                             : std::bit_cast<std::uint32_t>(
                                   std::strtof(number.c_str(), nullptr));
    if (suffix == 'd')
      return std::bit_cast<u64>(real(number));
  }
  if (text.starts_with("-"))
    return u64(std::strtoll(text.c_str(), nullptr, 0));
  return std::strtoull(text.c_str(), nullptr, 0);
}

std::string trim(const std::string& x) {
  auto first = x.find_first_not_of(' ');
  auto last = x.find_last_not_of(' ');
  return first == x.npos ? "" : x.substr(first, last - first + 1);
}

std::vector<std::string> split(const std::string& x, char at) {
  auto out = std::vector<std::string>{};
  auto in = std::istringstream{x};
  for (auto part = std::string{}; std::getline(in, part, at);)
    out.push_back(trim(part));
  return out;
}

form_case parse_case(const std::string& text, int line) {
  auto out = form_case{};
  auto colon = text.find(':');
  BOOST_REQUIRE_MESSAGE(colon != text.npos, "forms.txt line " << line);
  for (auto& x : split(text.substr(0, colon), ' ')) {
    for (auto i = std::size_t{0}; i < std::size(inputs); ++i)
      if (x.substr(0, x.find('=')) == inputs[i])
        out.in[i] = bits_of(x.substr(x.find('=') + 1));
  }
  for (auto& x : split(text.substr(colon + 1), ' ')) {
    auto equal = x.find('=');
    if (equal == x.npos)
      continue;
    auto e = expectation{x.substr(0, equal)};
    auto value = x.substr(equal + 1);
    if (value.starts_with("~")) {
      e.kind = value.back();
      e.about = real(value.substr(1, value.size() - 2));
    } else {
      e.bits = bits_of(value);
      e.kind = value == "nand" ? 'n' : 'x'; // its payload is not defined
    }
    out.out.push_back(e);
  }
  BOOST_REQUIRE_MESSAGE(!out.out.empty(), "forms.txt line " << line);
  return out;
}

std::vector<form> read_forms() {
  auto in = std::ifstream{FORMS};
  BOOST_REQUIRE_MESSAGE(in.good(), "cannot read " << FORMS);
  auto out = std::vector<form>{};
  auto number = 0;
  for (auto line = std::string{}; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#')
      continue;
    auto bar = line.find(" | ");
    auto last = line.rfind(" | ");
    BOOST_REQUIRE_MESSAGE(bar != line.npos && last > bar,
                          "forms.txt line " << number);
    auto f = form{};
    f.name = trim(line.substr(0, bar));
    f.code = trim(line.substr(bar + 3, last - bar - 3));
    f.line = number;
    auto cases = line.substr(last + 3);
    f.refused = trim(cases) == "refused";
    if (!f.refused)
      for (auto& x : split(cases, ';'))
        f.cases.push_back(parse_case(x, number));
    out.push_back(f);
  }
  return out;
}

std::string data(const char* type, int count, int (*value)(int)) {
  auto out = std::string{};
  for (auto i = 0; i < count; ++i) {
    char text[32];
    if (std::string_view{type} == "f32")
      std::snprintf(text, sizeof text, "0f%08x",
                    std::bit_cast<std::uint32_t>(float(value(i))));
    else
      std::snprintf(text, sizeof text, "%d", value(i));
    out += (i != 0 ? ", " : "") + std::string{text};
  }
  return out;
}

// The matrices of the tensor forms, and memory with a pattern.
int pattern(int i) {
  return i >= 16 && (i - 16) % 3 == 0 ? i | 0x80 : i;
}
int matrix_byte(int i) {
  return i * 11 % 256;
}
int matrix_half(int i) { // returns 0 to 12
  constexpr int bits[] = {0,      0x3c00, 0x4000, 0x4200, 0x4400,
                          0x4500, 0x4600, 0x4700, 0x4800, 0x4880,
                          0x4900, 0x4980, 0x4a00};
  return bits[i * 7 % 13];
}
int matrix_float(int i) {
  return i * 5 % 17 - 8;
}
int matrix_int(int i) {
  return i * 29 % 1000 - 500;
}

std::string module_for(const std::string& code) {
  auto out = std::string{};
  auto matrices = code.find("mat_") != code.npos;
  out += ".version 9.0\n.target sm_90\n.address_size 64\n"
         ".const .align 16 .b8 constants[32] = {" +
         data("b8", 32, pattern) + "};\n";
  if (matrices)
    out += ".global .align 128 .b16 mat_h[256] = {" +
           data("b16", 256, matrix_half) +
           "};\n.global .align 128 .b8 mat_b[256] = {" +
           data("b8", 256, matrix_byte) +
           "};\n.global .align 128 .f32 mat_f[256] = {" +
           data("f32", 256, matrix_float) +
           "};\n.global .align 128 .b32 mat_i[256] = {" +
           data("b32", 256, matrix_int) +
           "};\n.global .align 128 .b8 ground[1024];\n"
           ".shared .align 128 .b8 room[1024];\n"
           ".shared .align 128 .b8 room2[1024];\n"
           ".shared .align 128 .b8 room3[1024];\n"
           ".shared .align 128 .b8 room4[1024];\n";
  for (auto t : {"b32", "b64", "f32", "f64"}) {
    auto type = std::string{t};
    out += ".func (.param ." + type + " r) same_" + type + "(.param ." + type +
           " x) {\n.reg ." + type + " %v;\nld.param." + type +
           " %v, [x];\nst.param." + type + " [r], %v;\nret;\n}\n";
  }
  if (code.find("malloc") != code.npos)
    out += ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
           ".extern .func free(.param .b64 p);\n";
  out += ".func same_and_return() {\nret;\n}\n"
         ".visible .entry k(.param .u64 table, "
         ".param .align 16 .b8 extra[32]) {\n"
         ".reg .u64 %io, %mg, %ml, %mlw, %msw, %mx, %t8, %x8, %y8;\n"
         ".reg .b32 %ms, %lane, %row, %x4, %y4, %z4, %v<40>;\n"
         ".reg .b128 %y16, %z16;\n.reg .f32 %w<40>;\n.reg .f64 %u<20>;\n"
         ".shared .align 16 .b8 cells[512];\n"
         ".local .align 16 .b8 own[64];\n";
  for (auto n : {"a", "b", "c", "e", "d", "f", "g", "h"}) {
    auto x = std::string{n};
    out += ".reg .b16 %" + x + "2;\n.reg .b32 %" + x + "4;\n.reg .b64 %" + x +
           "8;\n.reg .pred %" + x + "p;\n";
  }
  out += ".reg .pred %dq;\n"
         "mov.u32 %lane, %laneid;\nmov.u32 %row, %ctaid.x;\n"
         "mad.lo.u32 %row, %row, 32, %lane;\n"
         "ld.param.u64 %io, [table];\nmad.wide.u32 %io, %row, " +
         std::to_string(row_bytes) + ", %io;\n";
  auto at = 0;
  for (auto n : {"a", "b", "c", "e"}) {
    auto x = std::string{n};
    out += "ld.global.u64 %" + x + "8, [%io+" + std::to_string(at) +
           "];\ncvt.u32.u64 %" + x + "4, %" + x + "8;\ncvt.u16.u64 %" + x +
           "2, %" + x + "8;\nsetp.ne.u64 %" + x + "p, %" + x + "8, 0;\n";
    at += 8;
  }
  out += "add.u64 %mg, %io, 32;\nmov.u32 %ms, cells;\n"
         "mad.lo.u32 %ms, %lane, 16, %ms;\ncvt.u64.u32 %msw, %ms;\n"
         "cvta.shared.u64 %mx, %msw;\nmov.u64 %ml, own;\nmov.u64 %mlw, own;\n"
         "ld.global.u64 %t8, [%mg];\nst.shared.u64 [%ms], %t8;\n"
         "st.local.u64 [%ml], %t8;\nld.global.u64 %t8, [%mg+8];\n"
         "st.shared.u64 [%ms+8], %t8;\nst.local.u64 [%ml+8], %t8;\n";
  for (auto n : {"d", "f", "g", "h"}) {
    auto x = std::string{n};
    out += "mov.u64 %" + x + "8, 0;\nmov.u32 %" + x + "4, 0;\nmov.u16 %" + x +
           "2, 0;\n";
  }
  out += "setp.ne.u32 %dp, 0, 0;\nsetp.ne.u32 %dq, 0, 0;\n";
  if (matrices) {
    // Each lane copies its 32nd part to shared memory.
    out += "mul.lo.u32 %x4, %lane, 32;\ncvt.u64.u32 %x8, %x4;\n";
    auto to = 0;
    for (auto from : {"mat_h", "mat_b", "mat_f", "mat_i"}) {
      auto room =
          to == 0 ? std::string{"room"} : "room" + std::to_string(to + 1);
      auto bytes = to == 0 ? 16 : to == 1 ? 8 : 32;
      out += "mul.lo.u32 %x4, %lane, " + std::to_string(bytes) +
             ";\ncvt.u64.u32 %x8, %x4;\nmov.u64 %y8, " + from +
             ";\nadd.u64 %y8, %y8, %x8;\nmov.u32 %y4, " + room +
             ";\nadd.u32 %y4, %y4, %x4;\n";
      for (auto i = 0; i < bytes; i += 8)
        out += "ld.global.u64 %t8, [%y8+" + std::to_string(i) +
               "];\nst.shared.u64 [%y4+" + std::to_string(i) + "], %t8;\n";
      ++to;
    }
    out += "bar.sync 0;\n";
  }
  out += "\n" + code + "\nbar.warp.sync -1;\n";
  at = int(std::size(inputs)) * 8;
  for (auto& x : outputs) {
    out += std::string{x.store} + "\nst.global.u64 [%io+" + std::to_string(at) +
           "], %t8;\n";
    at += 8;
  }
  return out + "ret;\n}\n";
}

/// Expands "d" to the widest of %d2, %d4 and %d8 that the code names.
std::string full_name(const std::string& name, const std::string& code) {
  if (name.size() != 1 || name.find_first_of("dfgh") == name.npos)
    return name;
  for (auto width : {"8", "4", "2"})
    if (code.find("%" + name + width) != code.npos)
      return name + width;
  return name;
}

u64 mask_of(const std::string& name) {
  return name.ends_with("2")   ? 0xffffu
         : name.ends_with("4") ? 0xffffffffu
                               : ~u64{0};
}

bool is_type(const std::string& x) {
  static constexpr const char* kinds[] = {"u", "s", "b", "f", "bf", "tf"};
  if (x == "pred" || x.starts_with("e4m3") || x.starts_with("e5m2"))
    return true;
  auto digit = x.find_first_of("0123456789");
  auto last = x.find_first_not_of("0123456789x", digit);
  return digit != x.npos && last == x.npos &&
         std::any_of(std::begin(kinds), std::end(kinds),
                     [&](auto k) { return x.substr(0, digit) == k; });
}

/// The textures and surfaces that forms name by number.
struct objects {
  objects(device_fixture& in, device::texture_unit& unit)
      : in_{in}, unit_{unit} {
    constexpr auto f = CU_AD_FORMAT_FLOAT;
    auto grid = [](int x, int y, int z) {
      return std::vector<double>{double(x + 10 * y + 100 * z)};
    };
    auto plain = array({4, 4, 0, f, 1, 0, 0}, grid);
    show(1, plain, point, clamped, 0);
    show(2, plain, linear, clamped, 0);
    show(8, plain, point, 0, CU_TRSF_NORMALIZED_COORDINATES);
    show(3,
         array({4, 4, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0, 0},
               [](int x, int y, int) {
                 return std::vector<double>{double(x), double(y),
                                            double(100 + x), double(200 + y)};
               }),
         point, clamped, CU_TRSF_READ_AS_INTEGER);
    show_memory(4);
    auto cube = [](int x, int y, int face) {
      return std::vector<double>{double(10 * face + 2 * y + x)};
    };
    show(5, array({2, 2, 6, f, 1, CUDA_ARRAY3D_CUBEMAP, 0}, cube), point,
         clamped, CU_TRSF_NORMALIZED_COORDINATES);
    show(13,
         array({2, 2, 12, f, 1, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED, 0},
               cube),
         point, clamped, CU_TRSF_NORMALIZED_COORDINATES);
    show(6, array({4, 4, 3, f, 1, CUDA_ARRAY3D_LAYERED, 0}, grid), point,
         clamped, 0);
    auto counted = [](int x, int y, int) {
      return std::vector<double>{double(x + 10 * y)};
    };
    constexpr auto u = CU_AD_FORMAT_UNSIGNED_INT32;
    constexpr unsigned stored = CUDA_ARRAY3D_SURFACE_LDST;
    surface(7, array({4, 4, 0, u, 1, stored, 0}, counted));
    surface(16, array({4, 4, 0, u, 1, stored, 0}, counted));
    surface(17, array({4, 2, 0, u, 1, stored, 0}, [](int x, int y, int) {
              return std::vector<double>{y == 0 ? 0.0 : x < 2 ? 3.0 * x : 10.0};
            }));
    show(9,
         array({1, 1, 0, f, 4, 0, 0},
               [](int, int, int) {
                 return std::vector<double>{5, 6, 7, 8};
               }),
         point, 3, 0);
    show(10,
         array({4, 0, 0, f, 1, 0, 0},
               [](int x, int, int) { return std::vector<double>{x + 1.0}; }),
         linear, clamped, 0);
    show(11, array({2, 2, 2, f, 1, 0, 0}, grid), linear, clamped, 0);
    show(12,
         array({4, 0, 3, f, 1, CUDA_ARRAY3D_LAYERED, 0},
               [](int x, int, int z) {
                 return std::vector<double>{x + 10.0 * z};
               }),
         point, clamped, 0);
    show(
        14,
        array({2, 1, 0, CU_AD_FORMAT_SIGNED_INT32, 1, 0, 0},
              [](int x, int, int) { return std::vector<double>{7.0 * x - 3}; }),
        point, clamped, CU_TRSF_READ_AS_INTEGER);
    show_levels(15);
  }

private:
  static constexpr std::uint32_t point = CU_TR_FILTER_MODE_POINT;
  static constexpr std::uint32_t linear = CU_TR_FILTER_MODE_LINEAR;
  static constexpr std::uint32_t clamped = CU_TR_ADDRESS_MODE_CLAMP;

  static void put(std::vector<std::byte>& to, std::uint32_t format, double x) {
    auto add = [&](auto value) {
      auto at = to.size();
      to.resize(at + sizeof(value));
      std::memcpy(to.data() + at, &value, sizeof(value));
    };
    if (format == CU_AD_FORMAT_FLOAT)
      add(float(x));
    else if (format == CU_AD_FORMAT_UNSIGNED_INT8)
      add(std::uint8_t(x));
    else
      add(std::int32_t(x));
  }

  /// Makes an array whose elements `value` computes from their coordinates.
  template <class F>
  std::uint64_t array(const array_shape& shape, F value) {
    auto layout = layout_of(shape);
    BOOST_REQUIRE(layout);
    auto bytes = std::vector<std::byte>{};
    for (auto& l : layout->levels) {
      bytes.resize(l.offset);
      for (auto z = 0; z < int(l.slices); ++z)
        for (auto y = 0; y < int(l.rows); ++y)
          for (auto x = 0; x < int(l.width); ++x)
            for (auto c : value(x, y, z))
              put(bytes, shape.format, c);
    }
    BOOST_REQUIRE_EQUAL(bytes.size(), layout->bytes);
    auto id = array_id{++arrays_};
    BOOST_REQUIRE(unit_.create_array(id, shape, in_.upload(bytes)).ok());
    return id.value;
  }

  void add(std::uint64_t id, const texture_spec& what) {
    auto got = unit_.create_texture(texture_id{id}, what);
    BOOST_REQUIRE_MESSAGE(got, "texture " << id);
    BOOST_REQUIRE_EQUAL(*got, id);
  }

  static void edge(texture_spec& x) {
    x.border_r = std::bit_cast<std::uint32_t>(0.25f);
    x.border_g = std::bit_cast<std::uint32_t>(0.5f);
    x.border_b = std::bit_cast<std::uint32_t>(0.75f);
    x.border_a = std::bit_cast<std::uint32_t>(1.0f);
  }

  void show(std::uint64_t id, std::uint64_t array, std::uint32_t filter,
            std::uint32_t address, std::uint32_t flags) {
    texture_spec x;
    x.array = array;
    x.filter = filter;
    x.address_x = x.address_y = x.address_z = address;
    x.flags = flags;
    edge(x);
    add(id, x);
  }

  void surface(std::uint64_t id, std::uint64_t array) {
    texture_spec x;
    x.surface = 1;
    x.array = array;
    add(id, x);
  }

  void show_memory(std::uint64_t id) {
    texture_spec x;
    x.resource = CU_RESOURCE_TYPE_LINEAR;
    x.format = CU_AD_FORMAT_FLOAT;
    x.channels = 1;
    x.bytes = 32;
    x.address = in_.upload(
        std::vector<float>{0, 1.5f, 3, 4.5f, 6, 7.5f, 9, 10.5f, -1, -1});
    add(id, x);
  }

  /// Makes a mipmap with 1 to 4 in its 2 x 2 level, and 100 in the next.
  void show_levels(std::uint64_t id) {
    texture_spec x;
    x.resource = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    auto calls = 0;
    x.array = array({2, 2, 0, CU_AD_FORMAT_FLOAT, 1, 0, 2}, [&](int, int, int) {
      ++calls;
      return std::vector<double>{calls <= 4 ? calls : 100.0};
    });
    x.address_x = x.address_y = clamped;
    x.filter = linear;
    x.mip_filter = linear;
    x.flags = CU_TRSF_NORMALIZED_COORDINATES;
    x.most_level = std::bit_cast<std::uint32_t>(5.0f);
    add(id, x);
  }

  device_fixture& in_;
  device::texture_unit& unit_;
  std::uint64_t arrays_ = 0;
};

struct forms : device_fixture {
  device_address table = memory(granule_bytes);
  objects shown{*this, dynamic_cast<device::texture_unit&>(*dev)};

  std::vector<u64> run_form(const form& f) {
    // Runs whole warps, and repeats the last case to fill them.
    auto n = (f.cases.size() + 31) / 32 * 32;
    auto rows = std::vector<u64>(n * row_words);
    for (auto i = std::size_t{0}; i < n; ++i) {
      auto& in = f.cases[std::min(i, f.cases.size() - 1)].in;
      std::copy(in.begin(), in.end(),
                rows.begin() + std::ptrdiff_t(i * row_words));
    }
    auto copy = std::make_shared<std::vector<u64>>(rows);
    BOOST_REQUIRE(dev->enqueue_write(legacy_stream, table,
                                     std::as_bytes(std::span{*copy}), copy)
                      .ok());
    auto x = device::launch{};
    x.cluster = {0, 0, 0};
    x.module = module;
    x.kernel = kernel("k");
    x.grid = {std::uint32_t(n / 32)};
    x.block = {32};
    auto parameters = std::vector<std::byte>(48);
    std::memcpy(parameters.data(), &table, 8);
    for (auto i = 0; i < 32; ++i)
      parameters[std::size_t(16 + i)] = std::byte(pattern(i));
    x.parameters = parameters;
    auto ok = dev->enqueue_launch(legacy_stream, x);
    BOOST_REQUIRE_MESSAGE(ok.ok(), f.name << ": " << ok.why().what);
    return download<u64>(table, rows.size());
  }

  /// Returns a row for each instruction, with the number of its forms that load
  /// and their parts.
  std::string table_of_forms() {
    struct row {
      int forms = 0;
      std::set<std::string> types, modifiers;
    };
    auto rows = std::map<std::string, row>{};
    for (auto& f : read_forms()) {
      module = module_id{++modules};
      auto got = dev->load_module(module, bytes_of(module_for(f.code)));
      // Skips forms that stand for a register or the like.
      if (!got ||
          f.code.find(f.name.substr(0, f.name.find('.'))) == std::string::npos)
        continue;
      BOOST_REQUIRE(dev->unload_module(module).ok());
      auto parts = split(f.name, '.');
      auto& r = rows[parts[0]];
      ++r.forms;
      for (auto i = std::size_t{1}; i < parts.size(); ++i)
        (is_type(parts[i]) ? r.types : r.modifiers).insert(parts[i]);
    }
    auto list = [](const std::set<std::string>& x) {
      auto out = std::string{};
      for (auto& one : x)
        out += (out.empty() ? "" : " ") + one;
      return out;
    };
    auto out = std::string{"| instruction | forms tested | types | modifiers "
                           "|\n|---|---|---|---|\n"};
    for (auto& [name, r] : rows)
      out += "| `" + name + "` | " + std::to_string(r.forms) + " | " +
             list(r.types) + " | " + list(r.modifiers) + " |\n";
    return out;
  }

  static bool matches(const expectation& want, u64 got) {
    if (want.kind == 'x')
      return got == want.bits;
    auto x = want.kind == 'f' ? double{std::bit_cast<float>(std::uint32_t(got))}
                              : std::bit_cast<double>(got);
    if (want.kind == 'n')
      return std::isnan(x);
    return std::abs(x - want.about) <=
           1e-6 * std::max(1.0, std::abs(want.about));
  }

  void check(const form& f) {
    auto got = run_form(f);
    BOOST_REQUIRE_MESSAGE(last == CUDA_SUCCESS,
                          "forms.txt:" << f.line << ": " << f.code
                                       << " ended with error " << last);
    for (auto i = std::size_t{0}; i < f.cases.size(); ++i)
      for (auto e : f.cases[i].out) {
        auto name = full_name(e.name, f.code);
        auto at = std::size(inputs);
        for (auto& x : outputs) {
          if (name == x.name)
            break;
          ++at;
        }
        BOOST_REQUIRE_MESSAGE(at < row_words,
                              "forms.txt:" << f.line << ": no " << name);
        auto mask = mask_of(name);
        auto value = got[i * row_words + at] & mask;
        e.bits &= mask;
        BOOST_CHECK_MESSAGE(matches(e, value),
                            "forms.txt:" << f.line << ": " << f.code << " case "
                                         << i + 1 << ": " << name << " is 0x"
                                         << std::hex << value << ", not 0x"
                                         << e.bits << std::dec << " or about "
                                         << e.about);
      }
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(forms_of_instructions, forms)

// A form that is refused is refused by name, with its kernel and line.
BOOST_AUTO_TEST_CASE(every_form_is_loaded_and_computes_or_is_refused_by_name) {
  for (auto& f : read_forms()) {
    auto text = module_for(f.code);
    module = module_id{++modules};
    auto got = dev->load_module(module, bytes_of(text));
    if (f.refused) {
      BOOST_CHECK_MESSAGE(!got, f.name << " is supported: add its results");
      if (!got)
        BOOST_CHECK_MESSAGE(got.why().what.find("line") != std::string::npos,
                            f.name << ": " << got.why().what);
      continue;
    }
    if (!got) {
      BOOST_CHECK_MESSAGE(false,
                          "forms.txt:" << f.line << ": " << got.why().what);
      continue;
    }
    info = *got;
    check(f);
    BOOST_REQUIRE(dev->unload_module(module).ok());
  }
}

// The table is in the documentation. With UPDATE_README=1 in the environment
// the test writes it again.
BOOST_AUTO_TEST_CASE(the_documentation_lists_the_supported_forms) {
  auto in = std::ifstream{README};
  BOOST_REQUIRE_MESSAGE(in.good(), "cannot read " << README);
  auto text = std::string{std::istreambuf_iterator<char>{in}, {}};
  auto begin = text.find("<!-- forms -->\n");
  auto end = text.find("<!-- end of forms -->");
  BOOST_REQUIRE(begin != text.npos && end != text.npos && begin < end);
  begin += std::string_view{"<!-- forms -->\n"}.size();
  auto rows = table_of_forms();
  if (std::getenv("UPDATE_README") != nullptr) {
    text.replace(begin, end - begin, rows);
    std::ofstream{README} << text;
    return;
  }
  BOOST_CHECK_MESSAGE(text.substr(begin, end - begin) == rows,
                      "the table is not what this device supports; run this "
                      "test with UPDATE_README=1");
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
