// A session whose worker is put aside in place of being described: the worker
// stays the session's, and nobody calls it until it is ordered back.
#include "actors/client/session_client_forwarding.hpp"

namespace vgpu {

/// It is, and all answers are with the program.
void session_client::leave_aside() {
  auto stopped = *movement_->stopped;
  std::chrono::duration<double, std::milli> stood =
      clock::now() - movement_->stands;
  movement_.reset();
  aside_ = aside_worker{.bytes = stopped.bytes, .position = stopped.position};
  woken_ = false;
  // Whether the program calls is seen here, as the worker does not look.
  reader_->rewind(stopped.position);
  tell(control::paused{lease_->session, lease_->epoch, "", stopped.bytes,
                       stood.count(), true});
}

/// There is room for it again.
void session_client::bring_back(const control::bring_back& order) {
  if (!aside_ || !lease_ || lease_->epoch != order.epoch)
    return;
  woken_ = aside_->ordered = true; // a log has one reader
  aside_->began = clock::now();
  // The manager does not listen to what is said of a worker that is aside.
  suspected_ = false;
  if (!worker_ && !(forwarding_ && forwarding_->attached))
    return suspect("its worker was aside, and does not answer any more");
  tell_worker(data::go_on{});
}

void session_client::on(const data::back&) {
  if (!aside_)
    return;
  auto was = *std::exchange(aside_, std::nullopt);
  // What was sent before it left is with the worker.
  if (forwarding_)
    reader_->rewind(forwarding_->sent);
  std::chrono::duration<double, std::milli> took = clock::now() - was.began;
  tell(control::restored{lease_->session, lease_->epoch, was.bytes,
                         took.count()});
}

} // namespace vgpu
