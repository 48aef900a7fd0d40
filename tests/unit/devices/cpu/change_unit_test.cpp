// Which changes of its memory a device notices, and memory that is a file's.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include "devices/interface/change_unit.hpp"
#include "devices/interface/file_unit.hpp"
#include "devices/interface/memory_unit.hpp"
#include "schema/log/session_area.hpp"

#include <array>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vgpu::test {

namespace {

struct watched : device_fixture {
  static constexpr auto g = granule_bytes;

  watched() { load(read_file(DEVICE_CODE "/kernels.ptx")); }

  device::change_unit& changes = dynamic_cast<device::change_unit&>(*dev);
  status peek(std::span<std::byte> into, device_address from) {
    device::peeked piece{from, into, {}};
    changes.peek({&piece, 1});
    return piece.outcome;
  }

  std::uint64_t mark() {
    auto got = changes.mark();
    if (!got)
      BOOST_FAIL(got.why().what);
    return *got;
  }

  /// Returns a digit for each granule: 1 if it changed since the mark.
  std::string since(std::uint64_t mark, device_address at,
                    std::uint64_t bytes) {
    BOOST_REQUIRE_EQUAL(synchronize(), CUDA_SUCCESS);
    std::string out;
    for (auto x = at; x != at + bytes; x += g)
      out += changes.changed_since(x + 8, mark) ? '1' : '0';
    return out;
  }

