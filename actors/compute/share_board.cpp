#include "actors/compute/share_board.hpp"

#include <algorithm>

#include "schema/base/own_addresses.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace vgpu {

namespace {

result<mapping> map_all(int fd, std::uint64_t bytes) {
  auto* at = ::mmap(own_address(bytes), bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED, fd, 0);
  if (at == MAP_FAILED)
    return fault{fault_kind::system,
                 std::string{"a pGPU's board cannot be mapped: "} +
                     std::strerror(errno)};
  return mapping{at, bytes};
}

} // namespace

// A step-by-step change of the table only updates accounts. A process that dies
// within one leaves a number that is at most one turn old, and its seat is
// freed next.
policy::share_table& share_board::take() const {
  map()->lock.lock();
  return copy_.take(map()->table);
}

share_board::guard::guard(const share_board& board)
    : board_(board), here_(board.here_), table_(board.take()) {}

share_board::guard::~guard() {
  board_.copy_.give(board_.map()->table);
  board_.map()->lock.unlock();
}

result<std::shared_ptr<share_board>> share_board::create() {
  auto memory = make_sealed_memory("vgpu-shares", sizeof(layout));
  if (!memory)
    return memory.why();
  auto map = map_all(memory->get(), sizeof(layout));
  if (!map)
    return map.why();
  auto* made = new (map->data()) layout{};
  made->magic = layout::the_magic;
  return std::shared_ptr<share_board>{
      new share_board{std::move(*memory), std::move(*map)}};
}

result<std::shared_ptr<share_board>> share_board::open(unique_fd memory) {
  auto size = sealed_size(memory.get());
  if (!size)
    return size.why();
  if (*size < sizeof(layout))
    return fault{fault_kind::corrupt,
                 "a pGPU's board is too small: worker and node are of "
                 "different releases"};
  auto map = map_all(memory.get(), sizeof(layout));
  if (!map)
    return map.why();
  if (reinterpret_cast<layout*>(map->data())->magic != layout::the_magic)
    return fault{fault_kind::corrupt,
                 "a pGPU's board is of another release than this worker"};
  return std::shared_ptr<share_board>{
      new share_board{std::move(memory), std::move(*map)}};
}

share_board::~share_board() = default;

// -- the pGPU's side ----------------------------------------------------------

/// Changes the seats or the rules, and wakes the sessions whose turn it is now.
template <class F>
auto share_board::change(F f) {
  policy::share_outcome turns;
  policy::thread_outcome threads;
  auto out = locked([&](policy::share_table& table) {
    auto at = now();
    auto value = f(table, at);
    map()->contested = policy::contested(table) ? 1 : 0;
    turns = policy::arbitrate(table, at);
    policy::let_in(table, at, threads);
    return value;
  });
  tell(turns);
  tell(threads);
  return out;
}

std::int32_t share_board::sit(const policy::share_claim& claim) {
  return change(
      [&](auto& table, auto at) { return policy::sit(table, claim, at); });
}

void share_board::stand(std::int32_t seat) {
  change([&](auto& table, auto) {
    policy::stand(table, seat);
    return 0;
  });
}

void share_board::set_claim(std::int32_t seat,
                            const policy::share_claim& claim) {
  change([&](auto& table, auto at) {
    policy::set_claim(table, seat, claim, at);
    return 0;
  });
  // The condition for which the seat's threads wait may have changed.
  ring(seat);
}

void share_board::set_rules(const policy::share_rules& rules) {
  change([&](auto& table, auto at) {
    policy::set_rules(table, rules, at);
    return 0;
  });
  for (auto i = std::int32_t{0}; i < std::int32_t{policy::most_seats}; ++i)
    ring(i);
}

policy::share_rules share_board::rules() {
  return locked([](auto& table) { return table.rules; });
}

policy::share_seat share_board::look(std::int32_t seat) {
  return locked(
      [=](auto& table) { return table.seats[static_cast<std::size_t>(seat)]; });
}

// -- bells --------------------------------------------------------------------

void share_board::ring(std::int32_t seat) noexcept {
  auto& bell = bell_of(seat).rings;
  bell.fetch_add(1);
  wake_all(bell);
}

void share_board::ring(std::int32_t seat, unsigned threads) noexcept {
  auto& bell = bell_of(seat).rings;
  bell.fetch_add(1);
  wake_some(bell, threads);
}

void share_board::tell(const policy::share_outcome& what) noexcept {
  if (what.granted != policy::share_table::nobody)
    ring(what.granted);
  for (auto i = std::size_t{0}; what.let_in.any() && i < policy::most_seats;
       ++i)
    if (what.let_in.test(i))
      ring(static_cast<std::int32_t>(i));
}

void share_board::tell(const policy::thread_outcome& what) noexcept {
  for (auto i = std::size_t{0}; what.hurried.any() && i < policy::most_seats;
       ++i)
    if (what.hurried.test(i))
      map()->bells[i].hurries.store(1, std::memory_order_relaxed);
  for (auto i = std::size_t{0}; what.let_in.any() && i < policy::most_seats;
       ++i)
    if (what.let_in.test(i))
      ring(static_cast<std::int32_t>(i), what.woken[i]);
}

std::uint32_t share_board::rings(std::int32_t seat) const noexcept {
  return bell_of(seat).rings.load();
}

void share_board::await(std::int32_t seat, std::uint32_t seen,
                        std::chrono::nanoseconds patience) const noexcept {
  sleep_while(bell_of(seat).rings, seen, patience);
}

/// Returns the place of this kind, or a free one for it, or null where all its
/// places are taken.
share_board::layout::copy_kind*
share_board::place_of(std::uint64_t kind) const noexcept {
  constexpr auto nearby = 8;
  auto& all = map()->copies;
  for (auto i = 0; i < nearby; ++i) {
    auto& x = all[(kind + static_cast<unsigned>(i)) % all.size()];
    if (auto what = x.what.load(); what == kind || what == 0)
      return &x;
  }
  return nullptr;
}

std::uint32_t share_board::copy_takes(std::uint64_t kind) const noexcept {
  auto* x = place_of(kind);
  return x != nullptr && x->what.load() == kind ? x->takes.load() : 0;
}

void share_board::note_copy(std::uint64_t kind, std::uint32_t took) noexcept {
  std::lock_guard hold{map()->lock};
  auto* x = place_of(kind);
  if (x == nullptr)
    return;
  auto before = x->takes.load();
  x->takes.store(before == 0 ? took : std::min(before, took));
  x->what.store(kind);
}

} // namespace vgpu
