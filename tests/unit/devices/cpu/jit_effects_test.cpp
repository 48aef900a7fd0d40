// Options of the just-in-time compiler on the cpu device.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include "schema/base/cuda_fault.hpp"

#include <string>

using namespace vgpu;
using namespace vgpu::test;

namespace {

constexpr char jit_head[] = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// A kernel with this directive that keeps so many values alive.
std::string jit_kernel(const std::string& directive, int values) {
  auto out = std::string{jit_head} + ".visible .entry busy(.param .u64 to) " +
             directive + "{\n.reg .b64 %p;\n.reg .b32 %r<" +
             std::to_string(values + 1) + ">;\nld.param.u64 %p, [to];\n";
  auto name = [](int i) { return "%r" + std::to_string(i); };
  for (int i = 0; i < values; ++i)
    out +=
        "ld.global.b32 " + name(i) + ", [%p+" + std::to_string(4 * i) + "];\n";
  for (int i = 1; i < values; ++i)
    out += "add.s32 %r0, %r0, " + name(i) + ";\n";
  return out + "st.global.b32 [%p], %r0;\nret;\n}\n";
}

struct jit_fixture {
  std::unique_ptr<device::device> dev =
      device::open_cpu_device({.threads = 1}, std::uint64_t{256} << 20);
  std::uint64_t last = 0;

  jit_fixture() { BOOST_REQUIRE(dev->reserve_window(first_window).ok()); }

