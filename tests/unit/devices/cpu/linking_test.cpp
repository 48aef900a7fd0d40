// Linking of PTX texts that were compiled separately.
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/cpu/device_fixture.hpp"

namespace vgpu::test {

namespace {

/// Returns a fatbin container of plain PTX, or one without code if the text is
/// empty.
std::string container(const std::string& ptx) {
  auto out = std::string{};
  auto add = [&]<class T>(T x) {
    out.append(reinterpret_cast<const char*>(&x), sizeof x);
  };
  auto padded = (ptx.size() + 7) / 8 * 8;
  add(std::uint32_t{0xBA55ED50});
  add(std::uint16_t{1});
  add(std::uint16_t{16});
  add(std::uint64_t{ptx.empty() ? 0 : 64 + padded});
  if (ptx.empty())
    return out;
  add(std::uint16_t{1}); // PTX
  add(std::uint16_t{0x101});
  add(std::uint32_t{64});
  add(std::uint64_t{padded});
  add(std::uint64_t{0});
  add(std::uint32_t{9});
  add(std::uint32_t{75});
  add(std::uint64_t{0});
  add(std::uint64_t{0x11});
  add(std::uint64_t{0});
  add(std::uint64_t{0});
  out += ptx;
  out.resize(out.size() + padded - ptx.size());
  return out;
}

const auto head =
    std::string{".version 9.0\n.target sm_75\n.address_size 64\n"};

const auto one = head + R"(
.extern .func (.param .b32 r) twice(.param .b32 x);
.extern .global .align 4 .u32 counter;
.weak .global .align 4 .u32 common_one = 11;
.global .align 4 .u32 own = 100;
.func (.param .b32 r) mine() {
  .reg .b32 %v;
  ld.global.u32 %v, [own];
  st.param.b32 [r], %v;
  ret;
}
.visible .entry first(.param .u64 out) {
  .reg .b32 %v<6>;
  .reg .b64 %p;
  .param .b32 x;
  .param .b32 y;
  mov.u32 %v1, %tid.x;
  st.param.b32 [x], %v1;
  call (y), twice, (x);
  ld.param.b32 %v2, [y];
  call (y), mine;
  ld.param.b32 %v3, [y];
  ld.global.u32 %v4, [common_one];
  add.u32 %v2, %v2, %v3;
  add.u32 %v2, %v2, %v4;
  ld.param.u64 %p, [out];
  mad.wide.u32 %p, %v1, 4, %p;
  st.global.u32 [%p], %v2;
  ret;
}
)";

const auto two = head + R"(
.visible .global .align 4 .u32 counter = 1000;
.weak .global .align 4 .u32 common_one = 11;
.global .align 4 .u32 own = 7;
.global .align 8 .u64 pointer = own;
.func (.param .b32 r) mine() {
  .reg .b32 %v;
  .reg .b64 %p;
  ld.global.u64 %p, [pointer];
  ld.global.u32 %v, [%p];
  st.param.b32 [r], %v;
  ret;
}
.visible .func (.param .b32 r) twice(.param .b32 x) {
  .reg .b32 %v<4>;
  .param .b32 y;
  atom.global.add.u32 %v1, [counter], 1;
  ld.param.b32 %v1, [x];
  add.u32 %v1, %v1, %v1;
  call (y), mine;
  ld.param.b32 %v2, [y];
  add.u32 %v1, %v1, %v2;
  st.param.b32 [r], %v1;
  ret;
}
)";

struct linking : device_fixture {};

} // namespace

BOOST_FIXTURE_TEST_SUITE(linking_of_ptx, linking)

BOOST_AUTO_TEST_CASE(parts_share_global_symbols_and_keep_their_own) {
  load(bytes_of(container("") + container(one) + container(two)));
  auto p = memory(32 * 4);
  BOOST_TEST(run("first", {1}, {32}, arguments{p}) == CUDA_SUCCESS);
  auto got = download<int>(p, 32);
  for (auto i = 0; i < 32; ++i)
    BOOST_REQUIRE_EQUAL(got[std::size_t(i)], 2 * i + 7 + 100 + 11);
  for (auto& g : info.globals)
    if (g.name == "counter")
      BOOST_TEST(download<int>(g.address, 1)[0] == 1032);
  auto commons = 0;
  for (auto& g : info.globals)
    commons += g.name == "common_one";
  BOOST_TEST(commons == 1);
}

BOOST_AUTO_TEST_CASE(an_undefined_symbol_is_refused_by_name) {
  auto image = container("") + container(one);
  auto got = dev->load_module(module_id{1}, bytes_of(image));
  BOOST_REQUIRE(!got);
  BOOST_TEST(cuda_code(got.why()) == CUDA_ERROR_INVALID_PTX);
  BOOST_TEST(got.why().what.find("counter") != std::string::npos);
}

// In some toolkits the runtime for launches by kernels is machine code only,
// and in older ones it calls functions of drivers. Calls of both are refused,
// as are all undefined names.
BOOST_AUTO_TEST_CASE(dynamic_parallelism_is_refused_by_kernel) {
  for (std::string name :
       {"__cudaCDP2LaunchDeviceV2", "__cuda_syscall_cnpv2LaunchDeviceV2",
        "cnpLaunchDeviceV2"}) {
    auto text = head + ".extern .func (.param .b32 r) " + name +
                R"((.param .b64 x, .param .b64 y);
.visible .entry parent() {
  .param .b64 x;
  .param .b64 y;
  .param .b32 r;
  call (r), )" + name +
                R"(, (x, y);
  ret;
}
)";
    auto got = dev->load_module(module_id{1}, bytes_of(text));
    BOOST_REQUIRE(!got);
    BOOST_TEST(cuda_code(got.why()) == CUDA_ERROR_NOT_SUPPORTED);
    BOOST_TEST(got.why().what.find(": parent:") != std::string::npos,
               got.why().what);
    BOOST_TEST(got.why().what.find("dynamic parallelism") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_symbol_defined_twice_is_refused_by_name) {
  auto image = container("") + container(two) + container(two);
  auto got = dev->load_module(module_id{1}, bytes_of(image));
  BOOST_REQUIRE(!got);
  BOOST_TEST(got.why().what.find("Multiple definition of") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_part_that_is_cut_is_refused) {
  auto image = container("") + container(one) + container(two);
  for (auto cut : {1, 40, 700}) {
    auto text = image.substr(0, image.size() - std::size_t(cut));
    auto got = dev->load_module(module_id{1}, bytes_of(text));
    BOOST_TEST(!got.ok());
  }
}

// A part that claims to have no bytes must not loop for ever.
BOOST_AUTO_TEST_CASE(a_part_without_a_header_is_ignored) {
  auto empty = container("");
  empty[6] = 0;
  auto image = container("") + empty + container(two);
  load(bytes_of(image));
  BOOST_TEST(info.kernels.empty());
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
