// A session's lease, and the fence between its workers.
#include "actors/client/session_lease.hpp"

#include "actors/client/fence.hpp"
#include "actors/client/guest_codec.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <span>

using namespace vgpu;
using namespace std::chrono_literals;

namespace {

control::lease granted(std::uint64_t number, std::uint64_t quota = 1 << 20) {
  control::lease x;
  x.session = {7};
  x.vgpu = {3};
  x.epoch = {number};
  x.node = "n" + std::to_string(number);
  x.worker.host = "elsewhere";
  x.token = 11;
  x.quota = quota;
  return x;
}

} // namespace

BOOST_AUTO_TEST_SUITE(leases_of_a_session)

BOOST_AUTO_TEST_CASE(only_a_later_epoch_changes_the_place) {
  using change = session_lease::change;
  session_lease it;
  BOOST_TEST((it.compare(granted(1)) == change::place));
  BOOST_TEST(it.session().value == 0u);
  it.grant(granted(2));
  BOOST_TEST((it.compare(granted(1)) == change::nothing));
  BOOST_TEST((it.compare(granted(2, 5)) == change::terms));
  BOOST_TEST((it.compare(granted(3)) == change::place));
}

BOOST_AUTO_TEST_CASE(a_new_lease_is_trusted_and_follows_the_former) {
  session_lease it;
  it.grant(granted(1));
  BOOST_TEST(!it.follows_another());
  it.suspect("silent");
  BOOST_TEST(it.suspected());
  it.grant(granted(2));
  BOOST_TEST(!it.suspected());
  BOOST_TEST(it.last_suspicion() == "silent");
  BOOST_TEST(it.follows_another());
  BOOST_TEST(it.former()->epoch.value == 1u);
  it.forget_former();
  BOOST_TEST(!it.follows_another());
}

BOOST_AUTO_TEST_CASE(a_worker_that_was_not_fenced_stays_the_former) {
  session_lease it;
  it.grant(granted(1));
  it.grant(granted(2)); // the fence does not pass
  it.grant(granted(3));
  BOOST_REQUIRE(it.former().has_value());
  BOOST_TEST(it.former()->epoch.value == 1u);
  it.forget_former();
  it.grant(granted(4));
  BOOST_REQUIRE(it.former().has_value());
  BOOST_TEST(it.former()->epoch.value == 3u);
}

BOOST_AUTO_TEST_CASE(a_lease_of_the_former_clients_epoch_needs_no_fence) {
  session_lease it;
  it.take_over(granted(4));
  it.grant(granted(4));
  BOOST_TEST(!it.follows_another());
}

BOOST_AUTO_TEST_CASE(the_next_client_reads_the_ticket) {
  session_lease it;
  it.grant(granted(5));
  auto header = std::make_unique<control_header>();
  it.write_ticket(*header);
  auto ticket = guest::decode_ticket(
      std::span{header->ticket}.first(header->ticket_size.load()));
  BOOST_REQUIRE(ticket.ok());
  BOOST_TEST((ticket->lease == granted(5)));
  BOOST_TEST(ticket->adopt.epoch.value == 5u);
}

BOOST_AUTO_TEST_CASE(the_fence_waits_for_the_term_of_a_worker_elsewhere) {
  using clock = std::chrono::steady_clock;
  constexpr auto term = 30ms;
  worker_fence fence{"here", term};
  fence.note_contact();
  auto began = clock::now();
  BOOST_TEST(fence.pass(granted(1), {2}).ok());
  BOOST_TEST((clock::now() - began >= term));
}

BOOST_AUTO_TEST_CASE(the_fence_does_not_wait_for_a_worker_that_was_released) {
  constexpr auto term = std::chrono::hours{1}; // far longer than the test runs
  worker_fence fence{"here", term};
  fence.note_contact();
  fence.note_released({1});
  BOOST_TEST(fence.pass(granted(1), {2}).ok());
  BOOST_TEST(fence.pass(std::nullopt, {2}).ok());
  BOOST_TEST(fence.pass(granted(2), {2}).ok());
}

BOOST_AUTO_TEST_SUITE_END()
