// Migrating a session whose variables the driver placed.
#include "tests/unit/actors/data_plane_fixture.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;
namespace data_of = boost::unit_test::data;

namespace {

struct dry_runs : world {
  std::mutex lock;
  std::condition_variable changed;
  std::size_t begun = 0;
  std::function<void()> ring;
  std::shared_ptr<gate> curtain = std::make_shared<gate>();

  dry_runs() { variable = std::make_shared<std::uint32_t>(0); }

  /// A dry run whose outcome is known at once, and reported when the curtain is
  /// open.
  struct a_dry_run final : helper {
    status found;
    std::shared_ptr<std::atomic<bool>> told =
        std::make_shared<std::atomic<bool>>(false);
    std::thread thread;

    ~a_dry_run() override { thread.join(); }
    std::optional<status> outcome() override {
      return told->load() ? std::optional{found} : std::nullopt;
    }
  };

  /// Makes the dry run in another worker, whose driver places variables at
  /// `place`.
  void dry_run_with(std::shared_ptr<std::uint32_t> place) {
    dry_run = [this, place](int file, std::function<void()> bell)
        -> result<std::unique_ptr<helper>> {
      auto device = std::make_unique<plain_device>(loading);
      device->place_variable(place);
      std::vector<std::unique_ptr<device::device>> devices;
      devices.push_back(std::move(device));
      executor next{std::move(devices), 1 << 30};
      auto out = std::make_unique<a_dry_run>();
      out->found = next.dry_run(file);
      out->thread = std::thread{[open = curtain, told = out->told, bell] {
        open->pass();
        *told = true;
        bell();
      }};
      std::lock_guard guard{lock};
      ++begun;
      changed.notify_all();
      return std::unique_ptr<helper>{std::move(out)};
    };
  }

  bool wait_begun(std::size_t count) {
    std::unique_lock guard{lock};
    return changed.wait_for(guard, 120s, [&] { return begun >= count; });
  }

  bool contains(const std::string& text, const std::string& part) {
    BOOST_TEST_INFO(text);
    return text.find(part) != std::string::npos;
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(dry_run_states)

BOOST_FIXTURE_TEST_CASE(without_a_dry_run_a_session_stays, dry_runs) {
  begin(transport::automatic, true);
  BOOST_TEST(contains(pause(1), "where its variables lie"));
  add(3);
  BOOST_TEST(read_counter() == 3u);
}

BOOST_DATA_TEST_CASE_F(dry_runs, a_session_moves_with_its_variables,
                       data_of::make(both), where) {
  dry_run_with(variable);
  auto first = begin(transport::automatic, where.same_host);
  add(3);
  BOOST_TEST(read_counter() == 3u);
  *variable = 17;
  BOOST_TEST(pause(1) == "");
  BOOST_TEST(begun == 1u);
  kill(first);
  *variable = 0;
  lease(2, start_worker(2, where.same_host));
  add(4);
  BOOST_TEST(read_counter() == 7u);
  BOOST_TEST(*variable == 17u);
}

BOOST_FIXTURE_TEST_CASE(a_session_copied_ahead_moves_with_its_variables,
                        dry_runs) {
  watches = true;
  dry_run_with(variable);
  auto first = begin(transport::automatic, true);
  add(3);
  BOOST_TEST(read_counter() == 3u);
  *variable = 17;
  BOOST_TEST(pause(1) == "");
  kill(first);
  *variable = 0;
  lease(2, start_worker(2, true));
  BOOST_TEST(read_counter() == 3u);
  BOOST_TEST(*variable == 17u);
}

BOOST_FIXTURE_TEST_CASE(memory_that_kernels_allocate_keeps_a_session_in_place,
                        dry_runs) {
  hides_heap = true;
  begin(transport::automatic, true);
  BOOST_TEST(contains(pause(1), "call malloc"));
  BOOST_TEST(read_counter() == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_session_stays_if_variables_would_lie_elsewhere,
                        dry_runs) {
  dry_run_with(std::make_shared<std::uint32_t>(0));
  begin(transport::automatic, true);
  BOOST_TEST(contains(pause(1), "and this device puts it at"));
  add(3);
  BOOST_TEST(read_counter() == 3u);
  BOOST_TEST(begun == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_worker_that_places_variables_elsewhere_is_refused,
                        dry_runs) {
  dry_run_with(variable);
  auto first = begin(transport::automatic, true);
  BOOST_TEST(pause(1) == "");
  kill(first);
  variable = std::make_shared<std::uint32_t>(0);
  lease(2, start_worker(2, true));
  BOOST_TEST(in.wait([&] {
    return in.has<control::suspect>([&](auto& x) {
      return contains(x.reason, "and this device puts it at");
    });
  }));
}

/// A module that the program loads during a dry run.
struct a_load {
  const char* name;
  std::uint64_t module;
  std::size_t dry_runs;
};
std::ostream& operator<<(std::ostream& to, const a_load& x) {
  return to << x.name;
}
const a_load loads[] = {{"with a variable", 8, 2},
                        {"without", plain_device::without_variable, 1}};

BOOST_DATA_TEST_CASE_F(dry_runs, modules_loaded_during_a_dry_run_count,
                       data_of::make(loads), loaded) {
  dry_run_with(variable);
  curtain->close();
  begin(transport::automatic, true);
  order_pause(1);
  BOOST_TEST(wait_begun(1));
  add(3);
  BOOST_TEST(read_counter() == 3u);
  auto image = XXH3_128bits("image", 5);
  append(call::module_load{.module = {{loaded.module}},
                           .image = {image.low64, image.high64},
                           .facts = {0, 65536}},
         1);
  BOOST_TEST((answer_of(1) == CUDA_SUCCESS));
  curtain->open();
  BOOST_TEST(paused(1) == "");
  BOOST_TEST(begun == loaded.dry_runs);
}

BOOST_AUTO_TEST_SUITE_END()
