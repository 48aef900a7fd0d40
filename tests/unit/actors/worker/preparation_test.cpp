// Modules that the next worker compiles while the session is still executed
// elsewhere.
#include "actors/state/state_file.hpp"
#include "actors/worker/serve/preparation_desk.hpp"
#include "tests/unit/actors/data_plane_fixture.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;
namespace data_of = boost::unit_test::data;

namespace {

/// What the devices of prepared workers were told to compile.
struct compilations {
  std::mutex lock;
  std::condition_variable changed;
  std::vector<std::string> texts; // with the number of options
  std::shared_ptr<gate> compiling = std::make_shared<gate>();

  void note(std::string text) {
    std::lock_guard guard{lock};
    texts.push_back(std::move(text));
    changed.notify_all();
  }
  bool wait(std::size_t count) {
    std::unique_lock guard{lock};
    return changed.wait_for(guard, patience,
                            [&] { return texts.size() >= count; });
  }
  std::vector<std::string> all() {
    std::lock_guard guard{lock};
    return texts;
  }
};

class preparing_device final : public plain_device,
                               public vgpu::device::preparation_unit {
public:
  explicit preparing_device(std::shared_ptr<compilations> to)
      : to_(std::move(to)) {}

  status prepare_module(std::span<const std::byte> image,
                        const jit_settings& how) override {
    std::string text{reinterpret_cast<const char*>(image.data()), image.size()};
    to_->note(text + std::to_string(how.options.size()));
    to_->compiling->pass();
    if (text == "wrong")
      return cuda_fault(CUDA_ERROR_INVALID_PTX, "it is wrong");
    ++prepared_;
    return {};
  }
  counts forget_prepared() override { return {prepared_, 0}; }

private:
  std::shared_ptr<compilations> to_;
  std::size_t prepared_ = 0;
};

/// A prepared worker, which waits for its orders.
struct prepared_worker_here {
  std::shared_ptr<compilations> compiled = std::make_shared<compilations>();
  next_worker next{"vgpu-test-next-" + std::to_string(::getpid()), 4711};
  unique_fd listener = std::move(*listen_abstract(next.socket));
  executor exec{device_of(compiled), 1 << 30};
  std::optional<preparation_desk> desk;

  prepared_worker_here() {
    desk.emplace(listener.get(), session_id{1}, next.token, exec);
  }
  ~prepared_worker_here() { compiled->compiling->open(); }

  static std::vector<std::unique_ptr<device::device>>
  device_of(std::shared_ptr<compilations> to) {
    std::vector<std::unique_ptr<device::device>> out;
    out.push_back(std::make_unique<preparing_device>(std::move(to)));
    return out;
  }
};

struct preparations : world {
  prepared_worker_here target;
  compilations& compiled = *target.compiled;

  preparations() {
    preparation = [](auto& to, auto session, auto file, auto ring) {
      return prepare_next_worker(to, session, file, std::move(ring));
    };
  }

  /// Loads another module of the program.
  void load_text(const std::string& text, std::uint64_t module,
                 const jit_settings& how = {}) {
    auto hash = XXH3_128bits(text.data(), text.size());
    call::digest digest{hash.low64, hash.high64};
    constexpr std::size_t most = 1 << 20; // a part
    for (std::size_t at = 0; at < text.size(); at += most) {
      auto part = text.substr(at, most);
      call::append(
          log,
          call::image_part{.image = digest, .offset = at, .total = text.size()},
          0, 0, static_cast<std::uint32_t>(part.size()),
          [&](auto to) { std::memcpy(to.data(), part.data(), part.size()); },
          {});
    }
    auto settings = encode(how);
    append(call::module_load{.module = {{module}},
                             .image = digest,
                             .facts = {0, 65536},
                             .bytes = settings},
           1);
    BOOST_TEST((answer_of(1) == CUDA_SUCCESS));
  }

  void goes_on_elsewhere(const running_worker& first, std::uint32_t counted) {
    kill(first);
    lease(2, start_worker(2, true));
    BOOST_TEST(read_counter() == counted);
  }

