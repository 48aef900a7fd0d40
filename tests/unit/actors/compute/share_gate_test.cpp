// Gates of several sessions at one board, on a simulated pGPU, in virtual time.
#include "actors/compute/share_gate.hpp"

#include "tests/unit/actors/plain_device.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <deque>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>

using namespace vgpu;
using policy::share_claim;
using policy::share_ns;

namespace {

constexpr share_ns us = 1'000;
constexpr share_ns ms = 1'000'000;
constexpr share_ns s = 1'000'000'000;

/// One engine that serves the work of all sessions' devices in order of
/// arrival.
struct simulated_gpu {
  share_ns now = 1 * s;
  share_ns free_at = 0; // when all that is enqueued will be done
  share_ns longest = 0; // from the beginning of an enqueue to its end

  /// Enqueues work. Returns when it will be done.
  share_ns enqueue(share_ns length) {
    free_at = std::max(free_at, now) + length;
    longest = std::max(longest, free_at - now);
    return free_at;
  }
};

/// One session's part of the GPU. It reports ends only in tell().
class simulated_device final : public test::plain_device {
public:
  explicit simulated_device(simulated_gpu& gpu) : gpu_(gpu) {}

  void work(share_ns length) {
    last_ = gpu_.enqueue(length);
    used += length;
  }
  void when_done(std::optional<stream_id>,
                 vgpu::device::completion done) override {
    waiting.emplace_back(hangs ? std::numeric_limits<share_ns>::max() : last_,
                         std::move(done));
  }
  void tell() {
    while (!waiting.empty() && waiting.front().first <= gpu_.now) {
      auto done = std::move(waiting.front().second);
      waiting.pop_front();
      done(CUDA_SUCCESS);
    }
  }

  std::deque<std::pair<share_ns, vgpu::device::completion>> waiting;
  share_ns used = 0;
  bool hangs = false;

private:
  simulated_gpu& gpu_;
  share_ns last_ = 0; // when its work will be done
};

struct session {
  std::int32_t seat;
  std::unique_ptr<simulated_device> device;
  std::unique_ptr<share_gate> gate;
};

struct fixture {
  simulated_gpu gpu;
  std::shared_ptr<share_board> board = *share_board::create();

  /// Takes turns only. share_concurrent_test.cpp tests concurrent sessions.
  fixture() {
    auto rules = board->rules();
    rules.joins = 0;
    board->set_rules(rules);
  }

  session join(share_claim claim = {}) {
    session out;
    out.seat = board->sit(claim);
    out.device = std::make_unique<simulated_device>(gpu);
    out.gate = std::make_unique<share_gate>(board, out.seat, *out.device,
                                            [this] { return gpu.now; });
    return out;
  }

  /// Enqueues one kernel. Returns false where the gate does not admit it now.
  static bool launch(session& x, share_ns length, work_key key = 1) {
    if (!x.gate->enter(key))
      return false;
    x.device->work(length);
    x.gate->submitted();
    return true;
  }

  static void finish(session& x) {
    x.gate->rest();
    x.device->tell();
  }

  /// Lets time pass, and reports the work that is done by then.
  void pass(share_ns span, std::initializer_list<session*> all) {
    gpu.now += span;
    for (auto* x : all)
      finish(*x);
  }

  /// Runs programs that launch as fast as the gate admits, each with kernels of
  /// its own length.
  void run(std::vector<session>& all, const std::vector<share_ns>& kernels,
           share_ns span) {
    for (auto end = gpu.now + span; gpu.now < end; gpu.now += 100 * us)
      for (auto i = 0u; i < all.size(); ++i) {
        finish(all[i]);
        while (launch(all[i], kernels[i]))
          ;
        finish(all[i]);
      }
  }

