// The nvidia device: the window, and memory that the program places.
#include "devices/nvidia/memory/spare_memory.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

using namespace vgpu;
using namespace vgpu::device;
using namespace vgpu::test;

// -- memory that the program places by itself ---------------------------------

BOOST_FIXTURE_TEST_SUITE(placed_memory, with_device)

BOOST_AUTO_TEST_CASE(placed_memory_is_the_drivers_at_the_programs_address) {
  auto& unit = dynamic_cast<memory_unit&>(*dev);
  auto before = created();
  BOOST_REQUIRE(unit.create_memory(memory_id{1}, 4 * g).ok());
  BOOST_TEST(created() - before == 4 * g);
  BOOST_TEST(unit.map_memory(base + 8 * g, 4 * g, memory_id{1}).ok());
  BOOST_TEST(cuda_code(unit.map_memory(base + 9 * g, 4 * g, memory_id{1})) ==
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(cuda_code(unit.map_memory(base + 16 * g, 2 * g, memory_id{1})) ==
             CUDA_ERROR_NOT_SUPPORTED);
  BOOST_TEST(
      unit.set_access(base + 8 * g, 4 * g, memory_access::read_write).ok());
  BOOST_TEST(unit.unmap_memory(base + 8 * g, 4 * g).ok());
  BOOST_TEST(unit.destroy_memory(memory_id{1}).ok());
  BOOST_TEST(created() == before);
  BOOST_TEST(!unit.destroy_memory(memory_id{1}).ok());
  BOOST_TEST(!unit.map_memory(base + 8 * g, 4 * g, memory_id{1}).ok());
}

BOOST_AUTO_TEST_CASE(placing_memory_frees_what_was_kept_there) {
  auto& unit = dynamic_cast<memory_unit&>(*dev);
  BOOST_REQUIRE(dev->map(base, 4 * g).ok());
  BOOST_REQUIRE(unit.create_memory(memory_id{1}, 2 * g).ok());
  // Memory in use is not replaced.
  BOOST_TEST(!unit.map_memory(base, 2 * g, memory_id{1}).ok());
  BOOST_REQUIRE(dev->unmap(base, 4 * g).ok());
  outcome done;
  dev->when_done(std::nullopt, done.tell());
  BOOST_REQUIRE_EQUAL(done.wait(), CUDA_SUCCESS);
  BOOST_TEST(unit.map_memory(base, 2 * g, memory_id{1}).ok());
  BOOST_TEST(unit.unmap_memory(base, 2 * g).ok());
  BOOST_TEST(unit.destroy_memory(memory_id{1}).ok());
}

BOOST_AUTO_TEST_SUITE_END()

// -- spare memory -------------------------------------------------------------

BOOST_FIXTURE_TEST_SUITE(spare_memories, fake)

BOOST_AUTO_TEST_CASE(spare_memory_is_taken_and_given_back) {
  nvidia::spare_memory spare{api, 0};
  BOOST_REQUIRE(spare.reserve().ok());
  BOOST_TEST(!spare.taken());
  for (auto granules : {1, 300}) {
    BOOST_REQUIRE(spare.take(granules * g).ok());
    BOOST_TEST(spare.taken());
    BOOST_TEST(created() == granules * g);
    spare.give_back();
    BOOST_TEST(created() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_device_with_too_little_memory_keeps_all_of_it) {
  nvidia::spare_memory spare{api, 0};
  BOOST_REQUIRE(spare.reserve().ok());
  call<void(std::uint64_t)>("fake_memory")(200 * g);
  BOOST_TEST(cuda_code(spare.take(300 * g)) == CUDA_ERROR_OUT_OF_MEMORY);
  BOOST_TEST(!spare.taken());
  BOOST_TEST(created() == 0u);
  // More than the device has was not reserved.
  BOOST_TEST(cuda_code(spare.take(std::uint64_t{1} << 41)) ==
             CUDA_ERROR_OUT_OF_MEMORY);
}

BOOST_AUTO_TEST_SUITE_END()

// -- memory -------------------------------------------------------------------

BOOST_FIXTURE_TEST_SUITE(windows, with_window)

BOOST_AUTO_TEST_CASE(only_whole_granules_of_the_window_are_backed) {
  BOOST_TEST(!memory.map(base + 1, g).ok());
  BOOST_TEST(!memory.map(base, g / 2).ok());
  BOOST_TEST(!memory.map(base - g, g).ok());
  BOOST_TEST(!memory.map(base + window_bytes - g, 2 * g).ok());
  BOOST_TEST(memory.map(base, g).ok());
  BOOST_TEST(cuda_code(memory.map(base, g)) == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(here() == g);
}

BOOST_AUTO_TEST_CASE(other_devices_of_the_session_have_access) {
  auto may_use = [](device_address at, int device) {
    return call<int(CUdeviceptr, int)>("fake_access")(at, device) != 0;
  };
  BOOST_REQUIRE(memory.map(base, g).ok());
  BOOST_TEST((may_use(base, 0) && !may_use(base, 2)));
  nvidia::window shared{api, 1, {0, 2}};
  BOOST_REQUIRE(shared.reserve(base + window_bytes).ok());
  BOOST_REQUIRE(shared.map(base + window_bytes, 2 * g).ok());
  for (auto device : {0, 1, 2})
    BOOST_TEST(may_use(base + window_bytes, device));
}

BOOST_AUTO_TEST_CASE(freed_memory_is_kept_and_reused) {
  BOOST_REQUIRE(memory.map(base, 4 * g).ok());
  BOOST_REQUIRE(memory.retire(base, 4 * g).ok());
  BOOST_TEST(memory.map(base, 4 * g).ok()); // while it is being freed
  memory.release(base, 4 * g);
  BOOST_TEST(here() == 4 * g);
  BOOST_TEST(!memory.map(base, g).ok()); // it is mapped already
}

BOOST_AUTO_TEST_CASE(large_freed_memory_returns_to_the_device) {
  auto much = nvidia::window::kept_bytes * 4;
  BOOST_REQUIRE(memory.map(base, much).ok());
  BOOST_REQUIRE(memory.retire(base, much).ok());
  BOOST_TEST(here() == much);
  memory.release(base, much);
  BOOST_TEST(here() <= nvidia::window::kept_bytes);
}

BOOST_AUTO_TEST_CASE(the_last_granule_is_freed_by_itself) {
  BOOST_REQUIRE(memory.map(base, 101 * g).ok());
  BOOST_REQUIRE(memory.retire(base, 100 * g).ok());
  memory.release(base, 100 * g);
  BOOST_TEST(here() == g);
}

BOOST_AUTO_TEST_CASE(a_part_of_a_piece_waits_for_the_rest) {
  BOOST_REQUIRE(memory.map(base, 100 * g).ok());
  BOOST_REQUIRE(memory.retire(base, 10 * g).ok());
  memory.release(base, 10 * g);
  BOOST_TEST(here() == 100 * g);
  BOOST_TEST(memory.map(base + 2 * g, 3 * g).ok()); // still there
  BOOST_REQUIRE(memory.retire(base + 2 * g, 3 * g).ok());
  BOOST_REQUIRE(memory.retire(base + 10 * g, 90 * g).ok());
  memory.release(base + 10 * g, 90 * g);
  BOOST_TEST(here() >= 99 * g); // three are still being freed
  memory.release(base + 2 * g, 3 * g);
  BOOST_TEST(here() == g); // kept
}

BOOST_AUTO_TEST_CASE(kept_memory_is_freed_before_an_allocation_fails) {
  BOOST_REQUIRE(memory.map(base, 8 * g).ok());
  BOOST_REQUIRE(memory.retire(base, 8 * g).ok());
  memory.release(base, 8 * g);
  BOOST_TEST(here() == 8 * g);
  call<void(std::uint64_t)>("fake_memory")(created());
  BOOST_TEST(memory.map(base + 100 * g, 6 * g).ok());
  BOOST_TEST(here() == 6 * g);
}

BOOST_AUTO_TEST_CASE(a_refused_allocation_leaves_nothing_behind) {
  BOOST_REQUIRE(memory.map(base + 2 * g, g).ok());
  BOOST_REQUIRE(memory.retire(base + 2 * g, g).ok());
  call<void(std::uint64_t)>("fake_memory")(created() + 2 * g);
  auto ok = memory.map(base, 100 * g);
  BOOST_TEST(cuda_code(ok) == CUDA_ERROR_OUT_OF_MEMORY);
  memory.release(base + 2 * g, g);
  call<void(std::uint64_t)>("fake_memory")(std::uint64_t{1} << 40);
  BOOST_TEST(memory.map(base, 100 * g).ok());
  BOOST_TEST(here() == 100 * g);
}

BOOST_AUTO_TEST_SUITE_END()
