#include "actors/link/link_socket.hpp"

#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"
#include "actors/link/shared_port.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iterator>
#include <string_view>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace vgpu {

namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int monitored = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_ACCEPTED |
                          ZMQ_EVENT_DISCONNECTED |
                          ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                          ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_LISTENING;
/// Is monitored where handshakes prove keys.
constexpr int refused_handshakes = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                   ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                   ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
/// Is ZMQ_ZAP_ENFORCE_DOMAIN, which the headers of stable releases do not name.
/// Without it, ZeroMQ admits everybody where nobody answers for keys.
constexpr int enforce_domain = 93;
/// Bounds the time in which a peer proves its key.
constexpr int handshake_ms = 5000;
/// Says how long the last messages of an ending process may take.
constexpr int linger_ms = 100;
constexpr int first_retry_ms = 20;
constexpr int last_retry_ms = 500;
/// The kernel probes an idle TCP connection, and ends it when its peer has
/// acknowledged nothing for this long, because a host that vanishes closes no
/// connection. ZeroMQ's own heartbeats would end this process: when a peer goes
/// while its queue here is full, the next heartbeat fails an assertion
/// (libzmq 4.3, stream_engine_base_t::out_event).
constexpr int tcp_probe_s = 1;
constexpr int tcp_probes = 3;
constexpr int tcp_unacknowledged_ms = 3000;
/// Bounds a connection attempt, because the kernel's own attempts become rare
/// while a link is cut, and would notice late that it works again.
constexpr int tcp_connect_timeout_ms = 1000;
/// Gives the send buffer within a host. It is small, so that the receiver reads
/// a long message while it is still in the processor's cache. By default the
/// kernel takes several MiB.
constexpr int loopback_send_buffer = 512 << 10;

/// Gives the number and the distance of the probes of a doubted descriptor. In
/// their time the I/O thread tells the socket of a connection's end, which it
/// does right after it reports it, on the busiest machine, too.
constexpr int probes = 100;
constexpr milliseconds between_probes{100};

/// Returns the address at an end of a connection, without the port. Returns an
/// empty string for a connection that does not use IP.
std::string host_of(const sockaddr_storage& end) {
  auto bytes_of = [](const auto& address) {
    return std::string{reinterpret_cast<const char*>(&address),
                       sizeof(address)};
  };
  if (end.ss_family == AF_INET)
    return bytes_of(reinterpret_cast<const sockaddr_in&>(end).sin_addr);
  if (end.ss_family == AF_INET6)
    return bytes_of(reinterpret_cast<const sockaddr_in6&>(end).sin6_addr);
  return {};
}

bool is_within_host(int fd) {
  sockaddr_storage ends[2] = {};
  auto& [own, peer] = ends;
  socklen_t own_size = sizeof(own);
  socklen_t peer_size = sizeof(peer);
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) ==
             0 &&
         !host_of(own).empty() && host_of(own) == host_of(peer);
}

/// Selects the congestion control `reno` within a host. A host's default may
/// pace its packets (BBR). It then mistakes delays of the host's own processors
/// for those of a path, and sends bulk data at half the speed. Every kernel has
/// reno and lets every user choose it.
void send_unpaced_within_host(int fd) {
  constexpr std::string_view rule = "reno";
  // A refusal costs only speed.
  if (is_within_host(fd))
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, rule.data(),
                       rule.size());
}

std::string monitor_address() {
  static std::atomic<unsigned> next = 0;
  return "inproc://link-monitor-" + std::to_string(next++);
}

} // namespace

