#include "actors/link/link.hpp"

#include "actors/link/doorbell.hpp"
#include "actors/link/link_socket.hpp"
#include "actors/link/log.hpp"
#include "actors/link/log_limit.hpp"
#include "actors/link/printable.hpp"
#include "actors/link/unhandled.hpp"

#include <atomic>
#include <type_traits>
#include <utility>
#include <vector>

namespace vgpu {

namespace {

using std::chrono::milliseconds;

/// Gives the number of messages to take from the socket before the mailbox's
/// turn.
constexpr int socket_quantum = 64;
/// Says how often a link looks whether its consumer has handled messages.
constexpr milliseconds while_full{5};
/// Gives the longest path of a sockaddr_un, without the terminating NUL.
constexpr std::size_t longest_ipc_path = 107;

/// Returns a mark that the sockets of a link have in turn. It has three values,
/// so that no peer of a socket that is gone has a name of another's.
std::string next_mark(const std::string& present) {
  return present == "a" ? "b" : present == "b" ? "c" : "a";
}

/// Owns one socket and its thread. It is a blocking actor whose enqueue(),
/// which runs on the sender's thread, rings a bell. The thread sleeps on that
/// bell and on the socket. `Consumer` is control_consumer or raw_consumer.
///
/// While its keys are replaced, it has another socket: one that binds also
/// serves the former keys, and one that connects tries the next ones.
template <class Consumer>
class socket_actor final : public caf::blocking_actor {
public:
  socket_actor(caf::actor_config& cfg, zmq::context_t* zmq,
               std::unique_ptr<link_socket> socket, link_options options)
      : caf::blocking_actor(cfg), zmq_(*zmq), options_(std::move(options)),
        socket_(std::move(socket)) {
    if (options_.next_keys)
      rekey(options_.next_keys);
  }

  const char* name() const override { return "vgpu.link"; }

  /// Runs on the sender's thread.
  void enqueue(caf::mailbox_element_ptr what,
               caf::execution_unit* eu) override {
    caf::blocking_actor::enqueue(std::move(what), eu);
    if (asleep_.exchange(false))
      bell_.ring();
  }

  void act() override {
    while (running_) {
      sleep();
      read_mailbox();
      if (consumer_ && running_)
        read_all();
    }
    consumer_ = nullptr;
    other_.reset();
    socket_.reset();
  }

private:
  static constexpr bool reads_envelopes =
      std::is_same_v<Consumer, control_consumer>;
  /// Is what the consumer sends.
  using sent_ptr =
      std::conditional_t<reads_envelopes, outgoing_ptr, dispatch_ptr>;

  void sleep() {
    // A sender that enqueues after this line rings the bell. The check of the
    // mailbox sees everything that was enqueued before.
    asleep_.store(true);
    auto idle = mailbox().empty() && !more_to_read_;
    // Without a consumer the link serves its mailbox alone.
    auto rang = !consumer_ ? wait_for_bell(milliseconds{-1})
                : passed_.is_full()
                    ? wait_for_bell(while_full)
                    : socket_->sleep(bell_.fd(), idle, other_.get());
    asleep_.store(false);
    if (rang)
      bell_.silence();
  }

  bool wait_for_bell(milliseconds longest) {
    zmq::pollitem_t items[] = {{nullptr, bell_.fd(), ZMQ_POLLIN, 0}};
    zmq::poll(items, 1, mailbox().empty() ? longest : milliseconds{0});
    return items[0].revents != 0;
  }

  void read_mailbox() {
    receive_while([this] { return !mailbox().empty(); })(
        [this](Consumer& consumer) { consumer_ = std::move(consumer); },
        [this](sent_ptr& out) { send(*out); },
        [this](link_look& x) {
          looked_for_.push_back(std::move(x.asks));
          passed_on_ = 0;
        },
        [this](link_rekey& x) { rekey(std::move(x.keys)); },
        [this](caf::exit_msg& msg) {
          running_ = false;
          fail_state(std::move(msg.reason));
        },
        // Without this handler an unknown message would stay in the mailbox and
        // the loop would spin.
        caf::others >> [](caf::message_view&) -> caf::result<caf::message> {
          return caf::sec::unexpected_message;
        });
  }

  /// Catches everything, because one peer's message must not end the link for
  /// all peers.
  void read_all() {
    try {
      report_connections();
      read_socket();
    } catch (const std::exception& e) {
      if (auto before = unreadable_.admits({}, log_limit::clock::now()))
        spdlog::error("{}: could not take a message: {}{}", options_.name,
                      e.what(), note_suppressed(*before));
    }
  }

  void report_connections() {
    report_connections(*socket_);
    if (!other_)
      return;
    if (binds())
      return report_connections(*other_);
    if (up_ && options_.settles)
      return other_.reset();
    for (const auto& change : other_->connection_changes())
      if (change.what == link_event::kind::up)
        return change_over();
  }

