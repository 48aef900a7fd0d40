#include "schema/base/busy_poll.hpp"

#include "schema/base/own_environment.hpp"
#include "schema/base/processors.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <sys/resource.h>

namespace vgpu {

namespace {

using namespace std::chrono_literals;

/// Busy-polling is the default with this many processors. For one session with
/// forwarded calls five threads busy-poll at once: the program's, two of its
/// client and two of its worker. With few more processors than that, they would
/// delay the threads for which they wait.
constexpr unsigned enough_processors = 8;
/// Gives the default time. A forwarded call takes about as long where every
/// thread on its way sleeps (docs/design/forwarding.md), so a shorter busy-poll
/// would not find out that it pays.
constexpr std::chrono::nanoseconds usual = 100us;
constexpr unsigned most_microseconds = 1000;

/// Returns how often this thread was preempted.
long times_preempted() noexcept {
  rusage x{};
  ::getrusage(RUSAGE_THREAD, &x);
  return x.ru_nivcsw;
}

} // namespace

bool busy_poll::was_preempted() noexcept {
  thread_local long before = 0;
  auto now = times_preempted();
  return std::exchange(before, now) != now;
}

result<busy_poll_choice> choose_busy_poll(const char* asked,
                                          unsigned processors) {
  if (asked == nullptr)
    return busy_poll_choice{
        processors >= enough_processors ? std::optional{usual} : std::nullopt};
  unsigned microseconds = 0;
  const auto* end = asked + std::strlen(asked);
  auto [rest, error] = std::from_chars(asked, end, microseconds);
  if (error != std::errc{} || rest != end || microseconds > most_microseconds)
    return fault{fault_kind::usage,
                 "VGPU_BUSY_POLL: '" + std::string{asked} +
                     "' is no number of microseconds from 0 (never) to " +
                     std::to_string(most_microseconds)};
  return busy_poll_choice{std::chrono::microseconds{microseconds}};
}

result<busy_poll_choice> chosen_busy_poll() {
  return choose_busy_poll(setting("VGPU_BUSY_POLL"), own_processors());
}

} // namespace vgpu