link_socket::link_socket(zmq::context_t& zmq, const link_options& options,
                         peers expected)
    : binds_(options.as == link_options::form::bind),
      ends_silent_(binds_ && expected == peers::greet), name_(options.name),
      endpoint_(options.endpoint), mark_(options.mark),
      socket_(zmq,
              binds_ ? zmq::socket_type::router : zmq::socket_type::dealer),
      monitor_(zmq, zmq::socket_type::pair) {
  socket_.set(zmq::sockopt::linger, linger_ms);
  if (options.io_thread)
    socket_.set(zmq::sockopt::affinity, std::uint64_t{1} << *options.io_thread);
  socket_.set(zmq::sockopt::sndhwm, options.high_water);
  socket_.set(zmq::sockopt::rcvhwm, options.high_water);
  socket_.set(zmq::sockopt::maxmsgsize,
              static_cast<std::int64_t>(options.largest_frame));
  if (endpoint_.starts_with("tcp:")) {
    socket_.set(zmq::sockopt::tcp_keepalive, 1);
    socket_.set(zmq::sockopt::tcp_keepalive_idle, tcp_probe_s);
    socket_.set(zmq::sockopt::tcp_keepalive_intvl, tcp_probe_s);
    socket_.set(zmq::sockopt::tcp_keepalive_cnt, tcp_probes);
    socket_.set(zmq::sockopt::tcp_maxrt, tcp_unacknowledged_ms);
    socket_.set(zmq::sockopt::connect_timeout, tcp_connect_timeout_ms);
    if (within_host())
      socket_.set(zmq::sockopt::sndbuf, loopback_send_buffer);
  }
  if (options.sealed)
    use_ticket(*options.sealed);
  else if (options.keys)
    use_keys(options);
  auto address = monitor_address();
  auto events = has_keys_ ? monitored | refused_handshakes : monitored;
  if (zmq_socket_monitor(socket_.handle(), address.c_str(), events) != 0)
    throw zmq::error_t{};
  monitor_.set(zmq::sockopt::linger, 0);
  // The monitor's queue is unlimited, because ZeroMQ's I/O thread writes to it
  // and would wait while it is full.
  monitor_.set(zmq::sockopt::rcvhwm, 0);
  monitor_.connect(address);
  // The descriptor signals messages only after a receive found none.
  zmq::message_t none;
  (void)monitor_.recv(none, zmq::recv_flags::dontwait);
  if (binds_) {
    socket_.set(zmq::sockopt::router_mandatory, true);
    if (options.listens_on >= 0)
      socket_.set(zmq::sockopt::use_fd, options.listens_on);
    socket_.bind(endpoint_);
    endpoint_ = socket_.get(zmq::sockopt::last_endpoint);
    if (options.second_port && endpoint_.starts_with("tcp:"))
      bind_second(options.io_thread.value_or(0) + 1, tickets_ != nullptr);
  } else {
    // Nothing is queued for a lost connection. The sender gets an event and
    // repeats what matters.
    socket_.set(zmq::sockopt::immediate, true);
    socket_.set(zmq::sockopt::reconnect_ivl, first_retry_ms);
    socket_.set(zmq::sockopt::reconnect_ivl_max, last_retry_ms);
    socket_.connect(endpoint_);
  }
}

/// Makes the socket prove its key, and ask peers for theirs.
void link_socket::use_keys(const link_options& options) {
  const auto& keys = *options.keys;
  auto listener = keys.listeners.find(endpoint_);
  has_keys_ =
      binds_ ? keys.permitted != nullptr : listener != keys.listeners.end();
  if (!has_keys_)
    return;
  socket_.set(zmq::sockopt::handshake_ivl, handshake_ms);
  socket_.set(zmq::sockopt::curve_publickey, keys.own.open);
  socket_.set(zmq::sockopt::curve_secretkey, keys.own.secret);
  if (!binds_)
    return socket_.set(zmq::sockopt::curve_serverkey, listener->second);
  socket_.set(zmq::sockopt::curve_server, true);
  socket_.set(zmq::sockopt::zap_domain, "vgpu");
  auto yes = 1;
  if (zmq_setsockopt(socket_.handle(), enforce_domain, &yes, sizeof(yes)) != 0)
    throw zmq::error_t{};
  keyed_.emplace(keys.permitted);
  tickets_ = keys.tickets;
}

/// Makes the socket show a ticket, and seal and open all messages.
void link_socket::use_ticket(const sealed_way& way) {
  socket_.set(zmq::sockopt::handshake_ivl, handshake_ms);
  socket_.set(zmq::sockopt::plain_username, "ticket");
  socket_.set(zmq::sockopt::plain_password, text_of(way.offer.ticket));
  sealed_.emplace(sealed_connection{
      {way.offer.key, seal_direction::from_listener, way.subject},
      {way.offer.key, seal_direction::to_listener, way.subject},
      {},
      {}});
}

/// Binds the second port. Accepted connections belong to the I/O thread to
/// which the affinity binds their listener, and prove what the options ask for
/// at that time.
void link_socket::bind_second(unsigned io_thread, bool sealed) {
  if (sealed)
    socket_.set(zmq::sockopt::plain_server, true);
  socket_.set(zmq::sockopt::affinity, std::uint64_t{1} << io_thread);
  socket_.bind(endpoint_.substr(0, endpoint_.rfind(':')) + ":*");
  auto bound = socket_.get(zmq::sockopt::last_endpoint);
  (sealed ? sealed_port_ : second_port_) = static_cast<std::uint16_t>(
      std::stoul(bound.substr(bound.rfind(':') + 1)));
}

