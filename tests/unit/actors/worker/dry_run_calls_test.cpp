// Every call that a state keeps, in a dry run.
#include "actors/state/state_file.hpp"
#include "schema/base/condition_handles.hpp"
#include "tests/unit/actors/session_fixture.hpp"

#include <boost/test/unit_test.hpp>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

using namespace vgpu;

namespace {

constexpr std::string_view sum_image = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 sum;
.visible .entry keep() { ret; }
)";
constexpr std::string_view damaged_image = "this is no image";

/// Wants each answer, and keeps none.
class listener final : public unheard {
public:
  bool wanted(const waiter&) const override { return true; }
  result<landing> land(call::arena_range, std::uint64_t bytes) override {
    return landing{std::span{room_}.first(std::min(bytes, room_.size())),
                   nullptr};
  }

private:
  std::array<std::byte, 4096> room_{};
};

/// A session that makes each call that a state keeps.
struct described_session : a_session {
  static constexpr module_id gone{1}, living{2}, refused{3};
  static constexpr memory_id placed{1}, words{2};
  static constexpr array_id array{1};
  static constexpr texture_id texture{1};
  static constexpr stream_id stream{5};
  static constexpr device_address placed_at = at + 64 * granule_bytes;
  static constexpr device_address words_at = at + 65 * granule_bytes;
  static constexpr device_address host_at = at + 66 * granule_bytes;
  static constexpr array_shape shape{
      .width = 64, .height = 64, .format = CU_AD_FORMAT_FLOAT, .channels = 1};

  unique_fd file = std::move(*make_state_memory());

  described_session() {
    exec->serve(std::make_shared<listener>());
    auto shadow = exec->host_shadow();
    BOOST_REQUIRE_MESSAGE(shadow.ok(), shadow.why().what);
  }

  static call::digest digest_of(std::string_view image) {
    auto hash = XXH3_128bits(image.data(), image.size());
    return {hash.low64, hash.high64};
  }
  void send_image(std::string_view image) {
    call::image_part part{
        .image = digest_of(image), .offset = 0, .total = image.size()};
    std::vector<std::uint64_t> message(call::message_words(part));
    call::encode(part, 0, message);
    number += 8;
    record what{.call = {number},
                .end = number + 8,
                .slot = 0,
                .message = message,
                .payload = std::as_bytes(std::span{image})};
    BOOST_REQUIRE(exec->execute(what, nullptr));
    BOOST_REQUIRE(exec->error() == CUDA_SUCCESS);
  }
  void load(module_id id, std::string_view image) {
    call_it(call::module_load{
        .module = {id}, .image = digest_of(image), .facts = {0, 4096}});
  }

  // One overload for each call that a state keeps. They are made in the order
  // of the catalogue.

  void make(call::mem_alloc*) { allocate(at, 2 * granule_bytes); }
  void make(call::host_alloc*) {
    call_it(call::host_alloc{host_window, 1 << 16});
  }
  void make(call::zero_copy*) { call_it(call::zero_copy{host_window, 5000}); }
  void make(call::module_load*) {
    send_image(sum_image);
    for (auto id : {gone, living})
      load(id, sum_image);
  }
  void make(call::module_unload*) { call_it(call::module_unload{{gone}}); }
  void make(call::kernel_attribute*) {
    call_it(call::kernel_attribute{
        .module = {living},
        .attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        .value = 1024});
  }
  void make(call::stream_create*) {
    call_it(call::stream_create{{stream}, 1, 0});
  }
  void make(call::event_create*) { call_it(call::event_create{{{7}}, 1}); }
  void make(call::array_create*) {
    call_it(call::array_create{.array = {array},
                               .address = at + 32 * granule_bytes,
                               .bytes = layout_of(shape)->bytes,
                               .shape = shape});
  }
  void make(call::texture_create*) {
    texture_spec what{};
    what.resource = CU_RESOURCE_TYPE_ARRAY;
    what.array = array.value;
    call_it(call::texture_create{{texture}, what});
  }
  void make(call::texture_known*) {
    call_it(call::texture_known{{texture}, std::uint64_t{1} << 40});
  }
  void make(call::memory_create*) {
    for (auto id : {placed, words})
      call_it(call::memory_create{{id}, granule_bytes});
  }
  void make(call::memory_map*) {
    call_it(call::memory_map{{placed}, placed_at, granule_bytes});
    call_it(call::memory_map{{words}, words_at, granule_bytes});
  }
  void make(call::host_map*) {
    call_it(call::host_alloc{host_window + granule_bytes, granule_bytes});
    call_it(
        call::host_map{host_window + granule_bytes, host_at, granule_bytes});
  }
  void make(call::memory_access*) {
    for (auto address : {placed_at, words_at})
      call_it(call::memory_access{
          address, granule_bytes,
          static_cast<std::uint32_t>(memory_access::read_write)});
  }
  void make(call::condition_words*) {
    call_it(call::condition_words{{words}, words_at, condition_places[0]});
  }
  void make(call::limit_set*) {
    call_it(call::limit_set{CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 25});
  }
  /// No module may be loaded then.
  void make(call::limits_reset*) {}
  void make(call::time_work*) { call_it(call::time_work{1}); }
  void make(call::stream_window*) {
    call_it(call::stream_window{.stream = {stream}, .base = at, .bytes = 4096});
  }

