// Images that a program may pass, whole and damaged.
#include "devices/interface/fatbin.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::test {

namespace {

constexpr auto header = ".version 9.0\n.target sm_75\n.address_size 64\n";

struct images : device_fixture {
  CUresult try_load(std::span<const std::byte> image) {
    auto got = dev->load_module({++modules + 1000}, image);
    why = got ? "" : got.why().what;
    return got ? CUDA_SUCCESS : cuda_code(got.why());
  }
  CUresult try_text(const std::string& text) {
    return try_load(bytes_of(text));
  }
  std::string why;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(images_of_programs, images)

BOOST_AUTO_TEST_CASE(fatbins_of_every_compression_load) {
  for (auto name : {"default", "speed", "size", "none"}) {
    load(read_file(std::string{DEVICE_CODE "/kernels."} + name + ".fatbin"));
    auto a = upload(std::vector<float>(32, 2.0f));
    auto c = memory(128);
    BOOST_TEST(run("vector_add", {1}, {32}, arguments{a, a, c, 32}) ==
               CUDA_SUCCESS);
    BOOST_TEST(download<float>(c, 32)[31] == 4.0f);
  }
}

BOOST_AUTO_TEST_CASE(machine_code_without_ptx_is_refused) {
  BOOST_TEST(try_load(read_file(DEVICE_CODE "/kernels.cubin")) ==
             CUDA_ERROR_NO_BINARY_FOR_GPU);
  BOOST_TEST(try_load(read_file(DEVICE_CODE "/kernels.sass.fatbin")) ==
             CUDA_ERROR_NO_BINARY_FOR_GPU);
}

BOOST_AUTO_TEST_CASE(an_image_cut_short_is_refused) {
  auto image = read_file(DEVICE_CODE "/kernels.default.fatbin");
  for (auto size = std::size_t{0}; size < image.size();
       size += size < 256 ? 1 : 997) {
    auto code = try_load(std::span{image}.first(size));
    BOOST_REQUIRE_NE(code, CUDA_SUCCESS);
  }
}

BOOST_AUTO_TEST_CASE(a_part_has_the_name_in_its_header) {
  auto name_of = [](std::uint32_t at, std::uint32_t bytes) {
    // A container's header, an entry's header with a name, and text.
    auto words = std::vector<std::uint64_t>(2 + 8 + 1 + 1);
    words[0] = 0x00100001'ba55ed50;
    words[1] = 8 * (words.size() - 2);
    words[2] = std::uint64_t{72} << 32 | 0x01010001;
    words[3] = 8;
    words[6] = at | std::uint64_t{bytes} << 32;
    std::memcpy(&words[10], "part.ptx", 8);
    auto got = device::parts_of(std::as_bytes(std::span{words}));
    BOOST_REQUIRE(got);
    BOOST_REQUIRE_EQUAL(got->size(), 1U);
    return got->front().name;
  };
  BOOST_TEST(name_of(64, 8) == "part.ptx");
  BOOST_TEST(name_of(0, 0) == "");
  BOOST_TEST(name_of(64, 9) == "");
  BOOST_TEST(name_of(0xffffffff, 1) == "");
}

BOOST_AUTO_TEST_CASE(a_device_gets_the_machine_code_for_it_alone) {
  using form = device::image_part::form;
  auto has_ptx = [](const auto& parts) {
    return std::ranges::any_of(*parts,
                               [](auto& x) { return x.kind == form::ptx; });
  };
  auto image = read_file(DEVICE_CODE "/kernels.default.fatbin");
  auto all = device::parts_of(image);
  BOOST_REQUIRE(all);
  BOOST_TEST(has_ptx(all));
  BOOST_TEST(all->size() > 1u);
  auto exact = device::parts_for(image, 75);
  BOOST_REQUIRE(exact);
  BOOST_TEST(!exact->empty());
  BOOST_TEST(!has_ptx(exact));
  // A driver may compile PTX, or load code for a lower architecture.
  for (auto other : {0u, 74u, 90u}) {
    auto parts = device::parts_for(image, other);
    BOOST_REQUIRE(parts);
    BOOST_TEST(parts->size() == all->size());
  }
  auto text = read_file(DEVICE_CODE "/kernels.ptx");
  BOOST_TEST(has_ptx(device::parts_for(text, 90)));
}

BOOST_AUTO_TEST_CASE(damaged_bytes_do_no_harm) {
  auto whole = read_file(DEVICE_CODE "/kernels.none.fatbin");
  auto x = 1u;
  for (auto i = 0; i < 200; ++i) {
    auto image = whole;
    for (auto k = 0; k < 8; ++k) {
      x = x * 1664525u + 1013904223u;
      image[x % image.size()] = std::byte(x >> 24);
    }
    try_load(image);
  }
}

BOOST_AUTO_TEST_CASE(wrong_texts_are_refused) {
  BOOST_TEST(try_text("garbage") == CUDA_ERROR_INVALID_IMAGE);
  BOOST_TEST(try_text("") == CUDA_ERROR_INVALID_IMAGE);
  BOOST_TEST(try_text(".version 9.1\n.target sm_75\n.address_size 64\n") ==
             CUDA_SUCCESS);
  BOOST_TEST(try_text(".version 9.9\n.target sm_75\n.address_size 64\n") ==
             CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  BOOST_TEST(try_text(".version 9.0\n.target sm_999\n.address_size 64\n") ==
             CUDA_ERROR_INVALID_PTX);
  BOOST_TEST(try_text(std::string{header} + ".visible .entry k() { oops; }") ==
             CUDA_ERROR_INVALID_PTX);
  BOOST_TEST(try_text(std::string{header} +
                      ".visible .entry k()\n{\n.reg .b32 %r;\n"
                      "add.s32 %r, %r, %nothing;\nret;\n}") ==
             CUDA_ERROR_INVALID_PTX);
  BOOST_TEST(why.find("line 7") != std::string::npos, why);
  // Registers of the wrong size are refused before execution.
  BOOST_TEST(try_text(std::string{header} +
                      ".visible .entry k() {\n.reg .b32 %r;\n.reg .b64 %d;\n"
                      "add.s64 %d, %d, %r;\nret;\n}") ==
             CUDA_ERROR_INVALID_PTX);
}

BOOST_AUTO_TEST_CASE(an_unsupported_feature_is_named) {
  BOOST_TEST(try_text(std::string{header} +
                      ".visible .entry picture() {\n.reg .b64 %rd;\n"
                      ".reg .f32 %f<8>;\n"
                      "tex.2dms.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%rd, {%f4, "
                      "%f5, %f6, %f6}];\nret;\n}") == CUDA_ERROR_INVALID_PTX);
  BOOST_TEST(why.find("line 7") != std::string::npos, why);
  BOOST_TEST(try_text(std::string{header} + ".global .texref picture;\n") ==
             CUDA_ERROR_INVALID_PTX);
  BOOST_TEST(why.find("use texture") != std::string::npos, why);
  BOOST_TEST(try_text(std::string{header} +
                      ".visible .entry picture() {\n.reg .b32 %r<4>;\n"
                      "frobnicate.b32 %r0, %r1;\nret;\n}") ==
             CUDA_ERROR_INVALID_PTX);
  BOOST_TEST(why.find("frobnicate.b32") != std::string::npos, why);
  BOOST_TEST(why.find("picture") != std::string::npos, why);
}

BOOST_AUTO_TEST_CASE(very_deep_nesting_is_refused) {
  auto deep = [](std::string open, std::string close) {
    auto out = std::string{header} +
               ".visible .entry k() {\n.reg .b32 %r;\nmov.b32 %r, ";
    for (auto i = 0; i < 100000; ++i)
      out += open;
    out += "0";
    for (auto i = 0; i < 100000; ++i)
      out += close;
    return out + ";\nret;\n}";
  };
  BOOST_TEST(try_text(deep("{", "}")) == CUDA_ERROR_INVALID_PTX);
  BOOST_TEST(try_text(deep("[", "]")) == CUDA_ERROR_INVALID_PTX);
  BOOST_TEST(try_text(deep("!", "")) == CUDA_ERROR_INVALID_PTX);
}

// PTX ISA, "Kernel Function Parameter Attribute: .ptr": the alignment is that
// of the memory that the pointer points to.
BOOST_AUTO_TEST_CASE(pointers_are_aligned_as_numbers_of_their_size) {
  load_ptx(std::string{header} +
           ".visible .entry k(.param .u32 a, .param .u64 .ptr .align 1 b,\n"
           "  .param .u8 c, .param .u64 .ptr .global .align 16 d) {\nret;\n}");
  auto& k = info.kernels[kernel("k")];
  BOOST_TEST(k.parameters[1].offset == 8u);
  BOOST_TEST(k.parameters[3].offset == 24u);
}

BOOST_AUTO_TEST_CASE(kernels_are_described) {
  load(read_file(DEVICE_CODE "/kernels.ptx"));
  auto& k = info.kernels[kernel("matmul")];
  BOOST_TEST(k.name == "matmul");
  BOOST_REQUIRE_EQUAL(k.parameters.size(), 4u);
  BOOST_TEST(k.parameters[3].offset == 24u);
  BOOST_TEST(k.parameters[3].size == 4u);
  BOOST_TEST(k.attributes.at(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 2048);
  BOOST_TEST(k.attributes.at(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024);
  auto& b = info.kernels[kernel("by_value")];
  BOOST_TEST(b.parameters[0].size == 88u);
  BOOST_TEST(b.parameters[2].offset == 96u);
  auto clusters = [&](std::uint32_t size, std::uint32_t shared) {
    vgpu::device::launch shape;
    shape.module = module;
    shape.kernel = kernel("vector_add");
    shape.grid = {16, 1, 1};
    shape.block = {256, 1, 1};
    shape.cluster = {size, 1, 1};
    shape.dynamic_shared = shared;
    return *dev->active_clusters(shape);
  };
  auto multiprocessors = static_cast<std::uint32_t>(
      dev->props().attributes.at(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  BOOST_TEST(clusters(1, 0) == 8 * multiprocessors);
  BOOST_TEST(clusters(2, 0) == 4 * multiprocessors);
  BOOST_TEST(clusters(1, 100000) == 2 * multiprocessors);
}

BOOST_AUTO_TEST_CASE(variables_lie_where_only_devices_place_memory) {
  load(read_file(DEVICE_CODE "/kernels.ptx"));
  auto found = std::find_if(info.globals.begin(), info.globals.end(),
                            [](auto& x) { return x.name == "numbers"; });
  BOOST_REQUIRE(found != info.globals.end());
  BOOST_TEST(found->bytes == 12u);
  BOOST_TEST(found->address >= base + device_placed_offset);
  // A second device that loads the same image places them alike.
  auto again = device::open_cpu_device({1, 1u << 30, 1}, 1u << 30);
  BOOST_REQUIRE(again->reserve_window(base + window_bytes).ok());
  auto other = again->load_module({1}, read_file(DEVICE_CODE "/kernels.ptx"));
  BOOST_REQUIRE(other.ok());
  for (auto i = 0u; i < info.globals.size(); ++i)
    BOOST_TEST(other->globals[i].address ==
               info.globals[i].address + window_bytes);
}

BOOST_AUTO_TEST_CASE(a_module_that_does_not_fit_takes_nothing) {
  auto big = std::string{header} + ".visible .global .b8 a[4000000000];\n";
  BOOST_TEST(try_text(big) == CUDA_ERROR_OUT_OF_MEMORY);
  // The whole quota is free again, except for the granule that was begun.
  BOOST_TEST(dev->map(base, (std::uint64_t{1} << 30) - granule_bytes).ok());
}

BOOST_AUTO_TEST_CASE(unloading_a_module_frees_its_memory) {
  auto text = std::string{header} + ".visible .global .b8 a[100000000];\n";
  for (auto i = 0; i < 30; ++i) {
    load_ptx(text);
    BOOST_TEST(dev->unload_module(module).ok());
    BOOST_TEST(synchronize() == CUDA_SUCCESS);
  }
  BOOST_TEST(cuda_code(dev->unload_module(module)) ==
             CUDA_ERROR_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(memory_of_variables_and_code_is_reported_separately) {
  auto before = dev->beside();
  BOOST_TEST(before.variables.value() == 0u);
  BOOST_TEST(before.code.value() == 0u);
  BOOST_TEST(before.context.value() == 0u);
  load_ptx(std::string{header} + ".visible .global .b8 a[5000000];\n"
                                 ".visible .entry k() { ret; }\n");
  auto with = dev->beside();
  // The variables touch three granules.
  BOOST_TEST(with.variables.value() == 3 * granule_bytes);
  BOOST_TEST(with.code.value() > 0u);
  BOOST_TEST(with.code.value() < 4096u);
  // The program's allocations do not count.
  BOOST_REQUIRE(dev->map(base, granule_bytes).ok());
  BOOST_TEST(dev->beside().variables.value() == 3 * granule_bytes);
  BOOST_REQUIRE(dev->unload_module(module).ok());
  BOOST_TEST(dev->beside().code.value() == 0u);
  // The granule in which the next module will begin stays.
  BOOST_TEST(dev->beside().variables.value() == granule_bytes);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