seal_offer link_socket::offer_sealed(const seal_subject& subject) {
  seal_offer out;
  out.port = sealed_port_;
  make_secrets(out);
  sealed_.emplace(
      sealed_connection{{out.key, seal_direction::to_listener, subject},
                        {out.key, seal_direction::from_listener, subject},
                        ticket_holder(tickets_->permit(out.ticket)),
                        {}});
  return out;
}

link_socket::~link_socket() {
  // The monitor stops before its other end closes. Otherwise ZeroMQ's I/O
  // thread would wait for ever to report the connections that end with the
  // socket, and would block every other socket of this process.
  zmq_socket_monitor(socket_.handle(), nullptr, 0);
  // ZeroMQ does not remove the file.
  constexpr std::string_view ipc = "ipc://";
  if (binds_ && endpoint_.starts_with(ipc))
    ::unlink(endpoint_.c_str() + ipc.size());
}

std::string link_socket::endpoint() const {
  return endpoint_;
}

void link_socket::add_to(std::vector<pollfd>& items) {
  items.push_back({socket_.get(zmq::sockopt::fd), POLLIN, 0});
  items.push_back({monitor_.get(zmq::sockopt::fd), POLLIN, 0});
  if (keyed_)
    items.push_back({keyed_->bell(), POLLIN, 0});
}

bool link_socket::overlooked() {
  return !drained_ && has_messages();
}

