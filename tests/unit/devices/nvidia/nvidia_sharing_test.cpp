// The nvidia device: memory and events shared with other processes.
#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

#include "devices/interface/sharing_unit.hpp"
#include "schema/base/cuda_fault.hpp"

using namespace vgpu;
using namespace vgpu::device;
using namespace vgpu::test;

namespace {

using words = std::vector<std::uint64_t>;

struct sharing_device : with_device {
  sharing_unit& shares = dynamic_cast<sharing_unit&>(*dev);
  memory_unit& places = dynamic_cast<memory_unit&>(*dev);
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(shared_windows, with_window)

BOOST_AUTO_TEST_CASE(whole_blocks_are_shared) {
  // The pieces are three granules, and the last granule by itself.
  BOOST_REQUIRE(memory.map(base, 4 * g).ok());
  auto x = memory.share(base + g + 512, 4096);
  BOOST_REQUIRE(x.ok());
  BOOST_TEST(x->what.words == (words{3 * g}), boost::test_tools::per_element());
  BOOST_TEST(x->what.descriptors.size() == 1u);
  BOOST_TEST(x->lead == g);
  BOOST_TEST(x->bytes == 3 * g);
  auto all = memory.share(base, 4 * g);
  BOOST_REQUIRE(all.ok());
  BOOST_TEST(all->what.words == (words{3 * g, g}),
             boost::test_tools::per_element());
  BOOST_TEST(all->lead == 0u);
  BOOST_TEST(!memory.share(base, 5 * g).ok());
  BOOST_TEST(!memory.share(base + 4 * g, 1).ok());
}

BOOST_AUTO_TEST_CASE(shared_memory_is_not_kept_for_reuse) {
  BOOST_REQUIRE(memory.map(base, g).ok());
  BOOST_REQUIRE(memory.map(base + 8 * g, g).ok());
  BOOST_REQUIRE(memory.share(base, 16).ok());
  for (auto at : {base, base + 8 * g}) {
    BOOST_REQUIRE(memory.retire(at, g).ok());
    memory.release(at, g);
  }
  BOOST_TEST(here() == g); // the unshared granule
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(shared_memory, sharing_device)

BOOST_AUTO_TEST_CASE(imported_memory_is_mapped_piece_by_piece) {
  BOOST_REQUIRE(dev->map(base, 4 * g).ok());
  auto before = created();
  auto lent = shares.share_memory(base, 4 * g);
  BOOST_REQUIRE(lent.ok());
  BOOST_REQUIRE(
      shares.import_memory(memory_id{1}, lent->bytes, lent->what).ok());
  auto at = base + 64 * g;
  BOOST_REQUIRE(places.map_memory(at, 4 * g, memory_id{1}).ok());
  BOOST_TEST(places.map_memory(at + g, 4 * g, memory_id{1}).ok() == false);
  BOOST_TEST(places.set_access(at, 4 * g, memory_access::read_write).ok());
  BOOST_TEST(places.unmap_memory(at, 4 * g).ok());
  // A mapping that failed half-way leaves nothing mapped.
  BOOST_REQUIRE(places.map_memory(at, 4 * g, memory_id{1}).ok());
  BOOST_TEST(places.unmap_memory(at, 4 * g).ok());
  BOOST_TEST(places.destroy_memory(memory_id{1}).ok());
  BOOST_TEST(created() == before);
}

BOOST_AUTO_TEST_CASE(placed_memory_is_shared_as_one_piece) {
  auto before = created();
  constexpr memory_id mine{2}, theirs{3};
  BOOST_REQUIRE(places.create_memory(mine, 3 * g).ok());
  auto lent = shares.share_memory(mine);
  BOOST_REQUIRE(lent.ok());
  BOOST_TEST(lent->what.words == (words{3 * g}),
             boost::test_tools::per_element());
  BOOST_TEST(lent->what.descriptors.size() == 1u);
  BOOST_TEST(lent->lead == 0u);
  BOOST_TEST(lent->bytes == 3 * g);
  BOOST_REQUIRE(shares.import_memory(theirs, 3 * g, lent->what).ok());
  BOOST_TEST(cuda_code(shares.share_memory(theirs).why()) ==
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(places.destroy_memory(mine).ok());
  BOOST_TEST(cuda_code(shares.share_memory(mine).why()) ==
             CUDA_ERROR_INVALID_VALUE);
  BOOST_REQUIRE(places.map_memory(base + 64 * g, 3 * g, theirs).ok());
  BOOST_TEST(places.unmap_memory(base + 64 * g, 3 * g).ok());
  BOOST_TEST(places.destroy_memory(theirs).ok());
  BOOST_TEST(created() == before);
}

BOOST_AUTO_TEST_CASE(imported_objects_are_checked) {
  BOOST_REQUIRE(dev->map(base, 2 * g).ok());
  auto lent = shares.share_memory(base, 2 * g);
  BOOST_REQUIRE(lent.ok());
  auto refused = [&](std::uint64_t bytes, const shared_object& x) {
    return cuda_code(shares.import_memory(memory_id{1}, bytes, x)) ==
           CUDA_ERROR_INVALID_VALUE;
  };
  auto x = lent->what;
  BOOST_TEST(refused(g, x));
  BOOST_TEST(refused(0, x));
  BOOST_TEST(refused(0, shared_object{}));
  x.words = {2 * g - 1, 1};
  BOOST_TEST(refused(2 * g, x));
  x.words = {2 * g};
  BOOST_TEST(refused(2 * g, x)); // one descriptor too many
  x.descriptors = {std::make_shared<unique_fd>()};
  BOOST_TEST(refused(2 * g, x)); // no descriptor, so the driver refuses it
  x.words.assign(shared_object::most + 1, g);
  x.descriptors.assign(x.words.size(), lent->what.descriptors.front());
  BOOST_TEST(refused(x.words.size() * g, x));
  BOOST_TEST(!places.destroy_memory(memory_id{1}).ok());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(shared_events, sharing_device)

BOOST_AUTO_TEST_CASE(the_latest_record_counts_on_both_sides) {
  constexpr event_id mine{3}, theirs{4};
  constexpr stream_id lane{2};
  BOOST_REQUIRE(dev->create_stream(lane, true, 0).ok());
  BOOST_REQUIRE(dev->create_event(mine, false).ok());
  // The event is recorded before it is shared, and the record is not done.
  hold(1);
  BOOST_REQUIRE(dev->record_event(mine, legacy_stream).ok());
  auto name = shares.share_event(mine);
  BOOST_REQUIRE(name.ok());
  BOOST_TEST(name->words.size() == 8u);
  BOOST_TEST(shares.share_event(mine)->words == name->words,
             boost::test_tools::per_element());
  BOOST_REQUIRE(shares.import_event(theirs, *name).ok());
  BOOST_TEST(!dev->query_event(theirs).value());
  BOOST_REQUIRE(dev->wait_event(lane, theirs).ok());
  outcome recorded, behind;
  dev->when_recorded(theirs, recorded.tell());
  dev->when_done(lane, behind.tell());
  BOOST_TEST(!recorded.told());
  BOOST_TEST(!behind.told());
  hold(0);
  BOOST_TEST(recorded.wait() == CUDA_SUCCESS);
  BOOST_TEST(behind.wait() == CUDA_SUCCESS);
  BOOST_TEST(dev->query_event(theirs).value());
  BOOST_TEST(dev->query_event(mine).value());
  // Now the other way round.
  hold(1);
  BOOST_REQUIRE(dev->record_event(theirs, legacy_stream).ok());
  BOOST_TEST(!dev->query_event(mine).value());
  hold(0);
  BOOST_TEST(dev->query_event(mine).value());
  BOOST_TEST(dev->destroy_event(theirs).ok());
  BOOST_TEST(dev->record_event(mine, lane).ok());
}

BOOST_AUTO_TEST_CASE(unsuitable_events_are_not_shared) {
  constexpr event_id timed{5}, none{6};
  BOOST_REQUIRE(dev->create_event(timed, true).ok());
  BOOST_TEST(shares.share_event(timed).ok() == false);
  BOOST_TEST(shares.share_event(none).ok() == false);
  BOOST_TEST(!shares.import_event(none, {}).ok());
  BOOST_TEST(!shares.import_event(none, {words(7), {}}).ok());
  BOOST_TEST(!shares.import_event(none, {words(8), {}}).ok());
}

BOOST_AUTO_TEST_SUITE_END()
