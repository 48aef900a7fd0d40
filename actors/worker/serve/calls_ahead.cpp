#include "actors/worker/serve/calls_ahead.hpp"

#include "schema/log/call_log.hpp"

#include <algorithm>

namespace vgpu {

void calls_ahead::look(const mapped_source::mapped_log& log) {
  constexpr auto most = 1 << 14; // in one look, for which the call waits
  exec_.look_again();
  log_reader ahead{*log.area, log.doorbell.get(),
                   std::max(seen_until_, log.reader.position())};
  for (auto i = 0; i < most; ++i) {
    auto got = ahead.next();
    if (!got || !*got)
      break;
    exec_.look_ahead(**got, nullptr);
  }
  seen_until_ = ahead.position();
}

void calls_ahead::look(const forwarded_source& calls, std::uint64_t position,
                       bool executes_first) {
  exec_.look_again();
  auto at = position;
  auto first = executes_first ? position + 1 : position;
  for (auto& x : calls.ranges_from(position))
    if (!look(std::move(x), at, first))
      return;
}

/// Examines a range that begins at `position`, and moves `position` to its end.
/// Skips calls before `first`. Returns false where the range is damaged; that
/// is handled when its turn comes.
bool calls_ahead::look(forwarded_source::range calls, std::uint64_t& position,
                       std::uint64_t first) {
  auto end = position + calls.rest.size();
  if (end <= seen_until_) {
    position = end;
    return true;
  }
  calls = forwarded_source::in_words(std::move(calls));
  auto bytes = calls.rest;
  while (position < end) {
    auto got = parse_record(bytes, position, scratch_);
    if (!got || !*got)
      return false;
    if (position >= std::max(first, seen_until_)) {
      exec_.look_ahead(**got, calls.owner);
      seen_until_ = (*got)->end;
    }
    bytes = bytes.subspan((*got)->end - position);
    position = (*got)->end;
  }
  return true;
}

} // namespace vgpu
