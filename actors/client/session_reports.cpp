#include "actors/client/session_reports.hpp"

#include <chrono>
#include <memory>
#include <utility>

namespace vgpu {

void session_reports::tell(control::body what) const {
  caf::anon_send(client_,
                 std::make_shared<const control::body>(std::move(what)));
}

void session_reports::tell_event(std::string kind, std::string text) const {
  tell(make_event(std::move(kind), std::move(text)));
}

control::event session_reports::make_event(std::string kind,
                                           std::string text) const {
  using namespace std::chrono;
  control::event x;
  x.time = duration<double>(system_clock::now().time_since_epoch()).count();
  x.kind = std::move(kind);
  x.text = std::move(text);
  if (lease_.granted()) {
    const auto& lease = lease_.current();
    x.node = lease.node;
    x.session = lease.session;
    x.vgpu = lease.vgpu;
    x.epoch = lease.epoch;
  }
  return x;
}

void session_reports::refuse_pause(const std::string& why) const {
  tell(control::paused{lease_.session(), lease_.epoch(), why, 0, 0});
}

void touch_report::tell() {
  // The program writes this word, and may write anything there.
  auto now = static_cast<fault_service>(opened_.header().managed_faults.load());
  auto text = to_text(now);
  if (now == told_ || text.empty())
    return;
  told_ = now;
  reports_.tell_event("managed-memory", reports_.program() +
                                            " touches of managed memory are " +
                                            std::string{text});
}

} // namespace vgpu
