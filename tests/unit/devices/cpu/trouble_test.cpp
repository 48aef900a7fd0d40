// Faults of kernels, injected faults, quotas, and a device's end during work.
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include <atomic>

namespace vgpu::test {

namespace {

struct trouble : device_fixture {
  trouble() : device_fixture{std::uint64_t{32} << 20} {
    load(read_file(DEVICE_CODE "/kernels.ptx"));
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(trouble_of_devices, trouble)

BOOST_AUTO_TEST_CASE(an_illegal_address_is_sticky) {
  auto out = memory(4);
  BOOST_TEST(
      run("write_to", {1}, {32}, arguments{base + window_bytes / 2, 1}) ==
      CUDA_ERROR_ILLEGAL_ADDRESS);
  BOOST_TEST(dev->error() == CUDA_ERROR_ILLEGAL_ADDRESS);
  // Later work is not executed.
  BOOST_TEST(run("write_to", {1}, {1}, arguments{out, 5}) ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
  BOOST_TEST(*reinterpret_cast<int*>(out) == 0);
  download<int>(out, 1);
  BOOST_TEST(last == CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_CASE(a_null_pointer_is_an_illegal_address) {
  BOOST_TEST(run("write_to", {1}, {32}, arguments{device_address{0}, 1}) ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_CASE(a_write_across_the_end_of_memory_is_illegal) {
  auto at = memory(1);
  BOOST_TEST(
      run("write_to", {1}, {32}, arguments{at + granule_bytes - 64, 1}) ==
      CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_CASE(a_misaligned_address_is_reported) {
  auto at = memory(4096);
  BOOST_TEST(run("write_to", {1}, {32}, arguments{at + 2, 1}) ==
             CUDA_ERROR_MISALIGNED_ADDRESS);
}

BOOST_AUTO_TEST_CASE(a_trap_fails_the_launch) {
  BOOST_TEST(run("claim", {1}, {1}, arguments{7}) == CUDA_SUCCESS);
  BOOST_TEST(run("claim", {1}, {1}, arguments{8}) == CUDA_ERROR_LAUNCH_FAILED);
}

BOOST_AUTO_TEST_CASE(a_barrier_that_is_never_met_ends_the_kernel) {
  auto out = memory(4096);
  BOOST_TEST(run("bad_barrier", {1}, {64}, arguments{out}) ==
             CUDA_ERROR_LAUNCH_TIMEOUT);
}

namespace {

// Block 0 waits for its cluster. Block 1 arrives only if `well` is not 0.
constexpr auto waits_for_a_cluster = R"(
.version 8.5
.target sm_90
.address_size 64
.visible .entry waits(.param .u32 well)
.maxclusterrank 4
{
  .reg .pred %p;
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [well];
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p, %r2, 0;
  @%p bra together;
  setp.ne.u32 %p, %r1, 0;
  @%p bra together;
  bar.sync 1, 64;
together:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}
)";

} // namespace

BOOST_AUTO_TEST_CASE(a_cluster_that_never_meets_ends_the_kernel) {
  load_ptx(waits_for_a_cluster);
  auto code = [&](device::dim3 grid, device::dim3 cluster, int well) {
    auto parameters = arguments{well};
    auto x = device::launch{};
    x.module = module;
    x.grid = grid;
    x.cluster = cluster;
    x.parameters = parameters.bytes();
    return cuda_code(dev->enqueue_launch(legacy_stream, x));
  };
  auto bad = CUDA_ERROR_INVALID_CLUSTER_SIZE;
  BOOST_TEST(code({8}, {3, 1, 1}, 1) == bad);
  BOOST_TEST(code({8}, {8, 1, 1}, 1) == bad); // .maxclusterrank
  BOOST_TEST(code({8}, {2, 0, 1}, 1) == bad);
  BOOST_TEST(code({8}, {0x80000000u, 0x80000000u, 0xffffffffu}, 1) == bad);
  BOOST_TEST(code({8}, {4, 1, 1}, 1) == CUDA_SUCCESS);
  BOOST_TEST(synchronize() == CUDA_SUCCESS);
  BOOST_TEST(code({8}, {2, 1, 1}, 0) == CUDA_SUCCESS);
  BOOST_TEST(synchronize() == CUDA_ERROR_LAUNCH_TIMEOUT);
}

BOOST_AUTO_TEST_CASE(impossible_launches_are_refused) {
  auto out = memory(4096);
  auto code = [&](device::dim3 grid, device::dim3 block, unsigned shared = 0) {
    return cuda_code(
        launch("write_to", grid, block, arguments{out, 1}, shared));
  };
  BOOST_TEST(code({1}, {0}) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(code({1}, {1025}) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(code({1}, {64, 64}) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(code({1}, {1, 1, 65}) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(code({0}, {1}) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(code({1, 70000}, {1}) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(code({1}, {1}, 49153) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(cuda_code(dev->set_kernel_attribute(
                 module, kernel("write_to"),
                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232449)) ==
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(dev->set_kernel_attribute(
                    module, kernel("write_to"),
                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448)
                 .ok());
  BOOST_TEST(code({1}, {1}, 232448) == CUDA_SUCCESS);
  BOOST_TEST(synchronize() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(the_quota_is_exact) {
  // The quota is 32 MiB. Allocations may have all of it beside the module's
  // variables, whose granules only the device knows.
  auto free = std::uint64_t{32} << 20;
  BOOST_TEST(cuda_code(dev->map(base, free + granule_bytes)) ==
             CUDA_ERROR_OUT_OF_MEMORY);
  BOOST_TEST(dev->map(base, free).ok());
  BOOST_TEST(cuda_code(dev->map(base + free, granule_bytes)) ==
             CUDA_ERROR_OUT_OF_MEMORY);
  BOOST_TEST(dev->unmap(base, granule_bytes).ok());
  BOOST_TEST(dev->map(base + free, granule_bytes).ok());
}

BOOST_AUTO_TEST_CASE(memory_that_is_mapped_again_is_zero_in_stream_order) {
  auto at = memory(4096);
  for (auto i = 1; i < 5; ++i) {
    BOOST_TEST(launch("write_to", {1}, {32}, arguments{at, i}).ok());
    BOOST_TEST(dev->unmap(at, granule_bytes).ok());
    BOOST_TEST(dev->map(at, granule_bytes).ok());
  }
  auto got = download<int>(at, 32);
  BOOST_TEST(last == CUDA_SUCCESS);
  for (auto x : got)
    BOOST_TEST(x == 0);
}

BOOST_AUTO_TEST_CASE(unmapped_memory_cannot_be_used) {
  auto at = memory(4096);
  BOOST_TEST(dev->unmap(at, granule_bytes).ok());
  auto word = std::make_shared<int>(1);
  BOOST_TEST(cuda_code(dev->enqueue_write(
                 legacy_stream, at, std::as_bytes(std::span{word.get(), 1}),
                 word)) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(run("write_to", {1}, {1}, arguments{at, 1}) ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_CASE(a_lost_device_fails_all_work) {
  auto flag = memory(4);
  BOOST_TEST(launch("loop_for_ever", {4}, {64}, arguments{flag}).ok());
  auto done = outcome{};
  dev->when_done(std::nullopt, done.tell());
  dev->inject(injected_fault::lost);
  BOOST_TEST(done.wait() == CUDA_ERROR_DEVICE_UNAVAILABLE);
  BOOST_TEST(dev->error() == CUDA_ERROR_DEVICE_UNAVAILABLE);
  BOOST_TEST(cuda_code(launch("write_to", {1}, {1}, arguments{flag, 1})) ==
             CUDA_ERROR_DEVICE_UNAVAILABLE);
}

BOOST_AUTO_TEST_CASE(an_ecc_error_is_sticky) {
  dev->inject(injected_fault::ecc);
  BOOST_TEST(synchronize() == CUDA_ERROR_ECC_UNCORRECTABLE);
}

BOOST_AUTO_TEST_CASE(a_hung_device_completes_nothing_and_can_be_closed) {
  auto flag = memory(4);
  auto running = outcome{};
  auto later = outcome{};
  BOOST_TEST(launch("loop_for_ever", {4}, {64}, arguments{flag}).ok());
  dev->when_done(std::nullopt, running.tell());
  dev->inject(injected_fault::hang);
  *reinterpret_cast<int*>(flag) = 1;
  dev->when_done(std::nullopt, later.tell());
  BOOST_TEST(!running.told());
  BOOST_TEST(!later.told());
  dev.reset();
  BOOST_TEST(running.wait() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  BOOST_TEST(later.wait() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  BOOST_TEST(running.times() == 1);
}

BOOST_AUTO_TEST_CASE(a_device_can_close_while_a_kernel_loops) {
  auto flag = memory(4);
  auto done = outcome{};
  BOOST_TEST(launch("loop_for_ever", {64}, {256}, arguments{flag}).ok());
  dev->when_done(std::nullopt, done.tell());
  dev.reset();
  BOOST_TEST(done.wait() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

BOOST_AUTO_TEST_CASE(a_failed_assertion_is_printed_and_ends_the_kernel) {
  auto text = std::string{};
  dev->set_printer([&](console where, std::string_view x) {
    BOOST_TEST((where == console::error));
    text += x;
  });
  BOOST_TEST(run("insist", {1}, {2}, arguments{1}) == CUDA_ERROR_ASSERT);
  BOOST_TEST(
      text.find("block: [0,0,0], thread: [1,0,0] Assertion `x == "
                "int(threadIdx.x) * 0 + 1 - int(threadIdx.x)` failed.") !=
          std::string::npos,
      text);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