  /// Like run(), on a busy host: ends are reported together every
  /// `reports_every`, and a session that waits runs `late[i]` after it was
  /// woken.
  void run_busy(std::vector<session>& all, const std::vector<share_ns>& kernels,
                const std::vector<share_ns>& late, share_ns reports_every,
                share_ns span) {
    constexpr auto patience = 20 * ms;
    struct sleeper {
      std::uint32_t rings = 0;
      share_ns since = 0; // 0: awake
      share_ns woken = 0;
    };
    std::vector<sleeper> sleepers(all.size());
    auto awake = [&](std::size_t i) {
      auto& x = sleepers[i];
      if (x.since != 0 && x.woken == 0 &&
          (board->rings(all[i].seat) != x.rings ||
           gpu.now >= x.since + patience))
        x.woken = gpu.now;
      if (x.since != 0 && (x.woken == 0 || gpu.now < x.woken + late[i]))
        return false;
      x = {};
      return true;
    };
    for (auto end = gpu.now + span; gpu.now < end; gpu.now += 100 * us)
      for (auto i = 0u; i < all.size(); ++i) {
        if (gpu.now % reports_every == 0)
          finish(all[i]);
        if (!awake(i))
          continue;
        auto rings = board->rings(all[i].seat);
        while (launch(all[i], kernels[i]))
          ;
        sleepers[i] = {rings, gpu.now, 0};
      }
  }
};

/// Returns the device time of each session while `f` ran, as a part of that of
/// all.
template <class F>
std::vector<double> shares_of(const std::vector<session>& all, F f) {
  std::vector<double> out;
  for (auto& x : all)
    out.push_back(-static_cast<double>(x.device->used));
  f();
  auto sum = 0.0;
  for (auto i = 0u; i < all.size(); ++i)
    sum += out[i] += static_cast<double>(all[i].device->used);
  for (auto& x : out)
    x /= sum;
  return out;
}

double jain(const std::vector<session>& all) {
  auto sum = 0.0;
  auto squares = 0.0;
  for (auto& x : all) {
    auto used = static_cast<double>(x.device->used);
    sum += used;
    squares += used * used;
  }
  return sum * sum / (static_cast<double>(all.size()) * squares);
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(one_gate, fixture)

BOOST_AUTO_TEST_CASE(a_session_alone_never_waits_and_is_not_measured) {
  auto a = join();
  for (auto i = 0; i < 10'000; ++i)
    BOOST_TEST(launch(a, 5 * ms));
  a.gate->rest();
  BOOST_TEST(a.device->waiting.empty());
}

BOOST_AUTO_TEST_CASE(unknown_work_runs_alone) {
  auto a = join();
  auto b = join();
  BOOST_TEST(launch(a, 3 * ms, 7));
  BOOST_TEST(!launch(a, 3 * ms, 8)); // unknown as well
  pass(3 * ms, {&a});
  BOOST_TEST(launch(a, 3 * ms, 8));
  BOOST_TEST(board->look(a.seat).used == 3u * ms);
}

BOOST_AUTO_TEST_CASE(work_is_admitted_if_it_ends_within_the_turn) {
  auto a = join();
  auto b = join();
  BOOST_TEST(launch(a, 4 * ms));
  BOOST_TEST(!launch(b, 1 * ms)); // waits from now on
  pass(4 * ms, {&a});
  auto more = 0;
  while (launch(a, 4 * ms))
    ++more;
  BOOST_TEST(more == 4); // 16 ms of the turn were left
  pass(16 * ms, {&a});
  BOOST_TEST(!launch(a, 4 * ms));
  BOOST_TEST(launch(b, 1 * ms));
  BOOST_TEST(board->look(a.seat).used == 20u * ms);
}

BOOST_AUTO_TEST_CASE(an_idle_turn_is_given_away_soon) {
  auto a = join();
  auto b = join();
  BOOST_TEST(launch(a, 1 * ms));
  BOOST_TEST(!launch(b, 1 * ms));
  pass(1 * ms, {&a}); // and nothing more comes
  auto waited = share_ns{0};
  for (; !launch(b, 1 * ms); waited += ms)
    gpu.now += ms;
  BOOST_TEST(waited <= 12 * ms);
}

BOOST_AUTO_TEST_CASE(a_worker_that_dies_frees_its_turn_at_once) {
  auto a = join();
  auto b = join();
  a.device->hangs = true;
  BOOST_TEST(launch(a, 1 * ms));
  BOOST_TEST(!launch(b, 1 * ms));
  auto heard = board->rings(b.seat);
  board->stand(a.seat);
  BOOST_TEST(board->rings(b.seat) != heard);
  BOOST_TEST(launch(b, 1 * ms));
}

/// Otherwise it would be charged for all time until another session joins.
BOOST_AUTO_TEST_CASE(unmeasured_work_is_settled_once_a_session_is_alone) {
  auto a = join();
  auto b = join();
  BOOST_TEST(launch(a, 1 * us));
  pass(1 * us, {&a});
  BOOST_TEST(launch(a, 1 * us));
  BOOST_TEST(a.device->waiting.empty());
  board->stand(b.seat);
  BOOST_TEST(launch(a, 1 * us));
  BOOST_TEST(a.device->waiting.size() == 1u);
}

BOOST_AUTO_TEST_CASE(work_that_waits_for_later_work_does_not_block_it) {
  auto a = join();
  auto b = join();
  a.device->hangs = true;
  BOOST_TEST(launch(a, 1 * ms, 1));
  BOOST_TEST(!launch(a, 1 * ms, 2));
  gpu.now += 150 * ms;
  BOOST_TEST(launch(a, 1 * ms, 2));
}

BOOST_AUTO_TEST_CASE(a_limit_holds_also_for_a_session_alone) {
  std::vector<session> all;
  all.push_back(
      join({.share = 0.25, .limit = 0.25, .priority = 0, .unused = 0}));
  run(all, {2 * ms}, 8 * s);
  BOOST_TEST(std::abs(static_cast<double>(all[0].device->used) / (8 * s) -
                      0.25) < 0.02);
}

BOOST_AUTO_TEST_CASE(a_wait_ends_when_it_is_nudged) {
  auto a = join();
  auto b = join();
  BOOST_TEST(launch(a, 1 * ms));
  BOOST_TEST(!launch(b, 1 * ms));
  b.gate->nudge();
  b.gate->wait(std::chrono::hours{1}); // returns
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(many_gates, fixture)

BOOST_AUTO_TEST_CASE(kernels_of_different_lengths_share_equally) {
  for (auto n : {4u, 8u}) {
    std::vector<session> all;
    std::vector<share_ns> kernels;
    for (auto i = 0u; i < n; ++i) {
      all.push_back(join());
      kernels.push_back((i + 1) * 400 * us);
    }
    auto began = gpu.now;
    run(all, kernels, 6 * s);
    BOOST_TEST(jain(all) >= 0.99);
    auto used = share_ns{0};
    for (auto& x : all)
      used += x.device->used;
    BOOST_TEST(static_cast<double>(used) >=
               0.95 * static_cast<double>(gpu.now - began));
    for (auto& x : all)
      board->stand(x.seat);
  }
}

BOOST_AUTO_TEST_CASE(device_time_follows_the_shares) {
  std::vector<session> all;
  for (auto share : {0.5, 0.3, 0.2})
    all.push_back(
        join({.share = share, .limit = 1, .priority = 0, .unused = 0}));
  run(all, {1 * ms, 3 * ms, 700 * us}, 2 * s); // settles
  std::vector<share_ns> before;
  for (auto& x : all)
    before.push_back(x.device->used);
  run(all, {1 * ms, 3 * ms, 700 * us}, 2 * s);
  for (auto [i, share] : {std::pair{0u, 0.5}, {1u, 0.3}, {2u, 0.2}})
    BOOST_TEST(std::abs(static_cast<double>(all[i].device->used - before[i]) /
                            (2 * s) -
                        share) < 0.02);
}

BOOST_AUTO_TEST_CASE(ends_that_are_reported_together_keep_shares) {
  for (auto kernel : {50 * us, 200 * us, 3 * ms})
    for (auto together : {12 * ms, 33 * ms, 70 * ms}) {
      BOOST_TEST_CONTEXT("kernels of " << kernel << " ns, reported every "
                                       << together) {
        std::vector<session> all;
        for (auto share : {0.8, 0.2})
          all.push_back(
              join({.share = share, .limit = 1, .priority = 0, .unused = 0}));
        auto busy = [&](share_ns span) {
          run_busy(all, {kernel, kernel}, {0, 0}, together, span);
        };
        busy(4 * s); // settles
        gpu.longest = 0;
        auto shares = shares_of(all, [&] { busy(8 * s); });
        // A device without a meter cannot measure when work was done, so
        // unreported work counts as used time.
        BOOST_TEST(std::abs(shares[0] - 0.8) < 0.1);
        BOOST_TEST(gpu.longest <= 40 * ms); // two turns
        for (auto& x : all)
          board->stand(x.seat);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_session_that_wakes_up_late_keeps_its_share) {
  std::vector<session> all;
  for (auto share : {0.8, 0.2})
    all.push_back(
        join({.share = share, .limit = 1, .priority = 0, .unused = 0}));
  auto busy = [&](share_ns span) {
    run_busy(all, {3 * ms, 3 * ms}, {30 * ms, 0}, 100 * us, span);
  };
  busy(2 * s); // settles
  auto shares = shares_of(all, [&] { busy(8 * s); });
  BOOST_TEST(std::abs(shares[0] - 0.8) < 0.03);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(boards)

BOOST_AUTO_TEST_CASE(a_board_survives_a_process_that_dies_with_its_lock) {
  auto board = *share_board::create();
  auto seat = board->sit({});
  auto child = ::fork();
  if (child == 0) {
    auto mine = share_board::open(unique_fd{::dup(board->fd())});
    if (!mine)
      ::_exit(1);
    (*mine)->locked([](auto&) { ::_exit(7); });
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(WEXITSTATUS(status) == 7);
  board->stand(seat);
  BOOST_TEST(board->sit({}) == seat);
}

BOOST_AUTO_TEST_CASE(memory_without_a_board_is_refused) {
  auto small = make_sealed_memory("small", 4096);
  BOOST_REQUIRE(small.ok());
  BOOST_TEST(!share_board::open(std::move(*small)).ok());
  auto blank = make_sealed_memory("blank", 1 << 20);
  BOOST_REQUIRE(blank.ok());
  BOOST_TEST(!share_board::open(std::move(*blank)).ok());
}

BOOST_AUTO_TEST_SUITE_END()
