#include "actors/worker/session/host_functions.hpp"

#include <utility>
#include <vector>

namespace vgpu {

void host_calls::enqueued(call_number call) {
  std::lock_guard guard{lock_};
  open_.insert(call.value);
}

void host_calls::begin(call_number call, std::function<void()> go_on) {
  {
    std::lock_guard guard{lock_};
    if (done_.erase(call.value) == 0) {
      going_.emplace(call.value, std::move(go_on));
      return;
    }
  }
  go_on();
}

void host_calls::finish(std::uint64_t call) {
  {
    std::lock_guard guard{lock_};
    ahead_.erase(call);
    if (early_.erase(call) != 0)
      return;
  }
  end(call);
}

void host_calls::finish_early(std::uint64_t call) {
  {
    std::lock_guard guard{lock_};
    if (!open_.contains(call)) {
      ahead_.insert(call);
      return;
    }
    if (!early_.insert(call).second)
      return;
  }
  end(call);
}

void host_calls::finish_ahead() {
  std::vector<std::uint64_t> due;
  {
    std::lock_guard guard{lock_};
    for (auto call : ahead_)
      if (open_.contains(call))
        due.push_back(call);
    for (auto call : due)
      ahead_.erase(call);
  }
  for (auto call : due)
    finish_early(call);
}

std::vector<std::uint64_t> host_calls::left_ahead() const {
  std::lock_guard guard{lock_};
  return {ahead_.begin(), ahead_.end()};
}

void host_calls::note_ended_ahead(std::uint64_t call) {
  std::lock_guard guard{lock_};
  if (ahead_.erase(call) != 0)
    early_.insert(call);
}

std::size_t host_calls::ended_ahead() const {
  std::lock_guard guard{lock_};
  return early_.size();
}

void host_calls::end(std::uint64_t call) {
  std::function<void()> go_on;
  {
    std::lock_guard guard{lock_};
    open_.erase(call);
    auto i = going_.find(call);
    if (i == going_.end()) {
      done_.insert(call);
      return;
    }
    go_on = std::move(i->second);
    going_.erase(i);
  }
  go_on();
}

} // namespace vgpu
