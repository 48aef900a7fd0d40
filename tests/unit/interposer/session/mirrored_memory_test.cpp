// Memory of the program's own, and the copy of it that devices use.
#include "interposer/session/mirrored_memory.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

using vgpu::interposer::mirrored_memory;

namespace {

std::uintptr_t address(const void* x) {
  return reinterpret_cast<std::uintptr_t>(x);
}

struct two_sides {
  explicit two_sides(std::size_t bytes) : own(bytes, 'a'), copy(bytes) {}

  mirrored_memory mirror{address(nullptr), {}};
  std::string own;
  std::vector<std::byte> copy;

  void begin() { mirror = mirrored_memory{address(own.data()), copy}; }
  std::string copied() const {
    return {reinterpret_cast<const char*>(copy.data()), copy.size()};
  }
  void device_writes(std::size_t at, char what) {
    copy.at(at) = static_cast<std::byte>(what);
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(mirrored_memories)

BOOST_AUTO_TEST_CASE(the_copy_begins_as_the_memory_is) {
  two_sides x{100'001};
  x.own.back() = 'z';
  x.begin();
  BOOST_TEST((x.copied() == x.own));
}

BOOST_AUTO_TEST_CASE(each_side_gets_what_the_other_changed) {
  two_sides x{200'000};
  x.begin();
  // Also at the edges of the parts in which it is compared.
  for (auto at : {0, 65534, 65535, 65536, 131071, 199'999}) {
    auto i = static_cast<std::size_t>(at);
    x.own[i] = 'p';
    x.mirror.put();
    BOOST_TEST((x.copied() == x.own));
    x.device_writes(i, 'd');
    x.mirror.take();
    BOOST_TEST(x.own[i] == 'd');
    BOOST_TEST((x.copied() == x.own));
  }
}

BOOST_AUTO_TEST_CASE(both_sides_change_bytes_of_one_word) {
  two_sides x{8};
  x.begin();
  x.own[0] = 'p';
  x.device_writes(1, 'd');
  x.mirror.put();
  x.mirror.take();
  BOOST_TEST(x.own == "pdaaaaaa");
  BOOST_TEST(x.copied() == "pdaaaaaa");
}

BOOST_AUTO_TEST_CASE(bytes_that_were_taken_change_again) {
  two_sides x{4};
  x.begin();
  x.device_writes(2, 'd');
  x.mirror.take();
  x.own[2] = 'a';
  x.mirror.put();
  BOOST_TEST(x.copied() == "aaaa");
}

BOOST_AUTO_TEST_CASE(memory_that_is_gone_is_left_alone) {
  auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BOOST_REQUIRE(page != MAP_FAILED);
  std::memset(page, 'a', bytes);
  std::vector<std::byte> copy(bytes);
  mirrored_memory x{address(page), copy};
  BOOST_REQUIRE(::munmap(page, bytes) == 0);
  copy[7] = std::byte{'d'};
  x.put();
  x.take();
  BOOST_TEST(static_cast<char>(copy[8]) == 'a');
}

BOOST_AUTO_TEST_SUITE_END()
