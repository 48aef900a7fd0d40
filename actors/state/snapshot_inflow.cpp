#include "actors/state/snapshot_inflow.hpp"

#include "actors/state/state_transfer.hpp"

#include <xxhash.h>

#include <algorithm>

#include <fcntl.h>

namespace vgpu {

namespace {

/// Gives the number of bytes that one call of work() copies, so that the
/// session can continue in between.
constexpr std::uint64_t copied_at_once = std::uint64_t{8} << 20;
/// Gives the largest gap between two pieces that travel in one part.
constexpr std::uint64_t smallest_gap = 4096;

bool same_bytes(const state_chunk& a, const state_chunk& b) {
  return a.form == b.form && a.stored == b.stored && a.bytes == b.bytes &&
         a.hash == b.hash;
}

/// Returns whether these stored bytes may be the piece. Compressed bytes can be
/// checked only when they are read.
bool may_be(const state_chunk& what, std::span<const std::byte> stored) {
  return what.form != chunk_form::raw ||
         XXH3_64bits(stored.data(), stored.size()) == what.hash;
}

} // namespace

result<snapshot_inflow>
snapshot_inflow::begin(std::uint64_t bytes, unique_fd file, unique_fd newest) {
  if (bytes < state_head_bytes || bytes > largest_state)
    return fault{fault_kind::corrupt,
                 "a snapshot of " + std::to_string(bytes) + " bytes"};
  snapshot_inflow out;
  if (auto before = state_reader::open(file.get()))
    each_chunk(before->index(), [&](auto& x) {
      if (x.stored != 0)
        out.former_.emplace(x.offset, x);
    });
  if (auto ok = begin_state(file.get(), bytes); !ok)
    return ok.why();
  out.file_ = std::move(file);
  out.newest_ = std::move(newest);
  out.bytes_ = bytes;
  out.ask(0, state_head_bytes);
  return out;
}

// -- what travels -------------------------------------------------------------

void snapshot_inflow::ask(std::uint64_t from, std::uint64_t to) {
  for (; from != to; from = parts_.back().to)
    parts_.push_back({from, std::min(to, from + state_part_bytes)});
}

void snapshot_inflow::ask(const state_chunk& x) {
  auto end = x.offset + x.stored;
  auto* last = asked_ == parts_.size() ? nullptr : &parts_.back();
  auto joins = last != nullptr && last->to <= x.offset &&
               x.offset - last->to < smallest_gap &&
               end - last->from <= state_part_bytes;
  if (joins)
    last->to = end;
  else
    ask(x.offset, end);
  // A piece larger than a part comes in several parts. Its hash is not checked
  // here.
  if (parts_.back().from <= x.offset)
    parts_.back().pieces.push_back(x);
}

std::optional<data::state_wanted> snapshot_inflow::want() {
  if (asked_ == parts_.size() || under_way_ >= state_bytes_under_way)
    return std::nullopt;
  auto& next = parts_[asked_++];
  under_way_ += next.to - next.from;
  return data::state_wanted{next.from, next.to};
}

void snapshot_inflow::ask_again() noexcept {
  asked_ = 0;
  under_way_ = 0;
}

status snapshot_inflow::take(std::uint64_t from,
                             std::span<const std::byte> bytes) {
  if (asked_ == 0 || parts_.front().from != from ||
      parts_.front().to - from != bytes.size())
    return {};
  auto what = std::move(parts_.front());
  parts_.pop_front();
  --asked_;
  under_way_ -= bytes.size();
  account_.travelled += bytes.size();
  if (stage_ == stage::head) {
    auto head = read_head(bytes, bytes_);
    if (!head)
      return head.why();
    head_ = *head;
    stage_ = stage::index;
    ask(head_.index_offset, bytes_);
  } else if (auto ok = store(what, bytes); !ok) {
    return ok;
  }
  return stage_ == stage::index && parts_.empty() ? plan() : status{};
}

status snapshot_inflow::store(const part& what,
                              std::span<const std::byte> bytes) {
  for (auto& x : what.pieces)
    if (!may_be(x, bytes.subspan(x.offset - what.from, x.stored)))
      return fault{fault_kind::corrupt,
                   "contents at address " + std::to_string(x.address) +
                       " do not match the hash in the snapshot's index"};
  return write_state_bytes(file_.get(), what.from, bytes);
}

// -- local contents -----------------------------------------------------------

/// Decides, from the index, how each piece gets here.
status snapshot_inflow::plan() {
  auto fresh = state_reader::open(file_.get(), head_);
  if (!fresh)
    return fresh.why();
  stage_ = stage::contents;
  std::vector<state_chunk> pieces;
  each_chunk(fresh->index(), [&](auto& x) {
    if (x.stored != 0)
      pieces.push_back(x);
  });
  std::sort(pieces.begin(), pieces.end(),
            [](auto& a, auto& b) { return a.offset < b.offset; });
  std::map<std::uint64_t, state_chunk> newest;
  if (auto state = state_reader::open(newest_.get()))
    each_chunk(state->index(), [&](auto& x) {
      if (x.stored != 0)
        newest.emplace(x.hash, x);
    });
  for (auto& x : pieces) {
    auto old = former_.find(x.offset);
    auto other = newest.find(x.hash);
    if (old != former_.end() && same_bytes(old->second, x))
      account_.stayed += x.stored;
    else if (other != newest.end() && same_bytes(other->second, x))
      copies_.push_back({other->second.offset, x});
    else
      ask(x);
  }
  former_.clear();
  give_back(pieces);
  return {};
}

/// Punches holes where no piece lies, so that the file needs no memory there. A
/// file system without holes keeps the bytes.
void snapshot_inflow::give_back(const std::vector<state_chunk>& used) {
  std::uint64_t at = state_head_bytes;
  auto punch = [&](std::uint64_t to) {
    if (to > at && to - at >= smallest_gap)
      (void)::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(at), static_cast<off_t>(to - at));
  };
  for (auto& x : used) {
    punch(x.offset);
    at = std::max(at, x.offset + x.stored);
  }
  punch(head_.index_offset);
}

/// Copies a piece from the newest snapshot. Returns false where that does not
/// have it any more, because its program can write there too.
result<bool> snapshot_inflow::copy(const local_copy& x) {
  room_.resize(x.piece.stored);
  if (!read_state_bytes(newest_.get(), x.from, room_) ||
      !may_be(x.piece, room_))
    return false;
  if (auto ok = write_state_bytes(file_.get(), x.piece.offset, room_); !ok)
    return ok.why();
  return true;
}

status snapshot_inflow::work() {
  for (std::uint64_t done = 0; !copies_.empty() && done < copied_at_once;
       copies_.pop_front()) {
    auto& next = copies_.front();
    auto had = copy(next);
    if (!had)
      return had.why();
    done += next.piece.stored;
    if (*had)
      account_.copied += next.piece.stored;
    else
      ask(next.piece);
  }
  if (!is_whole())
    return {};
  stage_ = stage::complete;
  return complete_state(file_.get(), head_);
}

} // namespace vgpu