  void report_connections(link_socket& of) {
    for (auto& change : of.connection_changes()) {
      if (!binds()) {
        up_ = change.what == link_event::kind::up;
        if (up_)
          begin_connection();
      }
      spdlog::debug("{}: connection {} {}", options_.name,
                    printable(change.peer),
                    up_ ? "stands" : "is gone or refused");
      tell(std::make_shared<const link_event>(std::move(change)));
    }
  }

  bool binds() const noexcept {
    return options_.as == link_options::form::bind;
  }

  // -- other keys -------------------------------------------------------------

  /// Takes link_rekey.
  void rekey(std::shared_ptr<const link_keys> keys) {
    if (!keys)
      return binds() ? end_former() : void();
    if (keys->own.open == (options_.keys ? options_.keys->own.open : ""))
      return;
    try {
      binds() ? serve_next(std::move(keys)) : try_next(std::move(keys));
    } catch (const zmq::error_t& e) {
      spdlog::error("{}: cannot use another key at {}: {}", options_.name,
                    socket_->endpoint(), e.what());
    }
  }

  /// Binds another socket with these keys, beside the present one.
  void serve_next(std::shared_ptr<const link_keys> keys) {
    report_connections();
    auto port = socket_->listen_beside();
    if (!port) {
      spdlog::error("{}: the former key holds: {}", options_.name,
                    port.why().what);
      return;
    }
    end_former();
    auto options = options_;
    options.endpoint = socket_->endpoint();
    options.keys = std::move(keys);
    options.mark = next_mark(options.mark);
    options.listens_on = port->get();
    auto next = std::make_unique<link_socket>(zmq_, options, expected_peers);
    (void)port->release();
    other_ = std::exchange(socket_, std::move(next));
    options_.keys = options.keys;
    options_.mark = options.mark;
    spdlog::info("{}: serves another key at {}", options_.name,
                 options.endpoint);
  }

  void end_former() {
    if (!other_)
      return;
    auto lost = other_->losses();
    other_.reset();
    for (auto& x : lost)
      tell(std::make_shared<const link_event>(std::move(x)));
    spdlog::info("{}: the former key is not good any more", options_.name);
  }

  void try_next(std::shared_ptr<const link_keys> keys) {
    next_options_ = options_;
    next_options_.keys = std::move(keys);
    other_ = std::make_unique<link_socket>(zmq_, next_options_, expected_peers);
  }

  /// Uses the connection that the next keys opened, from now on.
  void change_over() {
    drain();
    options_.keys = next_options_.keys;
    socket_ = std::move(other_);
    for (auto what : {link_event::kind::rekeyed, link_event::kind::down})
      tell(std::make_shared<const link_event>(
          link_event{what, options_.endpoint}));
    begin_connection();
    tell(std::make_shared<const link_event>(
        link_event{link_event::kind::up, options_.endpoint}));
  }

  /// Passes on what has arrived by the present connection.
  void drain() {
    for (int i = 0; i < options_.high_water; ++i) {
      auto in = socket_->receive();
      if (!in)
        return;
      pass_on(std::move(in));
    }
  }

  void begin_connection() {
    up_ = true;
    if (options_.greeting)
      send(outgoing{{}, {options_.name, 0, *options_.greeting}});
  }

  void pass_on(parcel_ptr in) {
    if constexpr (reads_envelopes)
      read_envelope(*in);
    else
      tell(std::move(in));
  }

  // -- messages ---------------------------------------------------------------

  /// Receives by each socket in turn.
  parcel_ptr receive() {
    if (!other_ || !binds())
      return socket_->receive();
    from_other_ = !from_other_;
    auto& first = from_other_ ? *other_ : *socket_;
    auto& second = from_other_ ? *socket_ : *other_;
    auto in = first.receive();
    return in ? in : second.receive();
  }

  void read_socket() {
    more_to_read_ = false;
    for (int i = 0; i < socket_quantum && !passed_.is_full(); ++i) {
      auto in = receive();
      if (!in)
        return answer_looks();
      if (!looked_for_.empty())
        ++passed_on_;
      pass_on(std::move(in));
    }
    more_to_read_ = true;
    // Nobody who keeps sending keeps a judge waiting.
    if (passed_on_ >= options_.high_water)
      answer_looks();
  }

  void answer_looks() {
    for (auto& x : std::exchange(looked_for_, {}))
      caf::anon_send(x, std::make_shared<const link_event>(
                            link_event{link_event::kind::looked, {}}));
  }

  void read_envelope(const parcel& in) {
    auto what = control::decode(in);
    if (auto* good = std::get_if<control::envelope>(&what)) {
      tell(incoming_ptr{
          passed_.count(incoming{in.peer(), std::move(*good), in.who()},
                        in.words().size() * sizeof(capnp::word))});
      return;
    }
    auto& bad = std::get<control::unreadable>(what);
    auto now = log_limit::clock::now();
    if (auto before = unreadable_.admits(in.peer(), now))
      spdlog::warn("{}: dropped a message of {} that cannot be read: {}{}",
                   options_.name, printable(in.peer()), bad.why,
                   note_suppressed(*before));
    if (bad.request != 0)
      send(outgoing{
          in.peer(),
          {options_.name, bad.request,
           control::refusal{CUDA_ERROR_NOT_SUPPORTED,
                            "this message cannot be read: " + bad.why +
                                "; check that both sides are of the same "
                                "version",
                            {}}}});
  }

