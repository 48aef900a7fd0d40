#include "policies/lifecycle/liveness.hpp"
#include "policies/lifecycle/restart.hpp"
#include "policies/placement/admission.hpp"
#include "policies/placement/placement.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/policies/policy_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>

using namespace vgpu;
using namespace vgpu::policy;
using namespace std::chrono_literals;

namespace {

node_view node(std::string name, std::vector<pgpu_view> pgpus,
               std::string host = "h") {
  return {std::move(name), std::move(host), true, std::move(pgpus)};
}

pgpu_view gpu(std::uint32_t ordinal, double shares = 0,
              std::uint64_t reserved = 0) {
  return {ordinal, 4 * gib, reserved, shares, shares > 0 ? 1u : 0u, true};
}

cluster_view two_nodes() {
  return {{node("a", {gpu(0), gpu(1)}), node("b", {gpu(0), gpu(1)}, "other")}};
}

std::string chosen(const cluster_view& cluster, const demand& what) {
  auto got = choose_place(cluster, what);
  if (auto* none = std::get_if<no_place>(&got))
    return none->why.empty() ? "no reason" : "none";
  auto& where = std::get<place>(got);
  for (auto x : where.pgpus)
    where.node += std::to_string(x);
  return where.node;
}

demand ask(std::uint64_t memory = 0, std::uint32_t gpus = 1) {
  demand out;
  out.memory = memory;
  out.gpus = gpus;
  out.host = "h";
  return out;
}

} // namespace

BOOST_AUTO_TEST_SUITE(placement)

BOOST_AUTO_TEST_CASE(the_programs_host_comes_first) {
  auto cluster = two_nodes();
  BOOST_TEST(chosen(cluster, ask()) == "a0");
  auto far = ask();
  far.host = "other";
  BOOST_TEST(chosen(cluster, far) == "b0");
  // This holds even when that host is busier.
  cluster.nodes[0].pgpus = {gpu(0, 2), gpu(1, 3)};
  BOOST_TEST(chosen(cluster, ask()) == "a0");
}

BOOST_AUTO_TEST_CASE(the_least_loaded_pgpu_is_taken) {
  auto cluster = two_nodes();
  cluster.nodes[0].pgpus = {gpu(0, 0.5), gpu(1, 0.25)};
  BOOST_TEST(chosen(cluster, ask()) == "a1");
  cluster.nodes[1].host = "h";
  BOOST_TEST(chosen(cluster, ask()) == "b0");
}

BOOST_AUTO_TEST_CASE(more_free_memory_breaks_a_tie) {
  cluster_view cluster{{node("a", {gpu(0, 0, gib), gpu(1)})}};
  BOOST_TEST(chosen(cluster, ask()) == "a1");
}

BOOST_AUTO_TEST_CASE(a_pgpu_that_is_too_small_is_not_taken) {
  cluster_view cluster{{node("a", {gpu(0, 0, 3 * gib), gpu(1, 5)})}};
  BOOST_TEST(chosen(cluster, ask(2 * gib)) == "a1");
  BOOST_TEST(chosen(cluster, ask(gib)) == "a0");
  BOOST_TEST(chosen(cluster, ask(5 * gib)) == "none");
  cluster.nodes[0].pgpus[1].healthy = false;
  BOOST_TEST(chosen(cluster, ask(2 * gib)) == "none");
  cluster.nodes[0].alive = false;
  BOOST_TEST(chosen(cluster, ask()) == "none");
  BOOST_TEST(chosen({}, ask()) == "none");
}

BOOST_AUTO_TEST_CASE(more_reserved_than_there_is_leaves_nothing_free) {
  cluster_view cluster{{node("a", {gpu(0, 0, 5 * gib)})}};
  BOOST_TEST(chosen(cluster, ask(1)) == "none");
  BOOST_TEST(chosen(cluster, ask(0)) == "a0");
}

