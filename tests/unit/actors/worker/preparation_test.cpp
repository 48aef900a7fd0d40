// Objects that the next worker makes while the session is still executed
// elsewhere.
#include "actors/state/state_file.hpp"
#include "tests/unit/actors/prepared_worker.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;
namespace data_of = boost::unit_test::data;

namespace {

/// What the device of a prepared worker made and ended.
struct acts {
  std::mutex lock;
  std::condition_variable changed;
  std::vector<std::string> texts; // of modules, with the number of options
  std::vector<std::string> others;
  std::shared_ptr<gate> loading = std::make_shared<gate>();

  void load(std::string text) {
    std::lock_guard guard{lock};
    texts.push_back(std::move(text));
    changed.notify_all();
  }
  void note(const std::string& what, std::uint64_t id) {
    std::lock_guard guard{lock};
    others.push_back(what + " " + std::to_string(id));
  }
  bool wait(std::size_t count) {
    std::unique_lock guard{lock};
    return changed.wait_for(guard, patience,
                            [&] { return texts.size() >= count; });
  }
  std::vector<std::string> loaded() {
    std::lock_guard guard{lock};
    return texts;
  }
  std::vector<std::string> all_others() {
    std::lock_guard guard{lock};
    return others;
  }
};

/// Tells what it does.
class telling_device final : public plain_device {
public:
  explicit telling_device(std::shared_ptr<acts> to) : to_(std::move(to)) {}

  result<vgpu::device::module_info>
  load_module(module_id id, std::span<const std::byte> image,
              const jit_settings& how) override {
    std::string text{reinterpret_cast<const char*>(image.data()), image.size()};
    to_->load(text + std::to_string(how.options.size()));
    to_->loading->pass();
    if (text == "wrong")
      return cuda_fault(CUDA_ERROR_INVALID_PTX, "it is wrong");
    return plain_device::load_module(id, image, how);
  }
  status create_stream(stream_id id, bool apart, int priority) override {
    to_->note("stream", id.value);
    return plain_device::create_stream(id, apart, priority);
  }
  status destroy_stream(stream_id id) override {
    to_->note("no stream", id.value);
    return plain_device::destroy_stream(id);
  }
  status create_event(event_id id, bool timing) override {
    to_->note("event", id.value);
    return plain_device::create_event(id, timing);
  }
  status destroy_event(event_id id) override {
    to_->note("no event", id.value);
    return plain_device::destroy_event(id);
  }

private:
  std::shared_ptr<acts> to_;
};

/// A prepared worker whose device tells what it does.
struct prepared_worker_here {
  std::shared_ptr<acts> done = std::make_shared<acts>();
  telling_device* dev = new telling_device{done};
  prepared_worker worker{std::unique_ptr<device::device>{dev}};
  next_worker& next = worker.next;
  unique_fd& listener = worker.listener;
  std::unique_ptr<executor>& exec = worker.exec;
  std::optional<preparation_desk>& desk = worker.desk;

  ~prepared_worker_here() { done->loading->open(); }
  std::unique_ptr<executor> ready() { return worker.ready(); }
};

struct preparations : world {
  prepared_worker_here target;
  acts& done = *target.done;

