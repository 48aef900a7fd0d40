// Shares a device by a table that a hostile worker has written.
#include "fuzz_target.hpp"
#include "made_choices.hpp"
#include "policies/compute/share.hpp"
#include "policies/compute/share_copy.hpp"

#include <cstdlib>
#include <memory>

using namespace vgpu;
namespace share = vgpu::policy;

namespace {

/// Writes the input's bytes anywhere into the shared table.
void scribble(test::choices& in, share::share_table& shared) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(&shared);
  // Most of the table are seats, of which the first matter most.
  auto reach = in.below(2) == 0 ? sizeof(shared)
                                : sizeof(shared) / share::most_seats * 3;
  auto at = (in.byte() * 65'536u + in.byte() * 256u + in.byte()) % reach;
  for (auto left = 1 + in.below(16); left > 0; --left)
    bytes[(at + left) % sizeof(shared)] = in.byte();
}

/// Does what an honest worker with this seat, or the node, does.
void act(test::choices& in, share::share_table& table, std::int32_t seat,
         share::share_ns now) {
  share::thread_outcome threads;
  constexpr share::share_ns spans[] = {0, 1'000, 1'000'000, 1'000'000'000};
  auto span = in.one_of(spans);
  switch (in.below(16)) {
  case 0:
    return share::want(table, seat, now);
  case 1:
    return share::want_nothing(table, seat);
  case 2:
    return share::begin_work(table, seat, now);
  case 3:
    return share::end_work(table, seat, now, in.below(2) != 0);
  case 4:
    (void)share::charge(table, seat, {}, {}, now);
    return;
  case 5:
    (void)share::renew(table, seat, now);
    return;
  case 6:
    (void)share::keep(table, seat, now);
    return;
  case 7:
    return share::end_turn(table, seat);
  case 8:
    (void)share::may_join(table, seat, now);
    return;
  case 9:
    (void)share::begin_thread(table, seat, now, threads);
    return;
  case 10:
    (void)share::go_on(table, seat, span, now, threads);
    return;
  case 11:
    (void)share::is_let_in(table, seat, now, threads);
    return;
  case 12:
    return share::end_thread(table, seat, span, now, threads);
  case 13:
    return share::set_brought(table, seat, span);
  case 14:
    (void)share::look_again(table, seat, now);
    return;
  default: {
    share::share_rules rules;
    rules.policy = static_cast<share::share_policy>(
        in.below(static_cast<std::size_t>(share::share_policy::priority) + 1));
    return share::set_rules(table, rules, now);
  }
  }
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  test::choices in{{data, size}};
  auto shared = std::make_unique<share::share_table>();
  auto own = std::make_unique<share::share_copy>();
  share::share_ns now = 1'000'000'000;
  for (std::size_t step = 0; step < 64 && !in.over(); ++step) {
    if (in.below(3) == 0)
      scribble(in, *shared);
    now += in.byte() * 100'000;
    auto& table = own->take(*shared);
    if (in.below(4) == 0)
      (void)share::sit(table, {}, now);
    act(in, table, static_cast<std::int32_t>(in.below(share::most_seats)), now);
    auto turns = share::arbitrate(table, now);
    if (turns.granted < share::no_seat ||
        turns.granted >= static_cast<std::int32_t>(share::most_seats))
      std::abort();
    share::thread_outcome threads;
    share::let_in(table, now, threads);
    own->give(*shared);
  }
  return 0;
}
