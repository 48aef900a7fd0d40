// Memory and events shared by two devices, as by two processes.
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include "devices/interface/memory_unit.hpp"
#include "devices/interface/sharing_unit.hpp"
#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <filesystem>

#include <sys/mman.h>
#include <unistd.h>

namespace vgpu::test {

namespace {

using device::shared_object;

constexpr auto shared_granule = granule_bytes;

std::size_t open_descriptors() {
  std::filesystem::directory_iterator all{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// The fixture's device lends, and a device of another window borrows.
struct lender_and_borrower : device_fixture {
  static constexpr auto there = base + window_bytes;

  lender_and_borrower() {
    load(read_file(DEVICE_CODE "/kernels.ptx"));
    // The quota is smaller than the memory that it borrows.
    other = device::open_cpu_device({1, shared_granule, 2}, shared_granule);
    BOOST_REQUIRE(other->reserve_window(there).ok());
  }

  device::sharing_unit& lends = dynamic_cast<device::sharing_unit&>(*dev);
  std::unique_ptr<device::device> other;

  device::sharing_unit& borrows() {
    return dynamic_cast<device::sharing_unit&>(*other);
  }
  device::memory_unit& places() {
    return dynamic_cast<device::memory_unit&>(*other);
  }

  device::shared_granules share(device_address at, std::uint64_t bytes) {
    BOOST_REQUIRE_EQUAL(synchronize(), CUDA_SUCCESS);
    auto got = lends.share_memory(at, bytes);
    if (!got)
      BOOST_FAIL(got.why().what);
    return *got;
  }
  void import(memory_id id, device_address at,
              const device::shared_granules& x) {
    auto ok = borrows().import_memory(id, x.bytes, x.what);
    BOOST_REQUIRE_MESSAGE(ok.ok(), ok.why().what);
    BOOST_REQUIRE(places().map_memory(at, x.bytes, id).ok());
    BOOST_REQUIRE(
        places().set_access(at, x.bytes, memory_access::read_write).ok());
  }
  void close(memory_id id, device_address at, std::uint64_t bytes) {
    BOOST_TEST(places().unmap_memory(at, bytes).ok());
    BOOST_TEST(places().destroy_memory(id).ok());
  }
  /// Returns whether a system call can read the address.
  static bool can_be_read(device_address at) {
    unique_fd scratch{::memfd_create("scratch", 0)};
    return ::write(scratch.get(), &word(at), sizeof(int)) == sizeof(int);
  }
  static int& word(device_address at) { return *reinterpret_cast<int*>(at); }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(shared_memory, lender_and_borrower)

BOOST_AUTO_TEST_CASE(lender_and_borrower_have_the_same_bytes) {
  auto before = open_descriptors();
  std::vector<int> numbers(3 * shared_granule / sizeof(int));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<int>(i);
  auto at = upload(numbers);
  {
    auto x = share(at, 3 * shared_granule);
    BOOST_TEST(x.lead == 0u);
    BOOST_TEST(x.bytes == 3 * shared_granule);
    BOOST_TEST(x.what.words == std::vector<std::uint64_t>{3 * shared_granule},
               boost::test_tools::per_element());
    import(memory_id{1}, there, x);
  }
  // Contents and addresses stay the same.
  BOOST_CHECK(download<int>(at, numbers.size()) == numbers);
  BOOST_TEST(std::equal(numbers.begin(), numbers.end(), &word(there)));
  // Each side sees the other's writes, and those of kernels.
  word(there + 4096) = -1;
  BOOST_TEST(word(at + 4096) == -1);
  BOOST_REQUIRE(run("write_to", {1}, {1}, arguments{at + shared_granule, 77}) ==
                CUDA_SUCCESS);
  BOOST_TEST(word(there + shared_granule) == 77);
  // The lender unmaps it first.
  BOOST_TEST(dev->unmap(at, 3 * shared_granule).ok());
  BOOST_REQUIRE_EQUAL(synchronize(), CUDA_SUCCESS);
  BOOST_TEST(word(there + shared_granule) == 77);
  // Memory that is mapped there next is new.
  BOOST_REQUIRE(dev->map(at, shared_granule).ok());
  BOOST_TEST(word(at) == 0);
  BOOST_TEST(word(there + 8) == 2);
  close(memory_id{1}, there, 3 * shared_granule);
  BOOST_TEST(open_descriptors() == before);
}

BOOST_AUTO_TEST_CASE(a_small_range_is_shared_with_its_granules) {
  auto at = memory(3 * shared_granule);
  word(at + shared_granule - 4) = 1;
  word(at + shared_granule) = 2;
  word(at + 2 * shared_granule + 100) = 3;
  // The first and the last granule are objects of their own, because they may
  // outlive the range.
  auto x = share(at + shared_granule - 512, shared_granule + 1024);
  BOOST_TEST(x.bytes == 3 * shared_granule);
  BOOST_TEST(x.what.words ==
                 (std::vector<std::uint64_t>{shared_granule, shared_granule,
                                             shared_granule}),
             boost::test_tools::per_element());
  import(memory_id{1}, there, x);
  BOOST_TEST(word(there + shared_granule - 4) == 1);
  BOOST_TEST(word(there + shared_granule) == 2);
  // Sharing it again, alone or with other granules, gives the same memory.
  import(memory_id{2}, there + 8 * shared_granule,
         share(at + 2 * shared_granule + 100, 8));
  word(there + 8 * shared_granule + 100) = 4;
  BOOST_TEST(word(at + 2 * shared_granule + 100) == 4);
  BOOST_TEST(word(there + 2 * shared_granule + 100) == 4);
  auto again = share(at + shared_granule - 512, shared_granule + 1024);
  BOOST_CHECK(again.what.descriptors == x.what.descriptors);
  close(memory_id{1}, there, 3 * shared_granule);
  close(memory_id{2}, there + 8 * shared_granule, shared_granule);
}

BOOST_AUTO_TEST_CASE(placed_memory_is_shared_with_all_its_mappings) {
  constexpr memory_id mine{3}, theirs{4};
  auto& own = dynamic_cast<device::memory_unit&>(*dev);
  auto first = base + 100 * shared_granule,
       second = base + 200 * shared_granule;
  auto place = [&](device_address at, memory_access access) {
    BOOST_REQUIRE(own.map_memory(at, 2 * shared_granule, mine).ok());
    BOOST_REQUIRE(own.set_access(at, 2 * shared_granule, access).ok());
  };
  BOOST_REQUIRE(own.create_memory(mine, 2 * shared_granule).ok());
  place(first, memory_access::read_write);
  place(second, memory_access::none);
  word(first + shared_granule) = 11;
  auto before = open_descriptors();
  {
    auto lent = lends.share_memory(mine);
    BOOST_REQUIRE(lent.ok());
    BOOST_TEST(lent->lead == 0u);
    BOOST_TEST(lent->bytes == 2 * shared_granule);
    BOOST_CHECK(lends.share_memory(mine)->what.descriptors ==
                lent->what.descriptors);
    import(theirs, there, *lent);
  }
  // The contents stay. It is one memory, also at the mapping without access and
  // at later mappings.
  BOOST_TEST(word(there + shared_granule) == 11);
  word(there) = 12;
  BOOST_TEST(word(first) == 12);
  BOOST_TEST(!can_be_read(second));
  BOOST_REQUIRE(
      own.set_access(second, 2 * shared_granule, memory_access::read_write)
          .ok());
  BOOST_TEST(word(second) == 12);
  auto third = base + 300 * shared_granule;
  place(third, memory_access::read_write);
  word(third) = 13;
  BOOST_TEST(word(there) == 13);
  // A device cannot share memory that it borrowed, or an unknown object.
  BOOST_TEST(cuda_code(borrows().share_memory(theirs).why()) ==
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(cuda_code(lends.share_memory(theirs).why()) ==
             CUDA_ERROR_INVALID_VALUE);
  // The lender destroys it first.
  for (auto at : {first, second, third})
    BOOST_TEST(own.unmap_memory(at, 2 * shared_granule).ok());
  BOOST_TEST(own.destroy_memory(mine).ok());
  BOOST_TEST(word(there) == 13);
  close(theirs, there, 2 * shared_granule);
  BOOST_TEST(open_descriptors() == before);
}

BOOST_AUTO_TEST_CASE(unmapped_memory_is_not_shared) {
  auto at = memory(shared_granule);
  BOOST_TEST(!lends.share_memory(at + shared_granule, 16).ok());
  BOOST_TEST(!lends.share_memory(at, 2 * shared_granule).ok());
  BOOST_TEST(!lends.share_memory(base - shared_granule, 16).ok());
}

BOOST_AUTO_TEST_CASE(imported_objects_are_checked) {
  auto at = memory(2 * shared_granule);
  auto good = share(at, 2 * shared_granule);
  auto refused = [&](std::uint64_t bytes, const shared_object& x) {
    return cuda_code(borrows().import_memory(memory_id{9}, bytes, x)) ==
           CUDA_ERROR_INVALID_VALUE;
  };
  auto x = good.what;
  BOOST_TEST(refused(shared_granule, x));
  BOOST_TEST(refused(0, x));
  BOOST_TEST(refused(2 * shared_granule, shared_object{}));
  x.words = {shared_granule};
  BOOST_TEST(refused(shared_granule, x)); // the file is longer than the word
  x.words = {4 * shared_granule};
  BOOST_TEST(refused(4 * shared_granule, x)); // the file is shorter
  x.words = {2 * shared_granule, 2 * shared_granule};
  BOOST_TEST(refused(4 * shared_granule, x)); // the second file is missing
  x.words = {2 * shared_granule - 1};
  BOOST_TEST(refused(2 * shared_granule - 1, x));
  // The sum is right because the numbers overflow.
  x.words = {2 * shared_granule, std::uint64_t{0} - shared_granule,
             shared_granule};
  x.descriptors.assign(3, good.what.descriptors.front());
  BOOST_TEST(refused(2 * shared_granule, x));
  // A file that its owner can cut would end whoever touches the memory.
  x.words = {2 * shared_granule};
  unique_fd loose{::memfd_create("loose", MFD_ALLOW_SEALING)};
  BOOST_REQUIRE(::ftruncate(loose.get(), 2 * shared_granule) == 0);
  x.descriptors = {std::make_shared<unique_fd>(std::move(loose))};
  BOOST_TEST(refused(2 * shared_granule, x));
  x.descriptors = {std::make_shared<unique_fd>()};
  BOOST_TEST(refused(2 * shared_granule, x));
  x.words.assign(shared_object::most + 1, 2 * shared_granule);
  x.descriptors.assign(shared_object::most + 1, good.what.descriptors.front());
  BOOST_TEST(refused(x.words.size() * 2 * shared_granule, x));
  BOOST_TEST(borrows()
                 .import_memory(memory_id{9}, 2 * shared_granule, good.what)
                 .ok());
  BOOST_TEST(places().destroy_memory(memory_id{9}).ok());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(shared_events, lender_and_borrower)

namespace {

constexpr event_id mine{5}, theirs{6};
constexpr stream_id lane{2};

/// A stream that is stopped until go_on().
struct held {
  std::function<void()> go_on;

  held(device::device& on, stream_id stream) {
    outcome reached;
    BOOST_REQUIRE(on.enqueue_host(stream, [&](std::function<void()> f) {
                      go_on = std::move(f);
                      reached.tell()(CUDA_SUCCESS);
                    }).ok());
    reached.wait();
  }
};

void open_lane(device::device& on) {
  BOOST_REQUIRE(on.create_stream(lane, true, 0).ok());
}

} // namespace

BOOST_AUTO_TEST_CASE(a_device_waits_for_a_record_of_another) {
  open_lane(*dev);
  open_lane(*other);
  BOOST_REQUIRE(dev->create_event(mine, false).ok());
  auto object = lends.share_event(mine);
  BOOST_REQUIRE(object.ok());
  BOOST_REQUIRE(borrows().import_event(theirs, *object).ok());
  BOOST_TEST(other->query_event(theirs).value()); // never recorded
  held work{*dev, lane};
  BOOST_REQUIRE(dev->record_event(mine, lane).ok());
  BOOST_TEST(!dev->query_event(mine).value());
  BOOST_TEST(!other->query_event(theirs).value());
  BOOST_REQUIRE(other->wait_event(lane, theirs).ok());
  outcome behind, recorded, elsewhere;
  other->when_done(lane, behind.tell());
  other->when_recorded(theirs, recorded.tell());
  other->when_done(legacy_stream, elsewhere.tell());
  BOOST_TEST(elsewhere.wait() == CUDA_SUCCESS); // only that lane waits
  BOOST_TEST(!behind.told());
  BOOST_TEST(!recorded.told());
  work.go_on();
  BOOST_TEST(behind.wait() == CUDA_SUCCESS);
  BOOST_TEST(recorded.wait() == CUDA_SUCCESS);
  BOOST_TEST(other->query_event(theirs).value());
}

BOOST_AUTO_TEST_CASE(both_devices_may_record_a_shared_event) {
  open_lane(*dev);
  open_lane(*other);
  BOOST_REQUIRE(dev->create_event(mine, false).ok());
  auto first = std::make_unique<held>(*dev, lane);
  BOOST_REQUIRE(dev->record_event(mine, lane).ok());
  auto object = lends.share_event(mine);
  BOOST_REQUIRE(object.ok());
  BOOST_REQUIRE(borrows().import_event(theirs, *object).ok());
  BOOST_TEST(!other->query_event(theirs).value());
  // A later record by the other device replaces the first. A wait that begins
  // now waits for the later one.
  held second{*other, lane};
  BOOST_REQUIRE(other->record_event(theirs, lane).ok());
  outcome recorded;
  dev->when_recorded(mine, recorded.tell());
  first->go_on();
  BOOST_REQUIRE_EQUAL(synchronize(), CUDA_SUCCESS);
  BOOST_TEST(!recorded.told());
  BOOST_TEST(!dev->query_event(mine).value());
  second.go_on();
  BOOST_TEST(recorded.wait() == CUDA_SUCCESS);
  BOOST_TEST(dev->query_event(mine).value());
  // The event is destroyed in the borrower and stays in the lender.
  BOOST_TEST(other->destroy_event(theirs).ok());
  BOOST_TEST(dev->record_event(mine, lane).ok());
}

BOOST_AUTO_TEST_CASE(a_devices_end_completes_its_records) {
  open_lane(*dev);
  open_lane(*other);
  BOOST_REQUIRE(dev->create_event(mine, false).ok());
  auto object = lends.share_event(mine);
  BOOST_REQUIRE(borrows().import_event(theirs, *object).ok());
  held work{*dev, lane};
  BOOST_REQUIRE(dev->record_event(mine, lane).ok());
  outcome recorded;
  other->when_recorded(theirs, recorded.tell());
  dev.reset();
  BOOST_TEST(recorded.wait() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(unsuitable_events_are_not_shared) {
  BOOST_REQUIRE(dev->create_event(mine, true).ok());
  BOOST_TEST(lends.share_event(mine).ok() == false);
  BOOST_TEST(lends.share_event(theirs).ok() == false);
  auto page = make_sealed_memory("short", 64);
  BOOST_REQUIRE(page.ok());
  shared_object x{{}, {std::make_shared<unique_fd>(std::move(*page))}};
  BOOST_TEST(cuda_code(borrows().import_event(theirs, x)) ==
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(cuda_code(borrows().import_event(theirs, {})) ==
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