bool link_socket::has_messages() {
  auto found = (socket_.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0;
  if (found)
    drained_ = false;
  return found;
}

bool link_socket::sleep(int bell, bool wait, link_socket* also) {
  std::array<zmq::pollitem_t, 7> items{};
  std::size_t used = 0;
  auto longest = milliseconds{-1};
  items[used++] = {nullptr, bell, ZMQ_POLLIN, 0};
  for (auto* x : {this, also}) {
    if (x == nullptr)
      continue;
    items[used++] = {x->socket_.handle(), 0, ZMQ_POLLIN, 0};
    items[used++] = {x->monitor_.handle(), 0, ZMQ_POLLIN, 0};
    if (x->keyed_)
      items[used++] = {nullptr, x->keyed_->bell(), ZMQ_POLLIN, 0};
    auto own = x->longest_sleep();
    if (longest.count() < 0 || (own.count() >= 0 && own < longest))
      longest = own;
  }
  zmq::poll(items.data(), used, wait ? longest : milliseconds{0});
  return items[0].revents != 0;
}

/// Returns for how long nothing is to do unless a descriptor signals it; -1:
/// for ever. No descriptor signals what a probe finds, and that a peer is
/// silent.
milliseconds link_socket::longest_sleep() const {
  if (!doubted_.empty())
    return between_probes;
  auto due = silent_.next_due();
  if (!due)
    return milliseconds{-1};
  auto left = std::chrono::ceil<milliseconds>(*due - clock::now());
  return std::max(left, milliseconds{1});
}

parcel_ptr link_socket::receive() {
  for (;;) {
    zmq::message_t peer;
    zmq::message_t head;
    zmq::message_t bulk;
    drained_ = !receive_frames(peer, head, bulk);
    if (drained_)
      return nullptr;
    if (head.size() == 0 && bulk.size() == 0)
      continue;
    auto name = binds_ ? mark_ + peer.to_string() : endpoint_;
    // The option is -1 when ZeroMQ does not know the descriptor.
    auto fd = zmq_msg_get(head.handle(), ZMQ_SRCFD);
    principal_ptr who;
    if (!admits(name, fd, head, bulk, who))
      continue;
    if (binds_ && fd >= 0)
      remember(name, fd);
    return std::make_shared<const parcel>(std::move(name), std::move(head),
                                          std::move(bulk), std::move(who));
  }
}

/// Returns whether the message may be received, and opens it where it came by
/// a sealed connection.
bool link_socket::admits(const std::string& peer, int fd, zmq::message_t& head,
                         zmq::message_t& bulk, principal_ptr& who) {
  if (!binds_)
    return !sealed_ || opens({}, peer, fd, head, bulk);
  if (!keyed_)
    return true;
  const auto* proved = zmq_msg_gets(head.handle(), "User-Id");
  if (proved != nullptr && is_ticket_holder(proved))
    return opens(proved, peer, fd, head, bulk);
  who = keyed_->sender(fd, proved);
  return who != nullptr; // null: its key was revoked
}

/// Opens a message that came by a sealed connection. Ends the connection where
/// it does not open: somebody in between has changed, repeated or dropped
/// something.
bool link_socket::opens(const std::string& holder, const std::string& peer,
                        int fd, zmq::message_t& head, zmq::message_t& bulk) {
  auto is_current = sealed_ && sealed_->holder == holder && !sealed_->broken;
  if (is_current && sealed_->in.open(head, bulk)) {
    if (binds_ && sealed_->peer.empty())
      sealed_peers_.insert(sealed_->peer = peer);
    return true;
  }
  if (is_current) {
    sealed_->broken = true;
    if (auto before = unsealed_.admits(name_, clock::now()))
      spdlog::warn("{}: a sealed connection at {} ends, because a message on "
                   "it does not open: somebody in between changes it{}",
                   name_, endpoint_, note_suppressed(*before));
  }
  if (keyed_ && fd >= 0)
    keyed_->end(fd);
  return false;
}

/// Returns false when there is nothing to receive. Both frames stay empty when
/// the message has the wrong number of frames.
bool link_socket::receive_frames(zmq::message_t& peer, zmq::message_t& head,
                                 zmq::message_t& bulk) {
  auto& first = binds_ ? peer : head;
  if (!socket_.recv(first, zmq::recv_flags::dontwait))
    return false;
  auto more = first.more();
  if (binds_ && more) {
    (void)socket_.recv(head);
    more = head.more();
  }
  if (more) {
    (void)socket_.recv(bulk);
    more = bulk.more();
  }
  if (!more)
    return true;
  auto extra = 0;
  for (zmq::message_t rest; more; more = rest.more(), ++extra)
    (void)socket_.recv(rest);
  head.rebuild();
  bulk.rebuild();
  if (auto before = malformed_.admits(peer.to_string(), clock::now()))
    spdlog::warn("{}: dropped a message with {} frames too many{}", name_,
                 extra, note_suppressed(*before));
  return true;
}

// -- the ends of connections --------------------------------------------------

/// Records that a message of the peer came on this descriptor.
void link_socket::remember(const std::string& peer, int fd) {
  silent_.forget(fd);
  auto& here = on_[fd];
  if (!here.peers.insert(peer).second)
    return;
  // The message may have waited since a former connection of the descriptor.
  if (!here.stands || here.peers.size() > 1)
    doubt(fd);
}

void link_socket::doubt(int fd) {
  doubted_[fd] = probes;
  next_probe_ = {};
}

/// Ends the connections whose descriptor has none any more. Where the kernel
/// gave the descriptor to another connection before this was known, nothing
/// tells which peer had which, and they are probed.
void link_socket::end_connections(const std::set<int>& ended,
                                  std::vector<link_event>& out) {
  for (auto fd : ended) {
    auto i = on_.find(fd);
    if (i == on_.end())
      continue;
    if (i->second.stands) {
      doubt(fd);
      continue;
    }
    for (const auto& peer : i->second.peers) {
      sealed_peers_.erase(peer);
      out.push_back({link_event::kind::down, peer});
    }
    on_.erase(i);
    doubted_.erase(fd);
  }
}

/// Probes the doubted descriptors whose time has come, and reports their peers
/// that are gone.
void link_socket::probe_doubted(std::vector<link_event>& out) {
  if (doubted_.empty() || clock::now() < next_probe_)
    return;
  next_probe_ = clock::now() + between_probes;
  for (auto i = doubted_.begin(); i != doubted_.end();) {
    auto here = on_.find(i->first);
    if (here != on_.end())
      std::erase_if(here->second.peers, [&](const std::string& peer) {
        auto gone = is_gone(peer);
        if (gone)
          out.push_back({link_event::kind::down, peer});
        return gone;
      });
    auto over = here == on_.end() || --i->second == 0;
    i = over ? doubted_.erase(i) : std::next(i);
  }
}

/// Sends a message without content, which every link drops, to learn whether
/// the peer has a connection.
bool link_socket::is_gone(const std::string& peer) {
  auto flags = zmq::send_flags::dontwait;
  drained_ = false;
  try {
    if (socket_.send(routing_id(peer), flags | zmq::send_flags::sndmore))
      (void)socket_.send(zmq::message_t{}, flags);
    return false;
  } catch (const zmq::error_t& e) {
    return e.num() == EHOSTUNREACH;
  }
}

/// Returns the name by which ZeroMQ knows the peer.
zmq::const_buffer
link_socket::routing_id(const std::string& peer) const noexcept {
  auto before = names(peer) ? mark_.size() : 0;
  return zmq::buffer(peer.data() + before, peer.size() - before);
}

std::vector<link_event> link_socket::losses() const {
  std::vector<link_event> out;
  for (const auto& [fd, here] : on_)
    for (const auto& peer : here.peers)
      out.push_back({link_event::kind::down, peer});
  return out;
}

result<unique_fd> link_socket::listen_beside() const {
  if (listening_ < 0)
    return fault{fault_kind::unsupported,
                 "the socket that listens at " + endpoint_ + " is not known"};
  return vgpu::listen_beside(listening_);
}

link_socket::sent link_socket::send(dispatch& out) {
  auto seals = binds_ ? sealed_peers_.contains(out.peer) : sealed_.has_value();
  return seals ? send_sealed(out) : send_frames(out);
}

/// Sends by a sealed connection. Where the message cannot be sent the
/// connection is over, because the other end waits for it.
link_socket::sent link_socket::send_sealed(const dispatch& out) {
  if (!sealed_ || sealed_->broken || (binds_ && sealed_->peer != out.peer))
    return sent::gone;
  if (auto sealed = sealed_->out.seal(out.head, out.bulk)) {
    dispatch message{out.peer, std::move(sealed->head),
                     std::move(sealed->bulk)};
    if (send_frames(message) == sent::yes)
      return sent::yes;
  }
  sealed_->broken = true;
  return sent::gone;
}

link_socket::sent link_socket::send_frames(dispatch& out) {
  auto flags = zmq::send_flags::dontwait;
  drained_ = false;
  try {
    if (binds_ &&
        !socket_.send(routing_id(out.peer), flags | zmq::send_flags::sndmore))
      return sent::full;
    if (out.bulk.size() == 0)
      return socket_.send(out.head, flags) ? sent::yes : sent::full;
    if (!socket_.send(out.head, flags | zmq::send_flags::sndmore))
      return sent::full;
    return socket_.send(out.bulk, flags) ? sent::yes : sent::full;
  } catch (const zmq::error_t& e) {
    if (e.num() == EHOSTUNREACH)
      return sent::gone;
    throw;
  }
}

/// Logs that a handshake failed. A key that is not permitted is logged by the
/// guard, too, which knows it.
void link_socket::note_refused(const std::string& where) {
  auto before = refused_.admits(where, clock::now());
  if (!before)
    return;
  if (binds_)
    spdlog::warn("{}: a peer at {} did not prove a permitted key{}", name_,
                 printable(where), note_suppressed(*before));
  else
    spdlog::warn("{}: no connection to {}: it does not permit the key of this "
                 "process, has another key than is expected, or has none{}",
                 name_, endpoint_, note_suppressed(*before));
}

std::vector<link_event> link_socket::connection_changes() {
  std::vector<link_event> out;
  std::set<int> ended;
  if (keyed_)
    keyed_->look();
  zmq::message_t what;
  while (monitor_.recv(what, zmq::recv_flags::dontwait)) {
    zmq::message_t address;
    if (what.more())
      (void)monitor_.recv(address);
    std::uint16_t event = 0;
    std::int32_t value = 0;
    if (what.size() < sizeof(event) + sizeof(value))
      continue;
    std::memcpy(&event, what.data(), sizeof(event));
    std::memcpy(&value, what.data<std::byte>() + sizeof(event), sizeof(value));
    if (event == ZMQ_EVENT_CONNECTED || event == ZMQ_EVENT_ACCEPTED)
      send_unpaced_within_host(value);
    if (event == ZMQ_EVENT_LISTENING) {
      if (listening_ < 0)
        listening_ = value;
    } else if ((event & refused_handshakes) != 0)
      note_refused(address.to_string());
    else if (binds_ && event == ZMQ_EVENT_ACCEPTED) {
      on_[value].stands = true;
      if (keyed_)
        keyed_->accepted(value);
      if (ends_silent_)
        silent_.accepted(value, clock::now());
    } else if (binds_ && event == ZMQ_EVENT_DISCONNECTED) {
      on_[value].stands = false;
      if (keyed_)
        keyed_->gone(value);
      silent_.forget(value);
      ended.insert(value);
    } else if (event == ZMQ_EVENT_DISCONNECTED)
      out.push_back({link_event::kind::down, endpoint_});
    else if (!binds_ && event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
      out.push_back({link_event::kind::up, endpoint_});
    else if (!binds_ && event == ZMQ_EVENT_CONNECT_RETRIED)
      out.push_back({link_event::kind::unreachable, endpoint_});
  }
  if (keyed_ && keyed_->end_revoked())
    out.push_back({link_event::kind::revoked, {}});
  end_connections(ended, out);
  probe_doubted(out);
  silent_.end_overdue(clock::now());
  if (!out.empty()) {
    drained_ = false;
    // Reading the events makes the socket process the new connection before it
    // is used.
    [[maybe_unused]] auto events = socket_.get(zmq::sockopt::events);
  }
  return out;
}

} // namespace vgpu
