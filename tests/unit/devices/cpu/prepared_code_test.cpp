// Modules that are compiled before they are loaded.
#include "devices/interface/preparation_unit.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/cpu/device_fixture.hpp"

namespace vgpu::test {

namespace {

using counts = device::preparation_unit::counts;

/// A module with a variable. Its kernel writes the variable's address.
std::string text_of(const std::string& name, unsigned bytes = 4) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n"
         ".visible .global .align 4 .b8 " +
         name + "[" + std::to_string(bytes) +
         "];\n"
         ".visible .entry where(.param .u64 out) {\n"
         ".reg .u64 %a, %b;\n"
         "ld.param.u64 %a, [out];\n"
         "mov.u64 %b, " +
         name +
         ";\n"
         "st.global.u64 [%a], %b;\n"
         "ret;\n}\n";
}

struct with_preparation : device_fixture {
  device::preparation_unit& unit =
      dynamic_cast<device::preparation_unit&>(*dev);

  void prepare(std::span<const std::byte> image, const jit_settings& how = {}) {
    auto ok = unit.prepare_module(image, how);
    BOOST_TEST(ok.ok(), ok.why().what);
  }
  void prepare(std::string_view text) { prepare(bytes_of(text)); }

  /// Returns where the latest module's kernel finds its variable.
  device_address seen() {
    auto out = memory(8);
    BOOST_TEST(run("where", {1}, {1}, arguments{out}) == CUDA_SUCCESS);
    return download<device_address>(out, 1)[0];
  }
  void is_right() { BOOST_TEST(seen() == info.globals.at(0).address); }

  void counted(std::size_t prepared, std::size_t used_ones) {
    auto x = unit.forget_prepared();
    BOOST_TEST(x.prepared == prepared);
    BOOST_TEST(x.used == used_ones);
  }
};

/// Loads in a device of its own what another one loads prepared.
std::vector<device_address> unprepared(const std::vector<std::string>& texts) {
  device_fixture other;
  std::vector<device_address> out;
  for (auto& x : texts)
    out.push_back(other.load_ptx(x).globals.at(0).address);
  return out;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(prepared_modules, with_preparation)

BOOST_AUTO_TEST_CASE(a_load_takes_the_code_that_was_compiled_before) {
  prepare(text_of("one", 5000));
  prepare(text_of("two"));
  load_ptx(text_of("one", 5000));
  is_right();
  auto first = info.globals[0].address;
  load_ptx(text_of("two"));
  is_right();
  auto second = info.globals[0].address;
  counted(2, 2);
  dev.reset(); // a window has one device at a time
  BOOST_TEST(unprepared({text_of("one", 5000), text_of("two")}) ==
                 (std::vector{first, second}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_load_that_nobody_foresaw_changes_no_address) {
  prepare(text_of("one"));
  prepare(text_of("two"));
  load_ptx(text_of("one"));
  load_ptx(text_of("between", 300));
  is_right();
  auto between = info.globals[0].address;
  load_ptx(text_of("two"));
  is_right();
  auto second = info.globals[0].address;
  // It lies elsewhere than was expected, so its code was made again.
  counted(2, 1);
  dev.reset();
  auto alone =
      unprepared({text_of("one"), text_of("between", 300), text_of("two")});
  BOOST_TEST(alone[1] == between);
  BOOST_TEST(alone[2] == second);
}

BOOST_AUTO_TEST_CASE(a_module_that_is_not_loaded_moves_the_next_one) {
  prepare(text_of("one", 300));
  prepare(text_of("two"));
  load_ptx(text_of("two"));
  is_right();
  counted(2, 0);
}

BOOST_AUTO_TEST_CASE(an_image_may_be_loaded_twice) {
  auto text = text_of("twin", 300);
  prepare(text);
  prepare(text);
  load_ptx(text);
  is_right();
  auto first = info.globals[0].address;
  load_ptx(text);
  is_right();
  BOOST_TEST(info.globals[0].address != first);
  load_ptx(text); // one more than was prepared
  is_right();
  counted(2, 2);
}

BOOST_AUTO_TEST_CASE(an_unloaded_module_keeps_its_place) {
  prepare(text_of("gone", 300));
  prepare(text_of("stays"));
  load_ptx(text_of("gone", 300));
  BOOST_TEST(dev->unload_module(module).ok());
  load_ptx(text_of("stays"));
  is_right();
  counted(2, 2);
}

BOOST_AUTO_TEST_CASE(a_heap_is_foreseen) {
  auto features = read_file(DEVICE_CODE "/features.ptx");
  prepare(features);
  prepare(text_of("behind"));
  load(features);
  load_ptx(text_of("behind"));
  is_right();
  counted(2, 2);
}

BOOST_AUTO_TEST_CASE(other_settings_are_other_code) {
  auto text = text_of("one");
  jit_settings how;
  how.options[CU_JIT_MAX_REGISTERS] = 32;
  prepare(bytes_of(text), how);
  load_ptx(text);
  is_right();
  counted(1, 0);
}

BOOST_AUTO_TEST_CASE(nothing_is_placed_before_the_load) {
  auto before = dev->beside();
  prepare(text_of("one", 1 << 22));
  BOOST_TEST(dev->beside().variables.value() == before.variables.value());
  BOOST_TEST(dev->beside().code.value() == before.code.value());
}

BOOST_AUTO_TEST_CASE(forgotten_code_is_compiled_again) {
  prepare(text_of("one", 300));
  counted(1, 0);
  load_ptx(text_of("one", 300));
  is_right();
  counted(0, 0);
  // What is prepared now follows what was loaded meanwhile.
  prepare(text_of("two"));
  load_ptx(text_of("two"));
  is_right();
  counted(1, 1);
}

BOOST_AUTO_TEST_CASE(wrong_code_is_refused_as_by_a_load) {
  auto text = text_of("one") + "nonsense";
  auto now = unit.prepare_module(bytes_of(text), {});
  auto later = dev->load_module({1}, bytes_of(text));
  BOOST_REQUIRE(!now.ok());
  BOOST_REQUIRE(!later.ok());
  BOOST_TEST(cuda_code(now.why()) == cuda_code(later.why()));
  BOOST_TEST(now.why().what == later.why().what);
  // It has no place, neither here nor there.
  prepare(text_of("two"));
  load_ptx(text_of("two"));
  is_right();
  counted(1, 1);
}

BOOST_AUTO_TEST_CASE(an_image_without_code_is_nothing_to_prepare) {
  BOOST_TEST(unit.prepare_module(bytes_of("no image"), {}).ok() ==
             dev->load_module({1}, bytes_of("no image")).ok());
  counted(0, 0);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