  /// Pauses the session, whose next worker is not as it should be.
  void pause_without(const next_worker& next) {
    auto first = begin(transport::automatic, true);
    order_pause(1, false, next);
    BOOST_TEST(paused(1) == "");
    BOOST_TEST(compiled.all().empty());
    goes_on_elsewhere(first, 0);
  }
};

/// Accepts the session's worker in place of a prepared one.
unique_fd accept_at(const unique_fd& listener) {
  pollfd item{listener.get(), POLLIN, 0};
  BOOST_TEST(::poll(&item, 1, static_cast<int>(patience.count())) == 1);
  return accept_own(listener.get());
}

/// A file that describes images of so many bytes, all of them zero.
unique_fd state_with_image(std::uint64_t bytes) {
  auto file = std::move(*make_state_memory());
  state_index index;
  state_image image{{1, 2}, bytes, {}};
  for (std::uint64_t at = 0; at != bytes; at += state_chunk_bytes)
    image.chunks.push_back(
        {.address = at,
         .bytes = static_cast<std::uint32_t>(state_chunk_bytes)});
  index.images.push_back(std::move(image));
  BOOST_REQUIRE((state_writer{file.get(), false}.finish(index).ok()));
  return file;
}

/// Waits for the outcome of what a worker asked of a prepared one.
status outcome_of(const next_worker& to, std::uint64_t session, int file,
                  std::chrono::milliseconds within = patience) {
  gate rang;
  rang.close();
  auto begun = prepare_next_worker(
      to, {session}, {file}, [&] { rang.open(); }, within);
  if (!begun)
    return begun.why();
  rang.pass();
  return *(*begun)->outcome();
}

} // namespace

BOOST_AUTO_TEST_SUITE(preparations_of_modules)

BOOST_DATA_TEST_CASE_F(preparations, calls_are_executed_while_modules_compile,
                       data_of::make(both), where) {
  auto first = begin(transport::automatic, where.same_host);
  compiled.compiling->close();
  order_pause(1, false, target.next);
  BOOST_TEST(compiled.wait(1));
  add(3);
  BOOST_TEST(read_counter() == 3u);
  compiled.compiling->open();
  BOOST_TEST(paused(1) == "");
  BOOST_TEST(compiled.all() == std::vector<std::string>{"image0"},
             boost::test_tools::per_element());
  goes_on_elsewhere(first, 3);
}

BOOST_FIXTURE_TEST_CASE(modules_compile_in_the_order_of_their_loads,
                        preparations) {
  begin(transport::automatic, true);
  jit_settings how;
  how.options[CU_JIT_MAX_REGISTERS] = 32;
  load_text("second", 9, how);
  load_text("gone", 8);
  append(call::module_unload{.module = {{8}}});
  load_text("second", 10);
  order_pause(1, false, target.next);
  BOOST_TEST(paused(1) == "");
  // An unloaded module decides where the later ones lie.
  BOOST_TEST(compiled.all() == (std::vector<std::string>{"image0", "second1",
                                                         "gone0", "second0"}),
             boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_large_image_is_passed_on_whole, preparations) {
  begin(transport::automatic, true);
  std::string large;
  while (large.size() < (5 << 20))
    large += std::to_string(large.size());
  load_text(large, 8);
  order_pause(1, false, target.next);
  BOOST_TEST(paused(1) == "");
  auto all = compiled.all();
  BOOST_REQUIRE(all.size() == 2u);
  BOOST_TEST((all[1] == large + "0"));
}

BOOST_FIXTURE_TEST_CASE(a_module_that_does_not_compile_ends_no_migration,
                        preparations) {
  auto first = begin(transport::automatic, true);
  load_text("wrong", 8);
  load_text("behind", 9);
  order_pause(1, false, target.next);
  BOOST_TEST(paused(1) == "");
  BOOST_TEST(compiled.all().size() == 2u);
  goes_on_elsewhere(first, 0);
}

BOOST_FIXTURE_TEST_CASE(a_next_worker_that_is_gone_ends_no_migration,
                        preparations) {
  pause_without({"vgpu-test-nobody-" + std::to_string(::getpid()), 4711});
}

BOOST_FIXTURE_TEST_CASE(a_worker_without_the_token_gets_nothing_compiled,
                        preparations) {
  pause_without({target.next.socket, target.next.token + 1});
}

BOOST_FIXTURE_TEST_CASE(a_next_worker_that_dies_ends_no_migration,
                        preparations) {
  auto first = begin(transport::automatic, true);
  target.desk.reset();
  order_pause(1, false, target.next);
  { auto gone = accept_at(target.listener); }
  BOOST_TEST(paused(1) == "");
  goes_on_elsewhere(first, 0);
}

BOOST_FIXTURE_TEST_CASE(a_worker_ends_while_its_next_one_compiles,
                        preparations) {
  auto first = begin(transport::automatic, true);
  add(3);
  BOOST_TEST(read_counter() == 3u);
  compiled.compiling->close();
  order_pause(1, false, target.next);
  BOOST_TEST(compiled.wait(1));
  // The next epoch's worker replays the journal.
  kill(first);
  lease(2, start_worker(2, true));
  BOOST_TEST(read_counter() == 3u);
}

BOOST_DATA_TEST_CASE_F(preparations,
                       a_new_client_ends_what_its_predecessor_began,
                       data_of::make(both), where) {
  watches = true;
  auto first = begin(transport::automatic, where.same_host);
  target.desk.reset();
  order_pause(1, false, target.next);
  auto silent = accept_at(target.listener);
  kill_client();
  connect(transport::automatic, true);
  lease(1, first);
  // The session's worker does not wait for the answer any more.
  pollfd item{silent.get(), 0, 0};
  BOOST_TEST(await("the worker closes its connection", [&] {
    return ::poll(&item, 1, 0) == 1 && (item.revents & POLLHUP) != 0;
  }));
  add(3);
  BOOST_TEST(read_counter() == 3u);
}

/// A session whose calls are forwarded, with its prepared next worker on the
/// same host.
BOOST_FIXTURE_TEST_CASE(the_next_worker_has_what_the_former_one_copied,
                        preparations) {
  watches = true;
  auto first = begin(transport::automatic, false);
  add(3);
  order_pause(1, false, target.next);
  BOOST_TEST(paused(1) == "");
  wait_for(first);
  target.desk->end();
  auto file = target.desk->take_contents();
  BOOST_REQUIRE(static_cast<bool>(file));
  auto state = state_reader::open(file.get());
  BOOST_REQUIRE(state.ok());
  auto contents = state->index().memory.size();
  BOOST_TEST(contents > 0u);
  former_contents = std::make_shared<const unique_fd>(std::move(file));
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 3u);
  BOOST_TEST(told("session-copied"));
}