  void write(device_address at, int value) {
    BOOST_REQUIRE(run("write_to", {1}, {1}, arguments{at, value}) ==
                  CUDA_SUCCESS);
  }
};

/// Returns the bytes of a file that occupy memory.
std::uint64_t in_memory(int file) {
  struct stat info {};
  BOOST_REQUIRE(::fstat(file, &info) == 0);
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(memory_that_changes, watched)

BOOST_AUTO_TEST_CASE(writes_of_kernels_and_copies_are_noticed) {
  auto at = memory(6 * g);
  write(at, 1);
  auto first = mark();
  BOOST_TEST(first != 0u);
  BOOST_TEST(since(first, at, 6 * g) == "000000");
  BOOST_TEST(download<int>(at, 1)[0] == 1);
  BOOST_TEST(since(first, at, 6 * g) == "000000"); // it was only read
  write(at + g - 4, 2);
  BOOST_TEST(since(first, at, 6 * g) == "100000");
  BOOST_REQUIRE(
      dev->enqueue_fill(legacy_stream, {at + 2 * g - 8}, 7, 4, {4}).ok());
  BOOST_TEST(since(first, at, 6 * g) == "111000");
  auto bytes = std::make_shared<std::vector<std::byte>>(g, std::byte{3});
  BOOST_REQUIRE(
      dev->enqueue_write(legacy_stream, at + 3 * g, *bytes, bytes).ok());
  BOOST_REQUIRE(dev->enqueue_copy(legacy_stream, {at + 5 * g, g, g},
                                  {at + 3 * g, g, g}, {g})
                    .ok());
  BOOST_TEST(since(first, at, 6 * g) == "111101");
  BOOST_TEST(*reinterpret_cast<int*>(at + g - 4) == 2);
  BOOST_TEST(*reinterpret_cast<int*>(at + 2 * g) == 7);
}

BOOST_AUTO_TEST_CASE(changes_are_counted_from_each_mark) {
  auto at = memory(3 * g);
  auto first = mark();
  write(at, 1);
  auto second = mark();
  write(at + g, 1);
  auto third = mark();
  BOOST_TEST(second > first);
  BOOST_TEST(since(first, at, 3 * g) == "110");
  BOOST_TEST(since(second, at, 3 * g) == "010");
  BOOST_TEST(since(third, at, 3 * g) == "000");
  write(at, 2);
  BOOST_TEST(since(third, at, 3 * g) == "100");
  BOOST_TEST(since(second, at, 3 * g) == "110");
}

BOOST_AUTO_TEST_CASE(memory_that_is_mapped_again_has_changed) {
  auto at = memory(2 * g);
  write(at, 1);
  auto before = mark();
  auto later = memory(g);
  BOOST_TEST(since(before, later, g) == "1");
  // The memory is unmapped before the work that uses it is done.
  BOOST_REQUIRE(launch("write_to", {1}, {1}, arguments{at, 5}).ok());
  BOOST_REQUIRE(dev->unmap(at, 2 * g).ok());
  BOOST_REQUIRE(dev->map(at, 2 * g).ok());
  BOOST_TEST(since(before, at, 2 * g) == "11");
  BOOST_TEST(download<int>(at, 1)[0] == 0);
  auto after = mark();
  BOOST_TEST(since(after, at, 2 * g) == "00");
  write(at, 6);
  BOOST_TEST(since(after, at, 2 * g) == "10");
}

BOOST_AUTO_TEST_CASE(memory_that_cannot_be_watched_counts_as_changed) {
  auto& places = dynamic_cast<device::memory_unit&>(*dev);
  auto at = base + 512 * g;
  BOOST_REQUIRE(places.create_memory(memory_id{1}, g).ok());
  BOOST_REQUIRE(places.map_memory(at, g, memory_id{1}).ok());
  BOOST_REQUIRE(places.set_access(at, g, memory_access::read_write).ok());
  auto now = mark();
  BOOST_TEST(since(now, at, g) == "1");
  write(at, 4); // it can be written
  BOOST_TEST(changes.changed_since(base - g, now));
}

// Copies are made while kernels write. A granule that did not change since the
// mark before its copy must equal the copy.
BOOST_AUTO_TEST_CASE(copies_made_during_work_are_right) {
  constexpr std::uint64_t count = 24;
  auto at = memory(count * g);
  std::vector<int> copies(count);
  std::vector<std::uint64_t> marks(count);
  std::uint64_t kept = 0;
  auto streams = std::vector<stream_id>{};
  for (auto i = 0u; i < 3; ++i) {
    streams.push_back(stream_id{10 + i});
    BOOST_REQUIRE(dev->create_stream(streams.back(), true, 0).ok());
  }
  auto number = 0;
  auto write_some = [&](unsigned round) {
    for (auto i = 0u; i < 40; ++i) {
      auto where = at + (round * 7 + i * i) % count * g;
      BOOST_REQUIRE(launch("write_to", {1}, {1}, arguments{where, ++number}, 0,
                           streams[i % streams.size()])
                        .ok());
    }
  };
  for (auto round = 0u; round < 60; ++round) {
    write_some(round);
    auto now = mark();
    for (auto i = round % 3; i < count; i += 3) {
      BOOST_REQUIRE(
          peek(std::as_writable_bytes(std::span{&copies[i], 1}), at + i * g)
              .ok());
      marks[i] = now;
    }
    if (round % 5 != 0)
      continue;
    BOOST_REQUIRE_EQUAL(synchronize(), CUDA_SUCCESS);
    for (auto i = 0u; i < count; ++i)
      if (marks[i] != 0 && !changes.changed_since(at + i * g, marks[i])) {
        ++kept;
        BOOST_TEST_REQUIRE(*reinterpret_cast<int*>(at + i * g) == copies[i]);
      }
  }
  BOOST_TEST(kept > 0u);
}

BOOST_AUTO_TEST_CASE(kept_copies_are_of_the_moment_when_they_were_kept) {
  auto at = memory(3 * g);
  mark();
  write(at, 1);
  write(at + 2 * g, 3);
  auto room = changes.make_room(2);
  BOOST_REQUIRE(room.ok());
  BOOST_REQUIRE((*room)->keep(std::array{at, at + 2 * g}).ok());
  write(at, 7);
  write(at + 2 * g, 7);
  std::array<int, 3> words{};
  std::array<device::peeked, 3> pieces;
  for (auto i = 0u; i < 3; ++i)
    pieces[i] = {
        at + i * g, std::as_writable_bytes(std::span{&words[i], 1}), {}};
  (*room)->peek(pieces);
  BOOST_TEST((pieces[0].outcome.ok() && pieces[2].outcome.ok()));
  BOOST_TEST(!pieces[1].outcome.ok());
  BOOST_TEST(words[0] == 1);
  BOOST_TEST(words[2] == 3);
}

BOOST_AUTO_TEST_CASE(there_is_no_room_for_more_than_the_device_has) {
  BOOST_TEST(!changes.make_room(std::uint64_t{1} << 40).ok());
  auto room = changes.make_room(1);
  BOOST_REQUIRE(room.ok());
  auto at = memory(2 * g);
  BOOST_TEST(!(*room)->keep(std::array{at, at + g}).ok());
}

BOOST_AUTO_TEST_CASE(unmapped_memory_cannot_be_peeked_at) {
  auto at = memory(2 * g);
  write(at + g, 8);
  std::vector<std::byte> into(g);
  BOOST_REQUIRE(peek(into, at + g).ok());
  BOOST_TEST(std::to_integer<int>(into[0]) == 8);
  BOOST_REQUIRE(dev->unmap(at + g, g).ok());
  BOOST_REQUIRE_EQUAL(synchronize(), CUDA_SUCCESS);
  // The other pieces are copied.
  std::vector<std::byte> others(2 * g);
  std::array<device::peeked, 3> pieces{
      device::peeked{at, std::span{others}.first(g), {}},
      device::peeked{at + g, into, {}},
      device::peeked{at, std::span{others}.last(g), {}}};
  changes.peek(pieces);
  BOOST_TEST(pieces[0].outcome.ok());
  BOOST_TEST(!pieces[1].outcome.ok());
  BOOST_TEST(pieces[2].outcome.ok());
  BOOST_TEST(!peek(into, base - g).ok());
}

BOOST_AUTO_TEST_CASE(memory_can_be_adopted_from_a_file) {
  auto& files = dynamic_cast<device::file_unit&>(*dev);
  auto at = memory(3 * g);
  unique_fd file{::memfd_create("contents", MFD_CLOEXEC)};
  BOOST_REQUIRE(::ftruncate(file.get(), static_cast<off_t>(8 * g)) == 0);
  std::vector<int> words(2 * g / sizeof(int));
  for (auto i = 0u; i < words.size(); ++i)
    words[i] = static_cast<int>(i);
  BOOST_REQUIRE(
      ::pwrite(file.get(), words.data(), 2 * g, static_cast<off_t>(5 * g)) ==
      static_cast<ssize_t>(2 * g));
  auto before = mark();
  BOOST_TEST(!files.adopt(at + 8, g, file.get(), 0).ok());
  BOOST_TEST(!files.adopt(at + 2 * g, 2 * g, file.get(), 0).ok());
  BOOST_TEST(!files.adopt(at + g, g, -1, 0).ok());
  auto ok = files.adopt(at + g, 2 * g, file.get(), 5 * g);
  BOOST_REQUIRE_MESSAGE(ok.ok(), ok.why().what);
  BOOST_TEST(since(before, at, 3 * g) == "011");
  BOOST_TEST((download<int>(at + g, words.size()) == words));
  BOOST_TEST(download<int>(at, 1)[0] == 0);
  auto now = mark();
  write(at + 2 * g, -5);
  BOOST_TEST(since(now, at, 3 * g) == "001");
  int got = 0;
  BOOST_REQUIRE(::pread(file.get(), &got, sizeof got,
                        static_cast<off_t>(6 * g)) == sizeof got);
  BOOST_TEST(got == -5);
  // Freed granules leave the file, whether they are watched or not.
  BOOST_TEST(in_memory(file.get()) == 2 * g);
  BOOST_REQUIRE(dev->unmap(at + g, g).ok());
  BOOST_REQUIRE_EQUAL(synchronize(), CUDA_SUCCESS);
  BOOST_TEST(in_memory(file.get()) == g);
  BOOST_REQUIRE(dev->unmap(at + 2 * g, g).ok());
  BOOST_REQUIRE_EQUAL(synchronize(), CUDA_SUCCESS);
  BOOST_TEST(in_memory(file.get()) == 0u);
  BOOST_REQUIRE(dev->map(at + g, g).ok());
  BOOST_TEST(download<int>(at + g, 1)[0] == 0);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
