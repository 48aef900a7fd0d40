// Stands in for vgpu-worker where only its control plane matters: says hello to
// its node and sends heartbeats until it is stopped.
#include "actors/link/link.hpp"
#include "actors/link/system.hpp"

#include <CLI/CLI.hpp>

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

using namespace vgpu;

int main(int argc, char** argv) {
  std::string node;
  std::string host;
  std::uint64_t session = 0;
  std::uint64_t epoch_number = 0;
  CLI::App app;
  app.allow_extras();
  app.add_option("--node-endpoint", node)->required();
  app.add_option("--session", session)->required();
  app.add_option("--host-id", host)->required();
  CLI11_PARSE(app, argc, argv);
  std::uint64_t token = 0;
  std::cin >> epoch_number >> token;
  if (token == 0)
    return 3;
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, nullptr);

  zmq::context_t zmq;
  system_config config;
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  link_options options;
  options.endpoint = node;
  options.name = "worker/" + std::to_string(session);
  options.greeting = control::hello{1, 1, "fake", control::role::worker};
  auto link = spawn_link(system, zmq, options);
  if (!link)
    return 4;
  self->send(link->actor, consumer_of(self));
  auto say = [&](control::body what) {
    self->send(link->actor, std::make_shared<const outgoing>(
                                outgoing{{}, {options.name, 0, what}}));
  };
  auto welcomed = false;
  self->receive_while([&] { return !welcomed; })(
      [&](const incoming_ptr&) { welcomed = true; },
      [](const link_event_ptr&) {});
  say(control::worker_hello{
      {session}, {epoch_number}, {"ipc:///nowhere", "nobody", host}, {}});
  say(control::worker_beat{{{session}, {epoch_number}, 4096, 7, 99}, {}});
  auto signals = ::signalfd(-1, &term, 0);
  signalfd_siginfo info;
  [[maybe_unused]] auto n = ::read(signals, &info, sizeof(info));
  self->send_exit(link->actor, caf::exit_reason::user_shutdown);
  self->wait_for(link->actor);
  return 0;
}