  static std::span<const std::byte> bytes(const std::string& text) {
    return std::as_bytes(std::span{text.c_str(), text.size() + 1});
  }
  result<device::module_info> load(const std::string& text,
                                   const jit_settings& how) {
    return dev->load_module(module_id{++last}, bytes(text), how);
  }
  int attribute(const std::string& text, const jit_settings& how, int key) {
    auto got = load(text, how);
    if (!got)
      BOOST_FAIL(got.why().what);
    return got->kernels.at(0).attributes.at(key);
  }
  int registers(const std::string& text, const jit_settings& how) {
    return attribute(text, how, CU_FUNC_ATTRIBUTE_NUM_REGS);
  }
  int threads(const std::string& text, const jit_settings& how) {
    return attribute(text, how, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  }
};

jit_settings one_option(int key, std::uint32_t value) {
  return {{{static_cast<std::uint32_t>(key), value}}, {}};
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(jit_effects, jit_fixture)

BOOST_AUTO_TEST_CASE(a_compiler_refuses_options_that_it_does_not_know) {
  auto code = [&](int key, std::uint32_t value) {
    auto got = load(jit_kernel("", 1), one_option(key, value));
    return got ? CUDA_SUCCESS : cuda_code(got.why());
  };
  BOOST_TEST(code(CU_JIT_OPTIMIZATION_LEVEL, 7) == CUDA_SUCCESS);
  BOOST_TEST(code(CU_JIT_OPTIMIZATION_LEVEL, 0xffffffff) ==
             CUDA_ERROR_INVALID_PTX);
  BOOST_TEST(code(CU_JIT_NEW_SM3X_OPT, 0) == CUDA_ERROR_INVALID_PTX);
}

BOOST_AUTO_TEST_CASE(registers_can_be_limited) {
  auto text = jit_kernel("", 60);
  auto all = registers(text, {});
  BOOST_TEST(all > 32);
  BOOST_TEST(registers(text, one_option(CU_JIT_MAX_REGISTERS, 32)) == 32);
  BOOST_TEST(registers(text, one_option(CU_JIT_THREADS_PER_BLOCK, 1024)) ==
             all);
  BOOST_TEST(registers(text, one_option(CU_JIT_MAX_REGISTERS, 200)) == all);
  // A directive comes first, unless the options say otherwise.
  auto limited = jit_kernel(".maxnreg 40 ", 60);
  BOOST_TEST(registers(limited, {}) == 40);
  BOOST_TEST(registers(limited, one_option(CU_JIT_MAX_REGISTERS, 32)) == 40);
  auto firm = one_option(CU_JIT_MAX_REGISTERS, 32);
  firm.options[CU_JIT_OVERRIDE_DIRECTIVE_VALUES] = 1;
  BOOST_TEST(registers(limited, firm) == 32);
}

BOOST_AUTO_TEST_CASE(threads_can_be_limited) {
  auto how = one_option(CU_JIT_MAX_THREADS_PER_BLOCK, 128);
  BOOST_TEST(threads(jit_kernel("", 2), {}) == 1024);
  BOOST_TEST(threads(jit_kernel("", 2), how) == 128);
  BOOST_TEST(threads(jit_kernel(".maxntid 256, 1, 1 ", 2), how) == 256);
  how.options[CU_JIT_OVERRIDE_DIRECTIVE_VALUES] = 1;
  BOOST_TEST(threads(jit_kernel(".maxntid 256, 1, 1 ", 2), how) == 128);
}

BOOST_AUTO_TEST_CASE(a_target_is_of_the_devices_generation) {
  auto text = jit_kernel("", 2);
  BOOST_TEST(attribute(text, one_option(CU_JIT_TARGET, CU_TARGET_COMPUTE_90),
                       CU_FUNC_ATTRIBUTE_BINARY_VERSION) == 90);
  for (auto target : {CU_TARGET_COMPUTE_75, CU_TARGET_COMPUTE_120}) {
    auto got = load(text, one_option(CU_JIT_TARGET, target));
    BOOST_REQUIRE(!got.ok());
    BOOST_TEST(cuda_code(got.why()) == CUDA_ERROR_INVALID_SOURCE);
  }
}

BOOST_AUTO_TEST_CASE(a_verbose_compiler_describes_its_kernels) {
  auto text = jit_kernel("", 2);
  auto quiet = load(text, {});
  BOOST_REQUIRE(quiet.ok());
  BOOST_TEST(quiet->log.empty());
  auto loud = load(text, one_option(CU_JIT_LOG_VERBOSE, 1));
  BOOST_REQUIRE(loud.ok());
  BOOST_TEST(loud->log.find("'busy' for 'sm_90'") != std::string::npos,
             loud->log);
}

BOOST_AUTO_TEST_CASE(a_declared_variable_may_get_an_address) {
  auto text = std::string{jit_head} +
              ".extern .global .b32 given;\n.visible .entry k() {\n"
              ".reg .b32 %r;\nld.global.b32 %r, [given];\nret;\n}\n";
  BOOST_TEST(!load(text, {}).ok());
  jit_settings how;
  how.symbols.push_back({"given", first_window});
  BOOST_TEST(load(text, how).ok());
}

BOOST_AUTO_TEST_CASE(a_part_may_call_what_it_declares) {
  auto part = std::string{jit_head} +
              ".extern .global .b32 far;\n.extern .func away();\n"
              ".visible .entry k() {\n.reg .b32 %r;\nld.global.b32 %r, [far];\n"
              "call away;\nret;\n}\n";
  auto good = dev->check_part(bytes(part), {});
  BOOST_TEST(good.ok(), (good.ok() ? "" : good.why().what));
  BOOST_TEST(!load(part, {}).ok());
  auto wrong = std::string{jit_head} + ".visible .entry k() {\n.reg .b32 %r;\n"
                                       "add.s32 %r, %r, %unknown;\nret;\n}\n";
  auto bad = dev->check_part(bytes(wrong), {});
  BOOST_REQUIRE(!bad.ok());
  BOOST_TEST(cuda_code(bad.why()) == CUDA_ERROR_INVALID_PTX);
  BOOST_TEST(bad.why().what.find("unknown") != std::string::npos,
             bad.why().what);
  BOOST_TEST(bad.why().what.find("ptxas application ptx input, line 6") !=
                 std::string::npos,
             bad.why().what);
}

BOOST_AUTO_TEST_SUITE_END()