BOOST_AUTO_TEST_CASE(a_requested_capability_is_a_minimum) {
  auto cluster = two_nodes();
  cluster.nodes[0].pgpus[1].capability = 80;
  cluster.nodes[1].pgpus[0].capability = 120;
  auto what = ask();
  what.capability = 75;
  BOOST_TEST(chosen(cluster, what) == "a1");
  what.capability = 80;
  BOOST_TEST(chosen(cluster, what) == "a1");
  what.capability = 90;
  BOOST_TEST(chosen(cluster, what) == "b0");
  what.capability = 121;
  auto got = choose_place(cluster, what);
  auto* none = std::get_if<no_place>(&got);
  BOOST_REQUIRE(none != nullptr);
  BOOST_TEST(none->why.find("compute capability 12.1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(several_gpus_come_from_one_node) {
  cluster_view cluster{
      {node("a", {gpu(0), gpu(1)}), node("b", {gpu(0, 1), gpu(1), gpu(2)})}};
  BOOST_TEST(chosen(cluster, ask(0, 2)) == "a01");
  BOOST_TEST(chosen(cluster, ask(0, 3)) == "b012");
  BOOST_TEST(chosen(cluster, ask(0, 4)) == "none");
}

BOOST_AUTO_TEST_CASE(the_former_place_is_preferred_unless_it_failed) {
  auto cluster = two_nodes();
  auto again = ask();
  again.previous = {"b", {1}};
  BOOST_TEST(chosen(cluster, again) == "b1");
  again.failing = {{"b", {1}}};
  BOOST_TEST(chosen(cluster, again) == "a0");
  again.failing = {{"b", {1}}, {"a", {0}}};
  BOOST_TEST(chosen(cluster, again) == "a1");
  // If there is no other place, a failed one is used.
  cluster_view rest{{node("b", {gpu(1)})}};
  BOOST_TEST(chosen(rest, again) == "b1");
}

BOOST_AUTO_TEST_CASE(a_group_stays_together_where_it_fits) {
  auto cluster = two_nodes();
  cluster.nodes[0].pgpus = {gpu(0), gpu(1, 1)};
  auto next = ask();
  next.affinity = {{"a", {1}}};
  BOOST_TEST(chosen(cluster, next) == "a1");
  // This also holds off the program's host.
  next.affinity = {{"b", {1}}};
  BOOST_TEST(chosen(cluster, next) == "b1");
  // A member that needs several pGPUs gets the group's.
  auto both = ask(0, 2);
  both.affinity = {{"b", {0, 1}}};
  BOOST_TEST(chosen(cluster, both) == "b01");
  // The session's own constraints come first, and a place where it failed does
  // not attract it.
  next.node = "a";
  BOOST_TEST(chosen(cluster, next) == "a0");
  next.node = "";
  next.failing = {{"b", {1}}};
  BOOST_TEST(chosen(cluster, next) == "a0");
  // The group is a preference, not a condition.
  cluster.nodes[1].pgpus = {gpu(0), gpu(1, 1, 4 * gib)};
  next = ask(gib);
  next.affinity = {{"b", {1}}};
  BOOST_TEST(chosen(cluster, next) == "a0");
}

BOOST_AUTO_TEST_CASE(ten_thousand_nodes_take_no_time) {
  cluster_view cluster;
  for (auto i = 0; i < 10'000; ++i)
    cluster.nodes.push_back(
        node("n" + std::to_string(i), {gpu(0, 1 + i % 7), gpu(1, 2)}));
  cluster.nodes[7777].pgpus[1].shares = 0.5;
  BOOST_TEST(chosen(cluster, ask()) == "n77771");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(admission)

BOOST_AUTO_TEST_CASE(only_what_can_never_fit_is_refused) {
  auto cluster = two_nodes();
  struct row {
    double share;
    std::uint64_t memory;
    std::uint32_t gpus;
    CUresult code;
  };
  auto nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& x : std::vector<row>{
           {1, 0, 1, CUDA_SUCCESS},
           {0.001, 4 * gib, 2, CUDA_SUCCESS},
           {0, 0, 1, CUDA_ERROR_INVALID_VALUE},
           {-1, 0, 1, CUDA_ERROR_INVALID_VALUE},
           {1.01, 0, 1, CUDA_ERROR_INVALID_VALUE},
           {nan, 0, 1, CUDA_ERROR_INVALID_VALUE},
           {1, 4 * gib + 1, 1, CUDA_ERROR_OUT_OF_MEMORY},
           {1, 0, 0, CUDA_ERROR_INVALID_VALUE},
           {1, 0, 3, CUDA_ERROR_INVALID_VALUE},
           {1, 0, 1'000'000, CUDA_ERROR_INVALID_VALUE},
       }) {
    demand what;
    what.share = x.share;
    what.memory = x.memory;
    what.gpus = x.gpus;
    BOOST_TEST_CONTEXT(x.share << " " << x.memory << " " << x.gpus)
    BOOST_TEST(cuda_code(admit(cluster, what)) == x.code);
  }
}

BOOST_AUTO_TEST_CASE(a_demand_for_a_busy_pgpu_is_admitted) {
  cluster_view cluster{{node("a", {gpu(0, 9, 4 * gib)})}};
  BOOST_TEST(admit(cluster, ask(4 * gib)).ok());
}

BOOST_AUTO_TEST_CASE(the_reason_to_wait_names_what_each_gpu_lacks) {
  cluster_view cluster{{node("a", {gpu(0, 1, 3 * gib), gpu(1, 1, 2 * gib)}),
                        node("b", {gpu(0, 1, gib), gpu(1), gpu(2)})}};
  cluster.nodes[1].pgpus[2].healthy = false;
  auto what = ask(4 * gib);
  BOOST_TEST(why_waiting(cluster, {{"b", {1}}}, what) ==
             "b pGPU 0 lacks 1024 MiB (1024 MiB of 4096 MiB are promised), "
             "a pGPU 1 lacks 2048 MiB (2048 MiB of 4096 MiB are promised), "
             "a pGPU 0 lacks 3072 MiB (3072 MiB of 4096 MiB are promised), "
             "and 2 more");
  what.node = "b";
  BOOST_TEST(
      why_waiting(cluster, {{"b", {1}}}, what) ==
      "b pGPU 0 lacks 1024 MiB (1024 MiB of 4096 MiB are promised), b pGPU 1 "
      "is reserved for a program ahead in the queue, b pGPU 2 is not healthy");
  what.gpus = 2;
  what.memory = 4 * gib;
  BOOST_TEST(why_waiting(cluster, {}, what)
                 .starts_with("b pGPU 1 has room, but the program needs "
                              "several GPUs of one node, b pGPU 0 lacks"));
  what.node = "z";
  BOOST_TEST(why_waiting(cluster, {}, what).empty());
}

BOOST_AUTO_TEST_CASE(an_empty_cluster_says_so) {
  BOOST_TEST(cuda_code(admit({}, ask())) == CUDA_ERROR_NO_DEVICE);
  auto dead = two_nodes();
  for (auto& x : dead.nodes)
    x.alive = false;
  BOOST_TEST(cuda_code(admit(dead, ask())) == CUDA_ERROR_NO_DEVICE);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(liveness)

BOOST_AUTO_TEST_CASE(silence_or_a_closed_connection_make_a_peer_lost) {
  liveness_options options{500ms, 100ms};
  time_point start{1h};
  sightings seen{start, {}};
  BOOST_TEST(!is_lost(seen, start + 499ms, options));
  BOOST_TEST(is_lost(seen, start + 500ms, options));
  seen.closed = start + 50ms;
  BOOST_TEST(!is_lost(seen, start + 149ms, options));
  BOOST_TEST(is_lost(seen, start + 150ms, options));
  // A connection that closes late does not prolong the time.
  seen.closed = start + 450ms;
  BOOST_TEST(is_lost(seen, start + 500ms, options));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(restart)

BOOST_AUTO_TEST_CASE(failures_in_a_row_back_off_move_and_end) {
  restart_options options{2, 5, 100ms, 300ms, 60s};
  restart_history past;
  time_point now{1h};
  struct row {
    duration delay;
    bool elsewhere, give_up;
  };
  for (const auto& x : std::vector<row>{{0ms, false, false},
                                        {100ms, true, false},
                                        {200ms, false, false},
                                        {300ms, true, false},
                                        {300ms, false, true}}) {
    auto got = after_failure(past, now, options);
    BOOST_TEST((got.delay == x.delay));
    BOOST_TEST(got.elsewhere == x.elsewhere);
    BOOST_TEST(got.give_up == x.give_up);
    past = got.history;
    now += 1s;
  }
}

BOOST_AUTO_TEST_CASE(a_long_run_resets_the_failures) {
  restart_options options;
  time_point now{1h};
  restart_history past{9, 1, now};
  auto got = after_failure(past, now + options.forgets_after, options);
  BOOST_TEST(got.history.in_a_row == 1u);
  BOOST_TEST(!got.give_up);
  BOOST_TEST((got.delay == 0ms));
}

BOOST_AUTO_TEST_CASE(failures_between_results_are_not_in_a_row) {
  restart_options options{2, 5, 100ms, 300ms, 60s};
  restart_history past;
  time_point now{1h};
  for (auto failure = 1; failure <= 20; ++failure) {
    auto got = after_failure(past, now, options);
    BOOST_TEST(!got.give_up);
    BOOST_TEST((got.delay == 0ms));
    // Another pGPU is tried as often as without results.
    BOOST_TEST(got.elsewhere == (failure % 2 == 0));
    past = after_progress(got.history);
    now += 1s;
  }
}

BOOST_AUTO_TEST_CASE(the_delay_never_overflows) {
  restart_options options;
  options.gives_up_after = 1'000'000;
  restart_history past{500'000, 0, time_point{1h}};
  auto got = after_failure(past, time_point{1h}, options);
  BOOST_TEST((got.delay == options.longest_delay));
}

BOOST_AUTO_TEST_SUITE_END()
