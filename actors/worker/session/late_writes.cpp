#include "actors/worker/session/late_writes.hpp"

#include <cstring>
#include <utility>

namespace vgpu {

void late_write_gate::reached(std::function<void()> go_on) {
  {
    std::lock_guard guard{lock_};
    reached_ = true;
    if (!filled_ && !given_.empty())
      fill();
    if (!filled_) {
      go_on_ = std::move(go_on);
      return;
    }
  }
  go_on();
}

void late_write_gate::give(std::span<const std::byte> bytes,
                           std::shared_ptr<const void> owner) {
  std::function<void()> go_on;
  {
    std::lock_guard guard{lock_};
    if (filled_)
      return;
    given_ = bytes;
    owner_ = std::move(owner);
    if (where_.shared && !reached_)
      return;
    fill();
    go_on = std::exchange(go_on_, nullptr);
  }
  if (go_on)
    go_on();
}

/// Precondition: the lock is held.
void late_write_gate::fill() {
  std::memcpy(where_.at.get(), given_.data(), bytes_);
  filled_ = true;
  given_ = {};
  owner_.reset();
}

void late_writes::add(std::uint64_t call, gate what) {
  decltype(early_)::node_type early;
  {
    std::lock_guard guard{lock_};
    open_.emplace(call, what);
    early = early_.extract(call);
  }
  if (!early.empty() && early.mapped().bytes.size() == what->bytes())
    what->give(early.mapped().bytes, std::move(early.mapped().owner));
}

bool late_writes::give(std::uint64_t call, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner) {
  gate what;
  {
    std::lock_guard guard{lock_};
    early_.erase(call);
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
  }
  if (what->bytes() == bytes.size())
    what->give(bytes, std::move(owner));
}

} // namespace vgpu
