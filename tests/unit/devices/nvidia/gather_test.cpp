// How many pieces of a real GPU's memory are read together: the kernel, run on
// the cpu device.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include "devices/nvidia/memory/memory_kernels.hpp"

#include <cstring>

using namespace vgpu;
using namespace vgpu::test;
using device::nvidia::gathered;

namespace {

struct gathers : device_fixture {
  static constexpr std::size_t bytes = 1 << 16;
  device_address from = memory(bytes);
  device_address list = memory(4096);
  device_address out = memory(bytes);
  std::vector<std::uint8_t> contents = noise();

  gathers() {
    load_ptx(device::nvidia::memory_kernels_ptx);
    upload(from, std::as_bytes(std::span{contents}));
    auto ones = std::vector<std::uint8_t>(bytes, 0xff);
    upload(out, std::as_bytes(std::span{ones}));
  }

  static std::vector<std::uint8_t> noise() {
    std::vector<std::uint8_t> x(bytes);
    std::uint32_t state = 7;
    for (auto& byte : x)
      byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >>
                                       24);
    return x;
  }
  void upload(device_address to, std::span<const std::byte> what) {
    auto copy =
        std::make_shared<std::vector<std::byte>>(what.begin(), what.end());
    BOOST_REQUIRE(dev->enqueue_write(legacy_stream, to, *copy, copy).ok());
  }
  std::vector<std::uint8_t> gather(const std::vector<gathered>& pieces) {
    upload(list, std::as_bytes(std::span{pieces}));
    auto ended =
        run("gather", {static_cast<std::uint32_t>(pieces.size()), 1, 1},
            {device::nvidia::gather_threads, 1, 1}, arguments{list, out});
    BOOST_REQUIRE(ended == CUDA_SUCCESS);
    return download<std::uint8_t>(out, bytes);
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(gather_kernel, gathers)

BOOST_AUTO_TEST_CASE(pieces_of_any_size_and_place_come_whole) {
  std::vector<gathered> pieces;
  std::uint32_t place = 0;
  auto add = [&](std::uint64_t offset, std::uint32_t size) {
    pieces.push_back({from + offset, size, place});
    place += (size + 15) / 16 * 16 + 16; // with a gap
  };
  for (auto size : {1u, 4u, 15u, 16u, 17u, 2047u, 2048u, 2064u, 5000u})
    for (auto offset : {0u, 1u, 8u, 16u, 4096u})
      add(offset + size, size);
  BOOST_REQUIRE(place <= bytes);
  auto got = gather(pieces);
  auto wanted = std::vector<std::uint8_t>(bytes, 0xff);
  for (auto& x : pieces)
    std::memcpy(wanted.data() + x.place, contents.data() + (x.from - from),
                x.bytes);
  BOOST_TEST((got == wanted));
}

BOOST_AUTO_TEST_CASE(each_piece_has_its_own_block) {
  std::vector<gathered> pieces;
  for (std::uint32_t i = 0; i < 256; ++i)
    pieces.push_back({from + 3 * i, 2, 16 * i});
  auto got = gather(pieces);
  for (auto& x : pieces)
    BOOST_TEST(std::memcmp(got.data() + x.place,
                           contents.data() + (x.from - from), 2) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
