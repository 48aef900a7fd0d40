#include "actors/worker/session/replay_checks.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

namespace vgpu {

namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20;
constexpr std::size_t most_named = 16;

/// Shows a few bytes in hexadecimal.
std::string shown(std::span<const std::byte> bytes) {
  constexpr std::size_t most = 8;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (auto x : bytes.first(std::min(bytes.size(), most))) {
    auto value = std::to_integer<unsigned>(x);
    out += out.empty() ? "" : " ";
    out += digits[value / 16];
    out += digits[value % 16];
  }
  return out;
}

/// Says from which byte on two short results differ; empty where they are not
/// both known.
std::string difference_of(std::span<const std::byte> before,
                          std::span<const std::byte> now) {
  if (before.empty() || before.size() != now.size())
    return {};
  auto [a, b] = std::ranges::mismatch(before, now);
  if (a == before.end())
    return {};
  return "from byte " + std::to_string(a - before.begin()) + " of " +
         std::to_string(before.size()) + " on, the program has read " +
         shown({a, before.end()}) + " and the replay gives " +
         shown({b, now.end()});
}

} // namespace

std::shared_ptr<std::byte[]>
replay_checks::take(std::shared_ptr<replay_checks> self, std::uint64_t bytes) {
  {
    std::unique_lock guard{self->lock_};
    auto room = [&] {
      return self->in_use_ == 0 || self->in_use_ + bytes <= most_bytes;
    };
    if (!self->given_.wait_for(guard, std::chrono::seconds{30}, room))
      return nullptr;
    self->in_use_ += bytes;
  }
  auto give = [self, bytes](std::byte* memory) {
    std::unique_ptr<std::byte[]>{memory};
    {
      std::lock_guard guard{self->lock_};
      self->in_use_ -= bytes;
      self->given_.notify_all();
      if (self->in_use_ != 0)
        return;
    }
    self->when_idle_();
  };
  // Not zeroed: the device fills it.
  return {std::make_unique_for_overwrite<std::byte[]>(bytes).release(), give};
}

void replay_checks::compare(call_number call, const earlier_result& before,
                            std::uint32_t digest,
                            std::span<const std::byte> now) {
  auto how = difference_of(before.bytes, now);
  if (before.digest != digest || !how.empty())
    note(call, std::move(how));
}

void replay_checks::note_missing(call_number call, const std::string& why) {
  note(call, why);
}

void replay_checks::note(call_number call, std::string how) {
  std::lock_guard guard{lock_};
  ++found_.total;
  if (found_.calls.size() < most_named)
    found_.calls.push_back(call.value);
  if (found_.first.empty() && !how.empty())
    found_.first = "call " + std::to_string(call.value) + ": " + how;
  news_ = true;
  differs_ = true;
}

bool replay_checks::is_idle() {
  std::lock_guard guard{lock_};
  return in_use_ == 0;
}

replay_differences replay_checks::differences() {
  std::lock_guard guard{lock_};
  return found_;
}

replay_differences replay_checks::take_differences() {
  if (!news_.load(std::memory_order_relaxed))
    return {};
  std::lock_guard guard{lock_};
  // A program that differs once differs often, so reports become ever rarer.
  news_ = false;
  if (found_.total < next_report_)
    return {};
  next_report_ = 2 * found_.total;
  return {std::exchange(found_.calls, {}), found_.total, found_.first};
}

} // namespace vgpu
