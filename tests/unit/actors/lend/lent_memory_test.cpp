// Memory that one worker hands to the next without a copy.
#include "actors/lend/descriptor_parcel.hpp"
#include "actors/state/state_file.hpp"
#include "tests/unit/actors/session_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>

using namespace vgpu;

namespace {

bool same_file(int a, int b) {
  struct stat x {
  }, y{};
  BOOST_REQUIRE(::fstat(a, &x) == 0 && ::fstat(b, &y) == 0);
  return x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

std::vector<unique_fd> some_files(std::size_t count) {
  std::vector<unique_fd> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(std::move(*make_state_memory()));
  return out;
}

unique_fd packed(const std::vector<unique_fd>& files) {
  std::vector<int> numbers;
  for (auto& x : files)
    numbers.push_back(x.get());
  auto parcel = pack_descriptors(numbers);
  BOOST_REQUIRE(parcel.ok());
  return std::move(*parcel);
}

/// A session that lends its memory to the next worker.
struct lending : a_session {
  unique_fd state = std::move(*make_state_memory());
  std::vector<device::shared_descriptor> lent;

  void lend() {
    auto bytes = exec->capture(state.get(), false, &lent);
    if (!bytes)
      BOOST_FAIL(bytes.why().what);
  }

  /// Returns the descriptors as the next worker receives them.
  std::vector<unique_fd> arrived() const {
    std::vector<int> numbers;
    for (auto& x : lent)
      numbers.push_back(x->get());
    auto parcel = pack_descriptors(numbers);
    BOOST_REQUIRE(parcel.ok());
    auto out = unpack_descriptors(parcel->get(), numbers.size());
    BOOST_REQUIRE(out.ok());
    return std::move(*out);
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(lent_memory)

BOOST_AUTO_TEST_CASE(a_parcel_holds_many_descriptors) {
  auto files = some_files(150);
  auto parcel = packed(files);
  auto copy = copy_parcel(parcel, files.size());
  BOOST_REQUIRE(copy.ok());
  for (auto* from : {&parcel, &*copy}) {
    auto got = unpack_descriptors(from->get(), files.size());
    BOOST_REQUIRE(got.ok());
    for (std::size_t i = 0; i < files.size(); ++i)
      BOOST_TEST(same_file((*got)[i].get(), files[i].get()));
    // A parcel is empty after it was unpacked.
    BOOST_TEST(!unpack_descriptors(from->get(), 1).ok());
  }
}

BOOST_AUTO_TEST_CASE(a_parcel_with_too_few_descriptors_is_refused) {
  auto parcel = packed(some_files(3));
  BOOST_TEST(!unpack_descriptors(parcel.get(), 4).ok());
}

BOOST_AUTO_TEST_CASE(a_file_that_is_not_a_parcel_is_refused) {
  auto file = std::move(*make_state_memory());
  BOOST_TEST(!unpack_descriptors(file.get(), 1).ok());
}

BOOST_FIXTURE_TEST_CASE(the_next_worker_has_the_lent_memory, lending) {
  allocate(at, 3 * granule_bytes);
  // Small allocations, of which two share a granule.
  auto small = at + 5 * granule_bytes;
  allocate(small, 4096);
  allocate(small + 4096, 512);
  for (auto granule : {0, 1, 2, 5})
    word(static_cast<std::uint64_t>(granule), 7) = 70 + granule;
  word(5, 1024) = 99;
  lend();
  // The file holds descriptions, and no contents.
  BOOST_TEST(state_reader::open(state.get())->index().memory.empty());
  follow(state.get(), false, arrived());
  for (auto granule : {0, 1, 2, 5})
    BOOST_TEST(word(static_cast<std::uint64_t>(granule), 7) == 70u + granule);
  BOOST_TEST(word(5, 1024) == 99u);
  // The next worker has a copy, so its writes do not reach the lent memory.
  word(1, 7) = 1;
  follow(state.get(), false, arrived());
  BOOST_TEST(word(1, 7) == 71u);
}

BOOST_FIXTURE_TEST_CASE(the_next_worker_lends_the_memory_again, lending) {
  allocate(at, 2 * granule_bytes);
  word(1) = 5;
  lend();
  follow(state.get(), false, arrived());
  word(1, 1) = 6;
  lent.clear();
  lend();
  follow(state.get(), false, arrived());
  BOOST_TEST(word(1) == 5u);
  BOOST_TEST(word(1, 1) == 6u);
}

BOOST_FIXTURE_TEST_CASE(a_state_without_its_lent_memory_is_refused, lending) {
  allocate(at, 2 * granule_bytes);
  lend();
  exec.reset();
  exec = fresh();
  BOOST_TEST(!exec->restore(state.get()).ok());
}

BOOST_FIXTURE_TEST_CASE(memory_of_another_size_is_refused, lending) {
  allocate(at, 2 * granule_bytes);
  lend();
  auto count = arrived().size();
  exec.reset();
  exec = fresh();
  BOOST_TEST(!exec->restore(state.get(), {.lent = some_files(count)}).ok());
}

BOOST_AUTO_TEST_SUITE_END()
