#include "actors/worker/session/late_writes.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace vgpu {

late_write_gate::late_write_gate(late_rooms::place where, std::uint64_t width,
                                 std::uint64_t height)
    : where_(std::move(where)), width_(width), height_(height) {
  auto columns = std::min<std::uint64_t>(width, where_.bytes);
  auto rows = where_.bytes / columns;
  for (std::uint64_t y = 0; y < height; y += rows)
    for (std::uint64_t x = 0; x < width; x += columns)
      pieces_.push_back({x, y, std::min(columns, width - x),
                         std::min<std::uint64_t>(rows, height - y)});
}

void late_write_gate::reached(std::function<void()> go_on) {
  {
    std::lock_guard guard{lock_};
    ++reached_;
    go_on_ = std::move(go_on);
    go_on = fill();
  }
  if (go_on)
    go_on();
}

void late_write_gate::give(std::span<const std::byte> bytes,
                           std::shared_ptr<const void> owner) {
  std::function<void()> go_on;
  {
    std::lock_guard guard{lock_};
    if (filled_ == pieces_.size())
      return;
    given_ = bytes;
    owner_ = std::move(owner);
    go_on = fill();
  }
  if (go_on)
    go_on();
}

/// Fills the room where the next piece may have it now, and returns what lets a
/// stream continue that stands before a piece that is there. Precondition: the
/// lock is held.
std::function<void()> late_write_gate::fill() {
  auto is_free = reached_ > filled_ || (filled_ == 0 && !where_.shared);
  if (!given_.empty() && is_free) {
    const auto& x = pieces_[filled_++];
    for (std::uint64_t row = 0; row < x.height; ++row)
      std::memcpy(where_.at.get() + row * x.width,
                  given_.data() + (x.y + row) * width_ + x.x, x.width);
    if (filled_ == pieces_.size()) {
      given_ = {};
      owner_.reset();
    }
  }
  return filled_ >= reached_ ? std::exchange(go_on_, nullptr) : nullptr;
}

void late_writes::add(std::uint64_t call, gate what) {
  decltype(early_)::node_type early;
  {
    std::lock_guard guard{lock_};
    open_.emplace(call, what);
    early = early_.extract(call);
    if (early.empty() || early.mapped().bytes.size() != what->bytes())
      return;
    ahead_.insert(call);
  }
  what->give(early.mapped().bytes, std::move(early.mapped().owner));
}

bool late_writes::give(std::uint64_t call, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner) {
  gate what;
  {
    std::lock_guard guard{lock_};
    early_.erase(call);
    ahead_.erase(call);
    auto i = open_.find(call);
    if (i == open_.end() || i->second->bytes() != bytes.size())
      return false;
    what = std::move(i->second);
    open_.erase(i);
  }
  what->give(bytes, std::move(owner));
  return true;
}

void late_writes::give_early(std::uint64_t call,
                             std::span<const std::byte> bytes,
                             std::shared_ptr<const void> owner) {
  gate what;
  {
    std::lock_guard guard{lock_};
    auto i = open_.find(call);
    if (i == open_.end()) {
      early_.insert_or_assign(call, early_bytes{bytes, std::move(owner)});
      return;
    }
    what = i->second;
    if (what->bytes() != bytes.size())
      return;
    ahead_.insert(call);
  }
  what->give(bytes, std::move(owner));
}

std::size_t late_writes::given_ahead() const {
  std::lock_guard guard{lock_};
  return ahead_.size();
}

} // namespace vgpu