  preparations() {
    preparation = [](auto& to, auto session, auto file, auto ring) {
      return prepare_next_worker(to, session, file, connect_abstract,
                                 std::move(ring));
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
  /// Has the prepared worker serve the session in the second epoch.
  void goes_on_there(const running_worker& first, bool same_host) {
    kill(first);
    ready = target.ready();
    lease(2, start_worker(2, same_host));
  }
  void loaded_there(const std::vector<std::string>& wanted) {
    BOOST_TEST(done.loaded() == wanted, boost::test_tools::per_element());
  }

  /// Pauses the session, whose next worker is not as it should be.
  void pause_without(const next_worker& next) {
    auto first = begin(transport::automatic, true);
    order_pause(1, false, next);
    BOOST_TEST(paused(1) == "");
    BOOST_TEST(done.loaded().empty());
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
      to, {session}, {file}, connect_abstract, [&] { rang.open(); }, within);
  if (!begun)
    return begun.why();
  rang.pass();
  return *(*begun)->outcome();
}

} // namespace

BOOST_AUTO_TEST_SUITE(objects_made_ahead)

BOOST_DATA_TEST_CASE_F(preparations, calls_are_executed_while_objects_are_made,
                       data_of::make(both), where) {
  auto first = begin(transport::automatic, where.same_host);
  done.loading->close();
  order_pause(1, false, target.next);
  BOOST_TEST(done.wait(1));
  add(3);
  BOOST_TEST(read_counter() == 3u);
  done.loading->open();
  BOOST_TEST(paused(1) == "");
  loaded_there({"image0"});
  goes_on_there(first, where.same_host);
  BOOST_TEST(read_counter() == 3u);
  loaded_there({"image0"}); // and not once more
}

BOOST_DATA_TEST_CASE_F(preparations,
                       what_ends_meanwhile_ends_in_the_next_worker_too,
                       data_of::make(both), where) {
  auto first = begin(transport::automatic, where.same_host);
  for (auto id : {5, 6}) {
    append(call::stream_create{{{std::uint64_t(id)}}, 1, 0});
    append(call::event_create{{{std::uint64_t(id)}}, 1});
  }
  BOOST_TEST(read_counter() == 0u);
  done.loading->close();
  order_pause(1, false, target.next);
  BOOST_TEST(done.wait(1));
  append(call::stream_destroy{{{5}}});
  append(call::event_destroy{{{6}}});
  load_text("later", 8);
  done.loading->open();
  BOOST_TEST(paused(1) == "");
  auto made = done.all_others();
  for (auto x : {"stream 5", "stream 6", "event 5", "event 6"})
    BOOST_TEST(std::ranges::count(made, x) == 1, x);
  goes_on_there(first, where.same_host);
  BOOST_TEST(read_counter() == 0u);
  loaded_there({"image0", "later0"});
  auto all = done.all_others();
  for (auto x : {"stream 5", "stream 6", "event 5", "event 6", "no stream 5",
                 "no event 6"})
    BOOST_TEST(std::ranges::count(all, x) == 1, x);
  for (auto x : {"no stream 6", "no event 5"})
    BOOST_TEST(std::ranges::count(all, x) == 0, x);
}

BOOST_FIXTURE_TEST_CASE(modules_are_loaded_in_the_order_of_the_session,
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
  loaded_there({"image0", "second1", "gone0", "second0"});
}

BOOST_FIXTURE_TEST_CASE(a_large_image_is_passed_on_whole, preparations) {
  begin(transport::automatic, true);
  std::string large;
  while (large.size() < (5 << 20))
    large += std::to_string(large.size());
  load_text(large, 8);
  order_pause(1, false, target.next);
  BOOST_TEST(paused(1) == "");
  auto all = done.loaded();
  BOOST_REQUIRE(all.size() == 2u);
  BOOST_TEST((all[1] == large + "0"));
}

BOOST_FIXTURE_TEST_CASE(a_module_that_cannot_be_loaded_ends_no_migration,
                        preparations) {
  auto first = begin(transport::automatic, true);
  load_text("wrong", 8);
  load_text("behind", 9);
  order_pause(1, false, target.next);
  BOOST_TEST(paused(1) == "");
  BOOST_TEST(done.loaded().size() == 2u);
  goes_on_elsewhere(first, 0);
}

BOOST_FIXTURE_TEST_CASE(a_session_stays_whose_variables_lie_elsewhere_there,
                        preparations) {
  variable = std::make_shared<std::uint32_t>();
  target.dev->place_variable(std::make_shared<std::uint32_t>());
  // A dry run on the session's own GPU would not have noticed.
  dry_run = [](int, std::function<void()>) -> result<std::unique_ptr<helper>> {
    BOOST_ERROR("a dry run was made besides");
    return fault{fault_kind::internal, "no"};
  };
  begin(transport::automatic, true);
  order_pause(1, false, target.next);
  auto why = paused(1);
  BOOST_TEST(why.find("would not be like this one") != std::string::npos, why);
  BOOST_TEST(why.find("variable sum") != std::string::npos, why);
  add(3);
  BOOST_TEST(read_counter() == 3u);
}

BOOST_FIXTURE_TEST_CASE(objects_made_ahead_are_as_good_as_a_dry_run,
                        preparations) {
  variable = std::make_shared<std::uint32_t>();
  target.dev->place_variable(variable);
  auto first = begin(transport::automatic, true);
  add(3);
  order_pause(1, false, target.next);
  BOOST_TEST(paused(1) == "");
  goes_on_there(first, true);
  BOOST_TEST(read_counter() == 3u);
}

BOOST_DATA_TEST_CASE_F(preparations,
                       a_worker_with_objects_serves_no_session_without_a_state,
                       data_of::make(both), where) {
  auto first = begin(transport::automatic, where.same_host);
  done.loading->close();
  order_pause(1, false, target.next);
  BOOST_TEST(done.wait(1));
  // The journal has the session from its beginning.
  kill(first);
  done.loading->open();
  ready = target.ready();
  auto second = start_worker(2, where.same_host);
  lease(2, second);
  BOOST_TEST(in.wait([&] {
    return in.has<control::suspect>([](auto& x) {
      return x.reason.find("a state, and none comes") != std::string::npos;
    });
  }));
  kill(second);
  lease(3, start_worker(3, where.same_host));
  BOOST_TEST(read_counter() == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_next_worker_that_is_gone_ends_no_migration,
                        preparations) {
  pause_without({"vgpu-test-nobody-" + std::to_string(::getpid()), 4711});
}

BOOST_FIXTURE_TEST_CASE(a_worker_without_the_token_gets_nothing_made,
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

BOOST_FIXTURE_TEST_CASE(a_worker_ends_while_its_next_one_makes_objects,
                        preparations) {
  auto first = begin(transport::automatic, true);
  add(3);
  BOOST_TEST(read_counter() == 3u);
  done.loading->close();
  order_pause(1, false, target.next);
  BOOST_TEST(done.wait(1));
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
    return prepare_next_worker(to, session, file, connect_abstract,
                               std::move(ring));
  };
  source.begin(transport::automatic, true);
  target.done->loading->close();
  source.order_pause(1, false, target.next);
  BOOST_TEST(target.done->wait(1));
  std::thread orders{[&] { target.desk->end(); }};
  target.done->loading->open();
  orders.join();
  BOOST_TEST(source.paused(1) == "");
  BOOST_TEST(target.exec->awaits_state());
}

BOOST_FIXTURE_TEST_CASE(another_session_gets_nothing_made,
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
  BOOST_TEST(done->loaded().empty());
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