BOOST_FIXTURE_TEST_CASE(a_worker_that_maps_the_log_hands_over_its_file_alone,
                        preparations) {
  watches = true;
  auto first = begin(transport::automatic, true);
  order_pause(1, false, target.next);
  BOOST_TEST(paused(1) == "");
  target.desk->end();
  BOOST_TEST(!target.desk->take_contents());
  goes_on_elsewhere(first, 0);
}

BOOST_AUTO_TEST_CASE(orders_end_a_preparation) {
  world source;
  prepared_worker_here target;
  source.preparation = [](auto& to, auto session, auto file, auto ring) {
    return prepare_next_worker(to, session, file, std::move(ring));
  };
  source.begin(transport::automatic, true);
  target.compiled->compiling->close();
  source.order_pause(1, false, target.next);
  BOOST_TEST(target.compiled->wait(1));
  std::thread orders{[&] { target.desk->end(); }};
  target.compiled->compiling->open();
  orders.join();
  BOOST_TEST(source.paused(1) == "");
  BOOST_TEST(target.exec.forget_prepared().prepared == 1u);
}

BOOST_FIXTURE_TEST_CASE(another_session_gets_nothing_compiled,
                        prepared_worker_here) {
  auto file = std::move(*make_state_memory());
  BOOST_TEST(!outcome_of(next, 2, file.get()).ok());
}

BOOST_FIXTURE_TEST_CASE(a_file_that_is_no_state_is_refused,
                        prepared_worker_here) {
  auto file = std::move(*make_state_memory());
  auto outcome = outcome_of(next, 1, file.get());
  BOOST_TEST(!outcome.ok());
  // One message is all that a prepared worker takes.
  BOOST_TEST(compiled->all().empty());
}

BOOST_FIXTURE_TEST_CASE(too_many_bytes_of_images_are_refused,
                        prepared_worker_here) {
  // The bound is 1 GiB and the quota, which is as much.
  auto file = state_with_image(std::uint64_t{4} << 30);
  auto outcome = outcome_of(next, 1, file.get());
  BOOST_REQUIRE(!outcome.ok());
  BOOST_TEST(outcome.why().what.find("too much memory") != std::string::npos,
             outcome.why().what);
}

BOOST_FIXTURE_TEST_CASE(a_silent_next_worker_is_given_up,
                        prepared_worker_here) {
  desk.reset(); // its socket stays, and nobody accepts
  auto file = std::move(*make_state_memory());
  auto outcome = outcome_of(next, 1, file.get(), 1ms);
  BOOST_REQUIRE(!outcome.ok());
  BOOST_TEST(outcome.why().what == "it does not answer in time");
}

BOOST_AUTO_TEST_SUITE_END()
