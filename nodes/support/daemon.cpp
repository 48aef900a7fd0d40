#include "nodes/support/daemon.hpp"

#include <unistd.h>

namespace vgpu {

void describe(CLI::App& app, daemon_ties& ties) {
  app.add_option("--ready-fd", ties.ready_fd)->group("");
  app.add_option("--owner-fd", ties.owner_fd)->group("");
  app.add_flag("--remove-run-dir", ties.remove_run_dir)->group("");
}

void say_ready(daemon_ties& ties, const std::string& line) {
  if (ties.ready_fd < 0)
    return;
  auto text = line + "\n";
  [[maybe_unused]] auto n = ::write(ties.ready_fd, text.data(), text.size());
  ::close(ties.ready_fd);
  ties.ready_fd = -1;
}

caf::behavior end_watch(caf::event_based_actor* self,
                        caf::strong_actor_ptr watched, main_loop* loop,
                        std::function<void()> then) {
  self->monitor(watched);
  self->set_down_handler([self, loop, then](caf::down_msg&) {
    loop->post(then);
    self->quit();
  });
  return {[](caf::unit_t) {}};
}

void end_actor(caf::actor_system& system, const caf::strong_actor_ptr& what) {
  caf::scoped_actor self{system};
  self->send_exit(what, caf::exit_reason::user_shutdown);
  self->wait_for(what);
}

} // namespace vgpu
