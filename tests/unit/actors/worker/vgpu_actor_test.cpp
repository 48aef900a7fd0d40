// A vGPU state actor through its typed handle: its five requests, and a
// migration to an actor of a later epoch.
#include "tests/unit/actors/data_plane_fixture.hpp"

#include "actors/state/state_file.hpp"

using namespace vgpu;
using namespace vgpu::test;

namespace {

/// A session whose worker runs elsewhere, and an actor that sends requests to
/// its vGPU.
struct a_vgpu : world {
  caf::scoped_actor self{system};

  /// Sends a request, and returns the answer or the reason for there being
  /// none.
  template <class Answer, class Question>
  caf::expected<Answer> ask_vgpu(const vgpu_actor& whom, Question what) {
    caf::expected<Answer> out{caf::error{caf::sec::request_timeout}};
    self->request(whom, caf::infinite, std::move(what))
        .receive([&](Answer& x) { out = std::move(x); },
                 [&](caf::error& why) { out = std::move(why); });
    return out;
  }
  template <class Question>
  caf::expected<vgpu_place> place(const vgpu_actor& whom, Question what) {
    return ask_vgpu<vgpu_place>(whom, std::move(what));
  }
  template <class Answer>
  static bool refuses(const caf::expected<Answer>& x, vgpu_refusal why) {
    return !x && is_refusal(x.error(), why);
  }
  /// Returns the actor's phase, or `gone` where no actor answers.
  vgpu_phase phase_of(const vgpu_actor& whom) {
    auto at = place(whom, where_is_vgpu{});
    if (at)
      return at->phase;
    BOOST_TEST(is_refusal(at.error(), vgpu_refusal::gone));
    return vgpu_phase::gone;
  }
  /// Ends an actor in order, as its node does.
  void stop(const vgpu_actor& whom) {
    caf::anon_send_exit(whom, caf::exit_reason::user_shutdown);
    self->wait_for(whom);
  }
};

/// Returns the first word of the counter's memory in a state.
std::uint32_t counter_in(const vgpu_description& what) {
  auto state = state_reader::open(what.state->get());
  BOOST_REQUIRE(state.ok());
  std::uint32_t word = 0;
  for (auto& x : state->index().memory)
    if (x.address == world::counter) {
      std::vector<std::byte> bytes(x.bytes);
      BOOST_REQUIRE(state->read(x, bytes).ok());
      std::memcpy(&word, bytes.data(), sizeof(word));
    }
  return word;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(vgpu_actors, a_vgpu)

BOOST_AUTO_TEST_CASE(a_vgpu_reports_its_place) {
  connect(transport::forwarded);
  auto worker = start_worker(3, false);
  auto at = place(worker.actor, where_is_vgpu{});
  BOOST_REQUIRE(static_cast<bool>(at));
  BOOST_TEST(at->name == "vgpu/1");
  BOOST_TEST((at->session == session_id{1}));
  BOOST_TEST((at->epoch == vgpu::epoch{3}));
  BOOST_TEST((at->endpoints == worker.endpoints));
  BOOST_TEST((at->phase == vgpu_phase::arriving));
  BOOST_TEST(at->position.value == 0u);
  lease(3, worker);
  prepare();
  BOOST_TEST((phase_of(worker.actor) == vgpu_phase::serving));
  BOOST_TEST(place(worker.actor, where_is_vgpu{})->position.value != 0u);
}

BOOST_AUTO_TEST_CASE(a_vgpu_refuses_requests_that_its_phase_forbids) {
  auto worker = start_worker(1, false);
  BOOST_TEST(
      refuses(place(worker.actor, pause_vgpu{{1}}), vgpu_refusal::refused));
  BOOST_TEST(
      refuses(ask_vgpu<vgpu_description>(worker.actor, describe_vgpu{{1}}),
              vgpu_refusal::refused));
  BOOST_TEST(refuses(place(worker.actor, adopt_vgpu{{1}, nullptr}),
                     vgpu_refusal::refused));
  connect(transport::forwarded);
  lease(1, worker);
  prepare();
  BOOST_TEST(
      refuses(ask_vgpu<vgpu_description>(worker.actor, describe_vgpu{{1}}),
              vgpu_refusal::refused));
}

BOOST_AUTO_TEST_CASE(a_vgpu_refuses_requests_of_another_epoch) {
  auto worker = start_worker(2, false);
  for (std::uint64_t other : {1, 3}) {
    BOOST_TEST(refuses(place(worker.actor, pause_vgpu{{other}}),
                       vgpu_refusal::other_epoch));
    BOOST_TEST(refuses(
        ask_vgpu<vgpu_description>(worker.actor, describe_vgpu{{other}}),
        vgpu_refusal::other_epoch));
    BOOST_TEST(refuses(place(worker.actor, adopt_vgpu{{other}, nullptr}),
                       vgpu_refusal::other_epoch));
    BOOST_TEST(refuses(place(worker.actor, resume_vgpu{{other}}),
                       vgpu_refusal::other_epoch));
  }
}

BOOST_AUTO_TEST_CASE(a_vgpu_resumes_where_it_was_paused) {
  auto worker = begin(transport::forwarded, false);
  add(5);
  BOOST_TEST(read_counter() == 5u);
  auto at = place(worker.actor, pause_vgpu{{1}});
  BOOST_REQUIRE(static_cast<bool>(at));
  BOOST_TEST((at->phase == vgpu_phase::paused));
  // A second request gets the same answer.
  BOOST_TEST((place(worker.actor, pause_vgpu{{1}})->position == at->position));
  add(4);
  BOOST_TEST((place(worker.actor, where_is_vgpu{})->position == at->position));
  BOOST_TEST(
      (place(worker.actor, resume_vgpu{{1}})->phase == vgpu_phase::serving));
  BOOST_TEST(read_counter() == 9u);
}

BOOST_AUTO_TEST_CASE(a_vgpu_keeps_its_name_and_contents_when_it_moves) {
  auto former = begin(transport::forwarded, false);
  add(5);
  BOOST_TEST(read_counter() == 5u);
  auto paused = place(former.actor, pause_vgpu{{1}});
  BOOST_REQUIRE(static_cast<bool>(paused));
  auto described = ask_vgpu<vgpu_description>(former.actor, describe_vgpu{{1}});
  BOOST_REQUIRE(static_cast<bool>(described));
  BOOST_TEST((described->position == paused->position));
  BOOST_TEST(described->bytes != 0u);
  BOOST_TEST(counter_in(*described) == 5u);

  // Two actors of one process cannot have the host window at one time.
  stop(former.actor);
  auto next = start_worker(2, false);
  auto adopted = place(next.actor, adopt_vgpu{{2}, described->state});
  BOOST_REQUIRE(static_cast<bool>(adopted));
  BOOST_TEST(adopted->name == paused->name);
  BOOST_TEST((adopted->epoch == vgpu::epoch{2}));
  BOOST_TEST((adopted->position == paused->position));
  BOOST_TEST((adopted->phase == vgpu_phase::arriving));
  BOOST_TEST(refuses(place(next.actor, adopt_vgpu{{2}, described->state}),
                     vgpu_refusal::refused));
  BOOST_TEST(
      (place(next.actor, resume_vgpu{{2}})->phase == vgpu_phase::serving));

  // The former actor does not answer for the present one.
  BOOST_TEST((phase_of(former.actor) == vgpu_phase::gone));
  BOOST_TEST(
      refuses(place(former.actor, resume_vgpu{{1}}), vgpu_refusal::gone));
  BOOST_TEST(
      refuses(place(next.actor, resume_vgpu{{1}}), vgpu_refusal::other_epoch));

  BOOST_TEST((place(next.actor, pause_vgpu{{2}})->phase == vgpu_phase::paused));
  auto again = ask_vgpu<vgpu_description>(next.actor, describe_vgpu{{2}});
  BOOST_REQUIRE(static_cast<bool>(again));
  BOOST_TEST((again->position == described->position));
  BOOST_TEST(counter_in(*again) == 5u);
  BOOST_TEST(
      (place(next.actor, resume_vgpu{{2}})->phase == vgpu_phase::serving));

  // The program does not notice the migration.
  lease(2, next);
  add(4);
  BOOST_TEST(read_counter() == 9u);
}

BOOST_AUTO_TEST_CASE(a_larger_quota_reaches_the_session) {
  auto worker = begin(transport::forwarded, false);
  self->send(worker.actor, resize_vgpu{std::uint64_t{2} << 30});
  BOOST_TEST(await("the quota is larger", [gauges = worker.gauges] {
    return gauges->quota.load() == std::uint64_t{2} << 30;
  }));
}

BOOST_AUTO_TEST_SUITE_END()
