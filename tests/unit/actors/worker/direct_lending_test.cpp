// Memory that a worker hands to the next one of its host, where the program is
// elsewhere.
#include "actors/state/state_file.hpp"
#include "devices/interface/memory_unit.hpp"
#include "devices/interface/sharing_unit.hpp"
#include "schema/base/round_up.hpp"
#include "tests/unit/actors/prepared_worker.hpp"

#include <sys/mman.h>
#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;

namespace {

fault none() {
  return cuda_fault(CUDA_ERROR_NOT_SUPPORTED, "this device does not");
}

/// A device that shares its memory as a GPU does: at any time, in place.
class lending_device final : public watching_device,
                             public vgpu::device::sharing_unit,
                             public vgpu::device::memory_unit {
public:
  /// Counts what was shared in `shared`, and refuses to share with `refuses`.
  lending_device(std::shared_ptr<test::gate> loading, std::uint32_t drift,
                 std::shared_ptr<int> shared, bool refuses)
      : watching_device(std::move(loading), drift, false),
        shared_(std::move(shared)), refuses_(refuses) {}

  bool shares_at_rest() const noexcept override { return false; }
  bool is_reached_by(std::uint32_t pgpu) const noexcept override {
    return pgpu == 1;
  }
  result<vgpu::device::shared_granules>
  share_memory(device_address address, std::uint64_t bytes) override {
    if (refuses_)
      return none();
    ++*shared_;
    auto begin = address / granule_bytes * granule_bytes;
    auto size = round_up(address + bytes - begin, granule_bytes);
    auto file = std::move(*make_state_memory());
    if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0 ||
        ::pwrite(file.get(), reinterpret_cast<void*>(begin), size, 0) !=
            static_cast<ssize_t>(size))
      return none();
    vgpu::device::shared_object what{
        {size}, {std::make_shared<const unique_fd>(std::move(file))}};
    return vgpu::device::shared_granules{std::move(what), address - begin,
                                         size};
  }
  result<vgpu::device::shared_granules> share_memory(memory_id) override {
    return none();
  }
  status import_memory(memory_id id, std::uint64_t,
                       const vgpu::device::shared_object& from) override {
    imported_[id] = from.descriptors.at(0);
    return {};
  }
  result<vgpu::device::shared_object> share_event(event_id) override {
    return none();
  }
  status import_event(event_id, const vgpu::device::shared_object&) override {
    return none();
  }

  status create_memory(memory_id, std::uint64_t) override { return none(); }
  status destroy_memory(memory_id id) override {
    imported_.erase(id);
    return {};
  }
  status map_memory(device_address address, std::uint64_t bytes,
                    memory_id id) override {
    auto* at =
        ::mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED_NOREPLACE, imported_.at(id)->get(), 0);
    return at == MAP_FAILED ? status{none()} : status{};
  }
  status map_host(device_address, std::uint64_t, device_address) override {
    return none();
  }
  status unmap_memory(device_address address, std::uint64_t bytes) override {
    ::munmap(reinterpret_cast<void*>(address), bytes);
    return {};
  }
  status set_access(device_address, std::uint64_t, memory_access) override {
    return {};
  }

private:
  std::shared_ptr<int> shared_;
  bool refuses_;
  std::map<memory_id, vgpu::device::shared_descriptor> imported_;
};

/// A session elsewhere, whose worker and next worker have such devices.
struct lending_session : world {
  std::shared_ptr<int> shared = std::make_shared<int>(0);
  bool refuses = false;
  prepared_worker target{
      std::make_unique<lending_device>(loading, 0, shared, false)};

  lending_session() {
    preparation = [](auto& to, auto session, auto file, auto ring) {
      return prepare_next_worker(to, session, file, connect_abstract,
                                 std::move(ring));
    };
    own_device = [this] {
      return std::make_unique<lending_device>(loading, drift, shared, refuses);
    };
  }

  running_worker begin_and_add() {
    auto first = begin(transport::forwarded, false);
    add(3);
    BOOST_TEST(read_counter() == 3u);
    return first;
  }
  /// Takes what the prepared worker has, as its process does.
  void take_over() {
    ready = target.ready();
    auto what = target.desk->take_lent();
    if (what.parcel)
      lent = std::make_shared<const lent_parcel>(std::move(what));
  }
  bool replayed() {
    return in.wait([&] {
      return in.has<control::event>(
          [](auto& x) { return x.kind == "session-replayed"; });
    });
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(direct_lending, lending_session)

BOOST_AUTO_TEST_CASE(the_memory_goes_to_the_next_worker_alone) {
  auto first = begin_and_add();
  order_pause(1, false, target.next, {1});
  BOOST_TEST(paused(1) == "");
  wait_for(first);
  BOOST_TEST(*shared == 1);
  take_over();
  BOOST_TEST(static_cast<bool>(lent));
  // The state is not written over what the next worker may be reading.
  auto kept = target.desk->take_contents();
  BOOST_REQUIRE(static_cast<bool>(kept));
  auto state = state_reader::open(kept.get());
  BOOST_TEST((!state || state->index().lent.empty()));
  // A call that is executed again would add this.
  drift = 1000;
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 3u);
  BOOST_TEST(!in.has<control::event>(
      [](auto& x) { return x.kind == "session-replayed"; }));
}

BOOST_AUTO_TEST_CASE(another_worker_replays_the_journal) {
  auto first = begin_and_add();
  order_pause(1, false, target.next, {1});
  BOOST_TEST(paused(1) == "");
  wait_for(first);
  auto second = start_worker(2, false);
  lease(2, second);
  BOOST_TEST(in.wait([&] {
    return in.has<control::suspect>([](auto& x) {
      return x.reason.find("handed to another worker") != std::string::npos;
    });
  }));
  kill(second);
  lease(3, start_worker(3, false));
  BOOST_TEST(read_counter() == 3u);
  BOOST_TEST(replayed());
}

BOOST_AUTO_TEST_CASE(memory_that_the_next_gpu_does_not_reach_is_copied) {
  auto first = begin_and_add();
  order_pause(1, false, target.next, {2});
  BOOST_TEST(paused(1) == "");
  wait_for(first);
  BOOST_TEST(*shared == 0);
  take_over();
  BOOST_TEST(!lent);
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 3u);
}

BOOST_AUTO_TEST_CASE(memory_that_cannot_be_shared_is_copied) {
  refuses = true;
  auto first = begin_and_add();
  order_pause(1, false, target.next, {1});
  BOOST_TEST(paused(1) == "");
  wait_for(first);
  take_over();
  BOOST_TEST(!lent);
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 3u);
}

BOOST_AUTO_TEST_CASE(an_unprotected_session_keeps_its_memory_on_the_host) {
  area.header().protection_level =
      static_cast<std::uint32_t>(vgpu::protection::none);
  auto first = begin_and_add();
  order_pause(1, false, target.next, {1});
  BOOST_TEST(paused(1) == "");
  wait_for(first);
  BOOST_TEST(*shared == 0);
  take_over();
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 3u);
}

BOOST_AUTO_TEST_SUITE_END()
