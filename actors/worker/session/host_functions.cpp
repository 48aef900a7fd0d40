#include "actors/worker/session/host_functions.hpp"

#include <utility>

namespace vgpu {

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
  if (std::lock_guard guard{lock_}; early_.erase(call) != 0)
    return;
  end(call);
}

void host_calls::finish_early(std::uint64_t call) {
  if (std::lock_guard guard{lock_}; !early_.insert(call).second)
    return;
  end(call);
}

void host_calls::end(std::uint64_t call) {
  std::function<void()> go_on;
  {
    std::lock_guard guard{lock_};
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