  void make_all() {
    call_it(call::limits_reset{});
    [this]<class... Calls>(std::tuple<Calls...>*) {
      auto one = [this]<class Call>(Call* x) {
        if constexpr (living_calls::keeps<Call>())
          make(x);
      };
      (one(static_cast<Calls*>(nullptr)), ...);
    }(static_cast<call::all*>(nullptr));
  }

  state_index captured() {
    auto ok = exec->capture_for_dry_run(file.get());
    BOOST_REQUIRE_MESSAGE(ok.ok(), ok.why().what);
    auto from = state_reader::open(file.get());
    BOOST_REQUIRE(from.ok());
    return from->index();
  }

  /// Returns the outcome of a dry run in another worker, which has no host
  /// window and hardly any quota.
  status dry_run(std::size_t count = 1) {
    exec.reset();
    std::vector<std::unique_ptr<device::device>> devices;
    for (auto i = 0u; i < count; ++i)
      devices.push_back(
          device::open_cpu_device({static_cast<int>(i), quota, 1}, 1));
    exec = std::make_unique<executor>(std::move(devices), 1);
    exec->when_allowed(device::allow_cpu_device);
    return exec->dry_run(file.get());
  }
};

bool has(const state_index& state, call::number wanted) {
  return std::ranges::any_of(state.living, [&](auto& x) {
    auto is = false;
    auto look = [&]<class Call>(const Call&, std::uint8_t) {
      is = Call::id == wanted;
    };
    return call::decode(x.second, look).ok() && is;
  });
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(dry_runs_of_calls, described_session)

BOOST_AUTO_TEST_CASE(each_call_that_a_state_keeps_passes_a_dry_run) {
  make_all();
  auto state = captured();
  [&]<class... Calls>(std::tuple<Calls...>*) {
    auto one = [&]<class Call>(Call*) {
      if (living_calls::keeps<Call>())
        BOOST_TEST(has(state, Call::id), "call " << static_cast<int>(Call::id)
                                                 << " is not in the state");
    };
    (one(static_cast<Calls*>(nullptr)), ...);
  }(static_cast<call::all*>(nullptr));
  auto outcome = dry_run();
  BOOST_TEST(outcome.ok(), outcome.why().what);
}

BOOST_AUTO_TEST_CASE(host_memory_in_place_lies_in_the_window_in_a_dry_run_too) {
  make(static_cast<call::host_alloc*>(nullptr));
  make(static_cast<call::zero_copy*>(nullptr));
  (void)captured();
  auto outcome = dry_run();
  BOOST_TEST(outcome.ok(), outcome.why().what);
}

BOOST_AUTO_TEST_CASE(a_module_that_the_device_refused_is_not_in_a_state) {
  send_image(damaged_image);
  load(refused, damaged_image);
  auto state = captured();
  BOOST_TEST(!has(state, call::number::module_load));
  auto outcome = dry_run();
  BOOST_TEST(outcome.ok(), outcome.why().what);
}

BOOST_AUTO_TEST_CASE(a_dry_run_on_other_devices_fails) {
  make_all();
  (void)captured();
  auto outcome = dry_run(2);
  BOOST_REQUIRE(!outcome.ok());
  BOOST_TEST(outcome.why().what.find("here are 2") != std::string::npos,
             outcome.why().what);
}

BOOST_AUTO_TEST_SUITE_END()