  void send(const outgoing& out) {
    dispatch frames{out.peer, control::encode(out.what), {}};
    spdlog::trace("{}: {} to {}", options_.name,
                  control::name_of(out.what.body), printable(out.peer));
    send(frames);
  }

  void send(dispatch& out) {
    if (!binds() && !up_)
      return;
    auto peer = out.peer;
    auto by_other = binds() && other_ && other_->names(peer);
    switch ((by_other ? *other_ : *socket_).send(out)) {
    case link_socket::sent::yes:
      return;
    case link_socket::sent::gone:
      spdlog::debug("{}: {} is not connected", options_.name, printable(peer));
      tell(std::make_shared<const link_event>(
          link_event{link_event::kind::down, peer}));
      return;
    case link_socket::sent::full:
      if (auto before = full_.admits(peer, log_limit::clock::now()))
        spdlog::warn("{}: dropped a message to {}: its queue of {} is full{}",
                     options_.name, printable(peer), options_.high_water,
                     note_suppressed(*before));
      tell(std::make_shared<const link_event>(
          link_event{link_event::kind::overrun, peer}));
      return;
    }
  }

  template <class T>
  void tell(T what) {
    if (consumer_)
      caf::anon_send(consumer_, std::move(what));
  }

  static constexpr auto expected_peers =
      reads_envelopes ? link_socket::peers::greet
                      : link_socket::peers::may_be_silent;

  zmq::context_t& zmq_;
  link_options options_;
  std::unique_ptr<link_socket> socket_;
  /// Has the former keys where it binds, and the next ones where it connects.
  std::unique_ptr<link_socket> other_;
  link_options next_options_;
  bool from_other_ = false;
  Consumer consumer_;
  doorbell bell_;
  std::atomic<bool> asleep_ = false;
  bool running_ = true;
  bool up_ = false;
  bool more_to_read_ = false;
  unhandled passed_;
  log_limit unreadable_;
  log_limit full_;
  std::vector<control_consumer> looked_for_;
  /// Counts the messages since somebody asked to look.
  int passed_on_ = 0;
};

std::string help_for(const link_options& options) {
  auto binds = options.as == link_options::form::bind;
  if (!options.endpoint.starts_with("tcp://") &&
      !options.endpoint.starts_with("ipc://"))
    return "an endpoint is written tcp://HOST:PORT or ipc://PATH";
  return binds ? "check that the address is of this host and not in use"
               : "check how the endpoint is written";
}

/// Spawns a link that `Consumer` listens to, as `Open`.
template <class Consumer, class Open>
result<Open> spawn_socket_actor(caf::actor_system& system, zmq::context_t& zmq,
                                link_options options) {
  auto refuse = [&options](const std::string& why) {
    auto verb =
        options.as == link_options::form::bind ? "listen on " : "connect to ";
    return fault{fault_kind::usage, "cannot " + (verb + options.endpoint) +
                                        ": " + why + "; " + help_for(options)};
  };
  if (options.endpoint.starts_with("ipc://") &&
      options.endpoint.size() - 6 > longest_ipc_path)
    return refuse("the path is longer than 107 bytes");
  try {
    constexpr auto peers = std::is_same_v<Consumer, control_consumer>
                               ? link_socket::peers::greet
                               : link_socket::peers::may_be_silent;
    if (options.as == link_options::form::bind && options.keys &&
        peers == link_socket::peers::greet)
      options.mark = next_mark({});
    auto socket = std::make_unique<link_socket>(zmq, options, peers);
    auto endpoint = socket->endpoint();
    auto actor = system.spawn<socket_actor<Consumer>, caf::detached>(
        &zmq, std::move(socket), std::move(options));
    // A blocking actor has no static type. read_mailbox() takes what the type
    // of the handle says.
    using handle = decltype(Open::actor);
    return Open{caf::actor_cast<handle>(actor), endpoint};
  } catch (const zmq::error_t& e) {
    return refuse(e.what());
  }
}

} // namespace

result<open_link> spawn_link(caf::actor_system& system, zmq::context_t& zmq,
                             link_options options) {
  return spawn_socket_actor<control_consumer, open_link>(system, zmq,
                                                         std::move(options));
}

result<open_raw_link> spawn_raw_link(caf::actor_system& system,
                                     zmq::context_t& zmq,
                                     link_options options) {
  return spawn_socket_actor<raw_consumer, open_raw_link>(system, zmq,
                                                         std::move(options));
}

control_consumer consumer_of(const caf::scoped_actor& self) {
  // A scoped_actor has no static type. Its owner receives both messages of a
  // control_consumer.
  return caf::actor_cast<control_consumer>(self);
}

} // namespace vgpu
