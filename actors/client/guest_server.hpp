// The client's Unix sockets, to which a host's programs connect.
#pragma once

#include "actors/client/session_client.hpp"
#include "actors/link/polling_actor.hpp"

namespace vgpu {

/// Owns the listening sockets, and spawns a session_client with this `owner`
/// for each program that connects. spawn_guest_server() spawns it.
class guest_server final : public polling_actor {
public:
  guest_server(caf::actor_config& cfg, zmq::context_t& zmq,
               session_client_options options, std::vector<unique_fd> listeners,
               session_owner owner)
      : polling_actor(cfg), zmq_(zmq), options_(options),
        listeners_(std::move(listeners)), owner_(std::move(owner)) {}

  const char* name() const override { return "vgpu.guest-server"; }

  void act() override {
    while (running_) {
      std::vector<pollfd> items;
      for (auto& x : listeners_)
        items.push_back({x.get(), POLLIN, 0});
      sleep_on(items, std::chrono::milliseconds{-1});
      read_mailbox();
      for (auto& x : listeners_)
        while (auto guest = accept_own(x.get()))
          spawn_session_client(system(), zmq_, options_, std::move(guest),
                               owner_);
    }
    owner_ = nullptr;
  }

private:
  void read_mailbox() {
    receive_while([this] { return !mailbox().empty(); })(
        [this](caf::exit_msg& msg) {
          running_ = false;
          fail_state(std::move(msg.reason));
        },
        caf::others >> [](caf::message_view&) -> caf::result<caf::message> {
          return caf::sec::unexpected_message;
        });
  }

  zmq::context_t& zmq_;
  session_client_options options_;
  std::vector<unique_fd> listeners_;
  session_owner owner_;
  bool running_ = true;
};

/// Spawns a guest_server with a thread of its own. It takes only exit messages,
/// so its handle has no message types.
inline caf::strong_actor_ptr
spawn_guest_server(caf::actor_system& system, zmq::context_t& zmq,
                   const session_client_options& options,
                   std::vector<unique_fd> listeners, session_owner owner) {
  return caf::actor_cast<caf::strong_actor_ptr>(
      system.spawn<guest_server, caf::detached>(
          std::ref(zmq), options, std::move(listeners), std::move(owner)));
}

} // namespace vgpu
