#include "actors/client/recovery_promise.hpp"

#include "actors/link/log.hpp"

#include <algorithm>
#include <utility>

namespace vgpu {

namespace {

policy::recovery_options promised(const control::specification& x) {
  return {.within = std::chrono::milliseconds{x.recover_within_ms},
          .cost = x.protect_cost / 100};
}

double seconds(policy::duration x) {
  return std::chrono::duration<double>{x}.count();
}

} // namespace

std::chrono::nanoseconds told_time(std::uint64_t ns) {
  constexpr std::uint64_t longest = std::uint64_t{1} << 60;
  return std::chrono::nanoseconds{
      static_cast<std::chrono::nanoseconds::rep>(std::min(ns, longest))};
}

recovery_promise::recovery_promise(const opened_session& opened,
                                   const session_reports& reports)
    : opened_(opened), reports_(reports),
      policy_(promised(opened.specification), clock::now()) {}

void recovery_promise::promise_anew() {
  policy_.promise(promised(opened_.specification), clock::now());
}

void recovery_promise::note(const data::progress& x) {
  policy_.note_work({.calls = x.served_calls,
                     .device = told_time(x.device_ns),
                     .served = told_time(x.served_ns)});
  // The program writes these words, and only its own snapshots depend on them.
  std::uint64_t bytes = 0;
  for (const auto& used : opened_.header().used)
    bytes += std::min(used.load(), std::uint64_t{1} << 50);
  policy_.expect_state(bytes);
}

void recovery_promise::note_replay(std::chrono::nanoseconds took) {
  auto again = policy_.uncovered();
  spdlog::info("{}: {} calls were replayed in {:.3f} s; {:.3f} s were expected",
               reports_.program(), again.calls, seconds(took),
               seconds(policy_.estimate()));
  policy_.note_replay(took);
}

void recovery_promise::note_snapshot(policy::snapshot_effort what) {
  constexpr policy::duration none{0};
  what.took = std::max(what.took, none);
  what.stood = std::clamp(what.stood, none, what.took);
  policy_.note_snapshot(what, clock::now());
}

void recovery_promise::note_failure(std::string why,
                                    std::chrono::nanoseconds stood,
                                    std::chrono::nanoseconds took) {
  policy_.note_failure(std::move(why), stood, took, clock::now());
}

void recovery_promise::tell() {
  if (!opened_.is_protected())
    return;
  auto news = policy_.news(clock::now());
  if (!news)
    return;
  auto event = reports_.make_event("recovery-time", reports_.program() + " " +
                                                        policy::to_text(*news));
  if (!news->holds)
    event.milliseconds = seconds(news->within) * 1e3;
  reports_.tell(std::move(event));
}

} // namespace vgpu
