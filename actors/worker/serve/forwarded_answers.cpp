#include "actors/worker/serve/forwarded_answers.hpp"

#include "schema/base/round_up.hpp"

#include <algorithm>
#include <vector>

namespace vgpu {

namespace {

/// Limits the bytes under way: what several links carry during a round trip,
/// plus the longest single answer.
constexpr std::uint64_t congested_bytes = std::uint64_t{48} << 20;
/// Limits them within a host, where memory that is reused soon is still in the
/// processor's caches.
constexpr std::uint64_t congested_within_host = std::uint64_t{8} << 20;
/// Limits them where streams wait for the program, because the program may read
/// behind that in many copies, and a later call lets the streams continue.
constexpr std::uint64_t congested_behind_program = std::uint64_t{256} << 20;
constexpr std::size_t congested_count = 8192;

data::answer::place place_of(console where) {
  switch (where) {
  case console::output:
    return data::answer::place::output;
  case console::error:
    return data::answer::place::error;
  case console::times:
    break;
  }
  return data::answer::place::times;
}

} // namespace

void forwarded_answers::attached(const data::attach& by) {
  std::lock_guard guard{lock_};
  replay_until_ = std::max(replay_until_, by.replay_until);
  waiting_.clear();
  for (auto& x : by.waiting)
    waiting_.emplace(x.call.value, x.slot);
}

void forwarded_answers::acknowledge(std::uint64_t number) {
  std::lock_guard guard{lock_};
  acknowledged_ = std::max(acknowledged_, std::min(number, last_number_));
  while (!kept_.empty() && kept_.front().head.number <= number) {
    kept_.pop_front();
    if (sent_ > 0)
      --sent_;
  }
}

void forwarded_answers::rewind() {
  std::lock_guard guard{lock_};
  sent_ = 0;
}

std::optional<outbound_answer> forwarded_answers::next() {
  std::lock_guard guard{lock_};
  if (sent_ == kept_.size())
    return std::nullopt;
  return kept_[sent_++];
}

void forwarded_answers::take_back() {
  std::lock_guard guard{lock_};
  if (sent_ > 0)
    --sent_;
}

bool forwarded_answers::congested(bool behind_program) const {
  std::lock_guard guard{lock_};
  auto most = behind_program ? congested_behind_program
              : within_host_ ? congested_within_host
                             : congested_bytes;
  return landed_bytes_->load() > most || kept_.size() > congested_count;
}

std::uint64_t forwarded_answers::count() const {
  std::lock_guard guard{lock_};
  return last_number_;
}

std::uint64_t forwarded_answers::acknowledged() const {
  std::lock_guard guard{lock_};
  return acknowledged_;
}

landing forwarded_answers::make_landing(std::uint64_t bytes) {
  landed_bytes_->fetch_add(bytes);
  auto release = [total = landed_bytes_, bytes](const std::byte* memory) {
    std::unique_ptr<const std::byte[]>{memory};
    total->fetch_sub(bytes);
  };
  // Not zeroed: the device fills it.
  auto* memory = std::make_unique_for_overwrite<std::byte[]>(bytes).release();
  return {{memory, bytes}, std::shared_ptr<std::byte>{memory, release}};
}

void forwarded_answers::add(data::answer head, const landing& what) {
  if (head.slot != 0 && zero_copy_ && zero_copy_->any()) [[unlikely]]
    add_behind_kernels(head, what);
  else
    keep(head, what);
  ring_();
}

void forwarded_answers::add_behind_kernels(const data::answer& head,
                                           const landing& what) {
  std::lock_guard guard{telling_};
  if (holds_) {
    held_.emplace_back(head, what);
    return;
  }
  tell_zero_copy();
  keep(head, what);
}

void forwarded_answers::keep(data::answer head, const landing& what) {
  std::lock_guard guard{lock_};
  head.number = ++last_number_;
  kept_.push_back({head, what.bytes, what.owner});
}

void forwarded_answers::tell_now() {
  if (!zero_copy_ || !zero_copy_->any())
    return;
  std::lock_guard guard{telling_};
  if (!holds_)
    tell_zero_copy();
}

void forwarded_answers::hold() {
  std::lock_guard guard{telling_};
  holds_ = true;
}

void forwarded_answers::release() {
  std::lock_guard guard{telling_};
  holds_ = false;
  if (zero_copy_ && zero_copy_->any())
    tell_zero_copy();
  for (auto& [head, what] : std::exchange(held_, {}))
    keep(head, what);
  ring_();
}

/// Requires telling_.
void forwarded_answers::tell_zero_copy() {
  constexpr auto at_once = max_payload / sizeof(changed_line);
  auto lines = zero_copy_->changes();
  for (std::span rest{lines}; !rest.empty();) {
    auto part = std::as_bytes(rest.first(std::min(rest.size(), at_once)));
    auto room = make_landing(part.size());
    std::ranges::copy(part, room.bytes.begin());
    keep({.where = data::answer::place::zero_copy}, room);
    rest = rest.subspan(part.size() / sizeof(changed_line));
  }
}

// -- answer_sink --------------------------------------------------------------

bool forwarded_answers::wanted(const waiter& who) const {
  if (who.slot == 0)
    return false;
  std::lock_guard guard{lock_};
  if (who.call.value >= replay_until_)
    return true;
  auto i = waiting_.find(who.call.value);
  return i != waiting_.end() && i->second == who.slot;
}

void forwarded_answers::answer(const waiter& who, CUresult result,
                               std::uint64_t value) {
  if (!wanted(who))
    return;
  add({.call = who.call, .slot = who.slot, .result = result, .value = value},
      {});
}

result<landing> forwarded_answers::land(call::arena_range range,
                                        std::uint64_t bytes) {
  if (bytes > range.bytes || range.offset > arena_bytes ||
      range.bytes > arena_bytes - range.offset)
    return fault{fault_kind::usage,
                 "an answer does not fit the place that the program named"};
  return make_landing(bytes);
}

/// Returns the size of a part. A byte is copied five times on its way, each
/// time by another thread. Parts let these threads work at the same time.
/// Larger parts cost each thread less.
std::uint64_t forwarded_answers::part_of(std::uint64_t bytes) const {
  constexpr std::uint64_t parts = 8;
  constexpr std::uint64_t least = std::uint64_t{128} << 10;
  constexpr std::uint64_t most = std::uint64_t{1} << 20;
  return std::clamp(round_up(bytes / parts, least), least, most);
}

void forwarded_answers::deliver_part(const waiter& who, const landing& what,
                                     std::uint64_t arena_offset) {
  if (!wanted(who))
    return;
  add({.call = who.call,
       .where = data::answer::place::arena,
       .at = arena_offset},
      what);
}

void forwarded_answers::deliver(const waiter& who, CUresult result,
                                std::uint64_t value, const landing& what,
                                std::uint64_t arena_offset,
                                std::uint32_t digest) {
  if (!wanted(who))
    return;
  add({.call = who.call,
       .slot = who.slot,
       .result = result,
       .value = value,
       .where = data::answer::place::arena,
       .at = arena_offset,
       .digest = digest},
      what);
}

landing forwarded_answers::land_host(device_address, std::uint64_t bytes) {
  return make_landing(bytes);
}

void forwarded_answers::deliver_host(const waiter& who, CUresult result,
                                     device_address address,
                                     const landing& what,
                                     std::uint32_t digest) {
  // Large blocks travel in frames of a size that ZeroMQ moves well.
  auto rest = result == CUDA_SUCCESS ? what.bytes : std::span<std::byte>{};
  while (rest.size() > max_payload) {
    add({.call = who.call, .where = data::answer::place::host, .at = address},
        {rest.first(max_payload), what.owner});
    rest = rest.subspan(max_payload);
    address += max_payload;
  }
  add({.call = who.call,
       .slot = who.slot,
       .result = result,
       .where = data::answer::place::host,
       .at = address,
       .digest = digest},
      {rest, what.owner});
}

void forwarded_answers::call_host(const waiter& who) {
  if (!wanted(who))
    return;
  add({.call = who.call,
       .slot = who.slot,
       .where = data::answer::place::host_call},
      {});
}

void forwarded_answers::print(console where, std::uint64_t position,
                              std::string_view text) {
  auto place = make_landing(text.size());
  std::copy(text.begin(), text.end(),
            reinterpret_cast<char*>(place.bytes.data()));
  add({.where = place_of(where), .at = position}, place);
}

void forwarded_answers::sticky(CUresult error) {
  // Slot 0 answers no call; its result is the session's error.
  add({.result = error}, {});
}

} // namespace vgpu
