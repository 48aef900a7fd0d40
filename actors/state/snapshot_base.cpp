#include "actors/state/snapshot_base.hpp"

#include "schema/base/round_up.hpp"

#include <algorithm>

#include <sys/stat.h>

namespace vgpu {

namespace {

constexpr std::uint64_t small_step = 4096;
constexpr std::uint64_t largest_file = std::uint64_t{1} << 62;

} // namespace

// -- places -------------------------------------------------------------------

std::uint64_t file_places::rounded(std::uint64_t bytes) noexcept {
  return round_up(bytes, small_step);
}

std::uint64_t file_places::take(std::uint64_t bytes) {
  auto size = rounded(bytes);
  if (auto known = free_.find(size);
      known != free_.end() && !known->second.empty()) {
    auto out = known->second.back();
    known->second.pop_back();
    return out;
  }
  if (size == state_chunk_bytes) {
    auto out = end_;
    end_ += size;
    return out;
  }
  if (size > small_end_ - small_) {
    small_ = end_;
    end_ += state_chunk_bytes;
    small_end_ = end_;
  }
  auto out = small_;
  small_ += size;
  return out;
}

void file_places::occupy(std::uint64_t offset, std::uint64_t bytes) {
  end_ = std::max(end_, round_up(offset + rounded(bytes), state_chunk_bytes));
}

void file_places::give_back(std::uint64_t offset, std::uint64_t bytes) {
  free_[rounded(bytes)].push_back(offset);
}

// -- contents -----------------------------------------------------------------

bool snapshot_base::is_of(int file) const {
  struct stat ours {};
  struct stat theirs {};
  return ::fstat(file_.get(), &ours) == 0 && ::fstat(file, &theirs) == 0 &&
         ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

bool snapshot_base::is_whole() const {
  struct stat info {};
  return ::fstat(file_.get(), &info) == 0 &&
         static_cast<std::uint64_t>(info.st_size) >= end();
}

void snapshot_base::take_over(const state_index& former,
                              const mark_of_piece& mark_of) {
  auto has_place = [](const state_chunk& x) {
    auto step = x.bytes == state_chunk_bytes ? state_chunk_bytes : small_step;
    return x.bytes != 0 && x.bytes <= state_chunk_bytes &&
           x.offset >= state_chunk_bytes && x.offset < largest_file &&
           x.offset % step == 0 &&
           (x.form == chunk_form::raw || x.form == chunk_form::zero);
  };
  for (auto& x : former.memory)
    if (auto mark = mark_of(x); mark && has_place(x)) {
      pieces_.emplace(x.address, piece{x, *mark});
      places_.occupy(x.offset, x.bytes);
    }
  for (auto& x : former.images) {
    images_.emplace(x.digest, x);
    for (auto& part : x.chunks)
      places_.occupy(part.offset, part.bytes);
  }
}

status snapshot_base::begin() const {
  auto ok = begin_state(file_.get());
  return ok ? grow_state(file_.get(), end()) : ok;
}

void snapshot_base::keep(const std::vector<range>& ranges) {
  auto old = pieces_.begin();
  auto drop = [&] {
    places_.give_back(old->second.chunk.offset, old->second.chunk.bytes);
    old = pieces_.erase(old);
  };
  for (auto [address, bytes] : ranges) {
    while (old != pieces_.end() && old->first < address)
      drop();
    if (old != pieces_.end() && old->first == address) {
      if (old->second.chunk.bytes == bytes) {
        ++old;
        continue;
      }
      drop();
    }
    piece fresh;
    fresh.chunk.address = address;
    fresh.chunk.bytes = bytes;
    fresh.chunk.offset = places_.take(bytes);
    pieces_.emplace_hint(old, address, fresh);
  }
  while (old != pieces_.end())
    drop();
  // Places behind the end of the file have no memory, and are written anyway.
  (void)grow_state(file_.get(), end());
}

void snapshot_base::note(const state_chunk& what, std::uint64_t mark) {
  auto known = pieces_.find(what.address);
  if (known != pieces_.end() && known->second.chunk.offset == what.offset &&
      known->second.chunk.bytes == what.bytes)
    known->second = {what, mark};
}

} // namespace vgpu
