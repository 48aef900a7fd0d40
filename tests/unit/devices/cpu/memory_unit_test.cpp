// Memory that a program places by itself.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include "devices/interface/memory_unit.hpp"
#include "schema/base/cuda_fault.hpp"

#include <sys/mman.h>

namespace vgpu::test {

namespace {

struct placed : device_fixture {
  static constexpr auto quota = std::uint64_t{16} << 20;
  static constexpr auto g = granule_bytes;

  placed() : device_fixture{quota} {
    load(read_file(DEVICE_CODE "/kernels.ptx"));
  }

  device::memory_unit& unit = dynamic_cast<device::memory_unit&>(*dev);
  device_address at = base + 1024 * g;

  void map(std::uint64_t granule, std::uint64_t count, memory_id id) {
    auto address = at + granule * g;
    BOOST_REQUIRE(unit.map_memory(address, count * g, id).ok());
    BOOST_REQUIRE(
        unit.set_access(address, count * g, memory_access::read_write).ok());
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(memory_of_the_program, placed)

BOOST_AUTO_TEST_CASE(memory_can_be_mapped_at_two_places) {
  BOOST_REQUIRE(unit.create_memory(memory_id{1}, 2 * g).ok());
  map(0, 2, memory_id{1});
  map(5, 2, memory_id{1});
  BOOST_TEST(run("write_to", {1}, {1}, arguments{at + g, 7}) == CUDA_SUCCESS);
  BOOST_TEST(*reinterpret_cast<int*>(at + 6 * g) == 7);
  BOOST_REQUIRE(unit.unmap_memory(at, 2 * g).ok());
  // The memory outlives its handle and its first mapping.
  BOOST_REQUIRE(unit.destroy_memory(memory_id{1}).ok());
  BOOST_TEST(*reinterpret_cast<int*>(at + 6 * g) == 7);
  BOOST_REQUIRE(unit.unmap_memory(at + 5 * g, 2 * g).ok());
}

BOOST_AUTO_TEST_CASE(memory_without_access_cannot_be_used) {
  BOOST_REQUIRE(unit.create_memory(memory_id{1}, g).ok());
  map(0, 1, memory_id{1});
  BOOST_REQUIRE(unit.set_access(at, g, memory_access::none).ok());
  BOOST_TEST(cuda_code(dev->enqueue_fill(legacy_stream, {at}, 0, 1, {16})) ==
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(run("write_to", {1}, {1}, arguments{at, 7}) ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_CASE(memory_counts_until_its_last_mapping_ends) {
  BOOST_REQUIRE(unit.create_memory(memory_id{1}, quota / 2).ok());
  map(0, quota / 2 / g, memory_id{1});
  BOOST_REQUIRE(unit.destroy_memory(memory_id{1}).ok());
  BOOST_TEST(cuda_code(unit.create_memory(memory_id{2}, quota / 2 + g)) ==
             CUDA_ERROR_OUT_OF_MEMORY);
  BOOST_REQUIRE(unit.unmap_memory(at, quota / 2).ok());
  BOOST_TEST(unit.create_memory(memory_id{2}, quota / 2 + g).ok());
}

BOOST_AUTO_TEST_CASE(host_memory_can_be_mapped_as_well) {
  auto* host = static_cast<int*>(mmap(nullptr, 2 * g, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  BOOST_REQUIRE(host != MAP_FAILED);
  auto from = reinterpret_cast<device_address>(host);
  BOOST_TEST(!unit.map_host(at, 2 * g, from).ok()); // It is not attached.
  BOOST_REQUIRE(dev->attach_host(from, 2 * g).ok());
  BOOST_TEST(!unit.map_host(at, 3 * g, from).ok());
  BOOST_TEST(!unit.map_host(base - g, 2 * g, from).ok());
  BOOST_REQUIRE(unit.map_host(at, 2 * g, from).ok());
  BOOST_TEST(cuda_code(dev->enqueue_fill(legacy_stream, {at}, 0, 1, {16})) ==
             CUDA_ERROR_INVALID_VALUE);
  BOOST_REQUIRE(unit.set_access(at, 2 * g, memory_access::read_write).ok());
  BOOST_TEST(run("write_to", {1}, {1}, arguments{at + g, 7}) == CUDA_SUCCESS);
  BOOST_TEST(host[g / sizeof(int)] == 7);
  // It counts for no quota.
  BOOST_TEST(unit.create_memory(memory_id{1}, quota).ok());
  BOOST_REQUIRE(unit.unmap_memory(at, 2 * g).ok());
  BOOST_TEST(host[g / sizeof(int)] == 7);
  BOOST_TEST(run("write_to", {1}, {1}, arguments{at + g, 8}) ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
  BOOST_TEST(dev->detach_host(from, 2 * g).ok());
  munmap(host, 2 * g);
}

BOOST_AUTO_TEST_CASE(private_host_memory_cannot_be_mapped_a_second_time) {
  auto* host = mmap(nullptr, g, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BOOST_REQUIRE(host != MAP_FAILED);
  auto from = reinterpret_cast<device_address>(host);
  BOOST_REQUIRE(dev->attach_host(from, g).ok());
  BOOST_TEST(!unit.map_host(at, g, from).ok());
  BOOST_REQUIRE(unit.create_memory(memory_id{1}, g).ok());
  map(0, 1, memory_id{1});
  BOOST_TEST(dev->detach_host(from, g).ok());
  munmap(host, g);
}

BOOST_AUTO_TEST_CASE(impossible_mappings_are_refused) {
  BOOST_REQUIRE(unit.create_memory(memory_id{1}, 2 * g).ok());
  BOOST_TEST(!unit.create_memory(memory_id{1}, 2 * g).ok());
  BOOST_TEST(!unit.map_memory(at, 3 * g, memory_id{1}).ok());
  BOOST_TEST(!unit.map_memory(at, g, memory_id{1}).ok());
  BOOST_TEST(!unit.map_memory(at, 2 * g, memory_id{2}).ok());
  BOOST_TEST(!unit.map_memory(base - g, 2 * g, memory_id{1}).ok());
  BOOST_TEST(!unit.unmap_memory(at, g).ok());
  BOOST_TEST(!unit.destroy_memory(memory_id{2}).ok());
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
