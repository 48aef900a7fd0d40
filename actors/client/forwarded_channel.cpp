#include "actors/client/forwarded_channel.hpp"

#include "actors/link/credit.hpp"
#include "actors/link/key_guard.hpp"
#include "actors/link/log.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

namespace vgpu {

namespace {

/// Limits the bytes of calls in one frame.
constexpr std::uint64_t call_frame_bytes = std::uint64_t{1} << 20;
/// Gives the size from which a payload's pages are mapped before it is sent.
constexpr std::size_t pages_mapped_from = std::size_t{64} << 10;
/// Says how long calls without an answer may wait for more: mostly a call with
/// an answer follows at once, and one message is less work than two.
constexpr auto gathers_for = std::chrono::microseconds{2};
/// Gives the bytes of answers after which the client acknowledges them, so that
/// the worker can drop them.
constexpr std::uint64_t acknowledge_bytes = std::uint64_t{2} << 20;
constexpr std::uint64_t acknowledge_count = 512;
/// Gives the bytes after which a session gets a second connection.
constexpr std::uint64_t second_from = std::uint64_t{16} << 20;
/// Gives them for a sealed one, which replaces a slow one.
constexpr std::uint64_t sealed_after = std::uint64_t{256} << 10;

/// Maps the pages on this thread, many at once, because ZeroMQ's thread has the
/// most work with each byte. A kernel that cannot do this leaves the page
/// faults to that thread.
void map_pages(std::span<const std::byte> bytes) {
  auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  auto end = begin + bytes.size();
  begin = begin / page_bytes * page_bytes;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
}

/// Returns how to connect to a port of the lease's worker.
link_options connection_to(const std::string& endpoint,
                           const forwarding_parts& parts) {
  const auto& lease = parts.lease;
  const auto& own = parts.options.keys;
  const auto& port_key = lease.current().worker.key;
  link_options out;
  out.as = link_options::form::connect;
  out.endpoint = endpoint;
  out.name = "session/" + std::to_string(lease.session().value);
  out.io_thread = 0;
  if (own && !port_key.empty())
    out.keys = keys_to_port(own->pair_of(lease.current().client_key), endpoint,
                            port_key);
  return out;
}

link_options first_connection(const forwarding_parts& parts) {
  return connection_to(parts.lease.current().worker.endpoint, parts);
}

} // namespace

status forwarded_channel::check_keys(const session_client_options& options,
                                     const control::worker_endpoints& worker) {
  auto proves = !worker.key.empty();
  if (!worker.endpoint.starts_with("tcp://") ||
      proves == (options.keys != nullptr))
    return {};
  return fault{fault_kind::refused,
               proves ? "its worker at " + worker.endpoint +
                            " asks for a key, and this client has none; run "
                            "`vgpu login`"
                      : "its worker at " + worker.endpoint +
                            " has no key; check that its node runs the same "
                            "release, and joined the cluster with a token"};
}

forwarded_channel::forwarded_channel(const forwarding_parts& parts)
    : parts_(parts), first_(parts.zmq, first_connection(parts)),
      attended_(clock::now(), parts.options.keepalive_every * 3 / 2,
                parts.options.lease_term),
      heard_(attended_.now()) {}

bool forwarded_channel::has_room() const noexcept {
  return sent_ - executed_ < call_window;
}

/// Stops sending calls until the channel is attached again.
void forwarded_channel::detached() noexcept {
  if (stage_ == stage::attached)
    stage_ = stage::apart;
}

/// Sends the lease to the worker. Calls follow when it has answered.
void forwarded_channel::attach() {
  auto hello = parts_.listener.begin_attach(answers_seen_);
  if (is_closed())
    return;
  stage_ = stage::attaching;
  second_taken_ = false;
  early_answers_.clear();
  send(std::move(hello));
}

// -- waiting ------------------------------------------------------------------

bool forwarded_channel::add_to(std::vector<pollfd>& items) {
  first_item_ = items.size();
  first_.add_to(items);
  auto overlooked = first_.overlooked();
  if (second_) {
    second_->add_to(items);
    overlooked = second_->overlooked() || overlooked;
  }
  return overlooked;
}

/// Numbers the items after first_item_.
enum forwarded_item : std::size_t {
  first_messages,
  first_changes,
  second_messages,
  second_changes,
};

bool forwarded_channel::has_messages(std::vector<pollfd>& items) {
  auto found = first_.has_messages();
  if (found)
    items[first_item_ + first_messages].revents = POLLIN;
  if (second_ && second_->has_messages()) {
    items[first_item_ + second_messages].revents = POLLIN;
    found = true;
  }
  return found;
}

void forwarded_channel::note_ready(const std::vector<pollfd>& items,
                                   bool overlooked) {
  auto is_ready = [&](forwarded_item x) {
    return items[first_item_ + x].revents != 0;
  };
  messages_ready_ = overlooked || is_ready(first_messages) ||
                    (second_ && is_ready(second_messages));
  connections_ready_ =
      is_ready(first_changes) || (second_ && is_ready(second_changes));
}

void forwarded_channel::read() {
  if (std::exchange(connections_ready_, false))
    read_connections();
  if (std::exchange(messages_ready_, false))
    read_messages();
}

void forwarded_channel::read_connections() {
  for (auto& change : first_.connection_changes()) {
    if (is_closed())
      return;
    up_ = change.what == link_event::kind::up;
    detached();
    if (up_)
      attach();
    else if (change.what == link_event::kind::unreachable)
      parts_.listener.suspect("nobody listens at " +
                              parts_.lease.current().worker.endpoint);
  }
  if (is_closed() || !second_)
    return;
  for (auto& change : second_->connection_changes()) {
    if (change.what != link_event::kind::up)
      return lose_second(change.what == link_event::kind::unreachable);
    join_second();
  }
}

// -- the second connection ----------------------------------------------------

/// Opens the second connection once it pays. Without it, everything uses the
/// first.
void forwarded_channel::open_second() {
  if (second_ || !ready() || second_fails_ || !is_offered_second())
    return;
  auto options = second_connection();
  sealed_ = options.sealed.has_value();
  offer_ = {};
  try {
    second_.emplace(parts_.zmq, options);
  } catch (const zmq::error_t& e) {
    spdlog::warn("session {}: no second connection to {}: {}",
                 parts_.lease.session().value, options.endpoint, e.what());
    second_fails_ = true;
  }
}

bool forwarded_channel::is_offered_second() const noexcept {
  return offer_.port != 0 ? long_bytes_ >= sealed_after
                          : second_port_ != 0 && long_bytes_ >= second_from;
}

link_options forwarded_channel::second_connection() const {
  const auto& lease = parts_.lease;
  const auto& first = lease.current().worker.endpoint;
  auto at = [&](std::uint16_t port) {
    return first.substr(0, first.rfind(':') + 1) + std::to_string(port);
  };
  auto sealed = offer_.port != 0;
  auto out = connection_to(at(sealed ? offer_.port : second_port_), parts_);
  out.io_thread = 1;
  if (sealed)
    out.sealed = sealed_way{offer_, {lease.session(), lease.epoch()}};
  return out;
}

/// Lets calls use the second connection, after the worker has answered on it.
void forwarded_channel::join_second() {
  if (second_ && ready())
    send_by(*second_, data::join{parts_.lease.current().token});
}

/// Gives up the second connection. Its lost messages come again by the first.
void forwarded_channel::lose_second(bool unreachable) {
  second_.reset();
  second_taken_ = false;
  long_bytes_ = 0;
  second_fails_ = unreachable;
  if (ready() && !unreachable)
    attach();
}

/// Returns the connection for a payload of so many bytes.
link_socket& forwarded_channel::connection_for(std::size_t bytes) {
  if (!second_taken_ || bytes < (sealed_ ? sealed_from : striped_from))
    return first_;
  by_second_ = sealed_ || !by_second_;
  return by_second_ ? *second_ : first_;
}

// -- messages in --------------------------------------------------------------

/// Reads both connections alternately, because a message of one may wait for a
/// message of the other.
void forwarded_channel::read_messages() {
  for (auto heard = true; heard && !is_closed();) {
    heard = hear(first_);
    if (!is_closed() && second_)
      heard = hear(*second_) || heard;
  }
}

/// Returns false if there is no message.
bool forwarded_channel::hear(link_socket& from) {
  auto in = from.receive();
  if (!in) {
    if (from.seal_broke())
      lose_second(false);
    return false;
  }
  auto words = in->words();
  auto head = data::decode(
      {reinterpret_cast<const std::uint64_t*>(words.begin()), words.size()});
  if (!head || head->session != parts_.lease.session() ||
      head->epoch != parts_.lease.epoch()) {
    spdlog::warn("session {}: dropped a message of {}: {}",
                 parts_.lease.session().value, printable(in->peer()),
                 head ? std::string{"it is of another epoch"}
                      : head.why().what);
    return true;
  }
  heard_ = attended_.now();
  spoke_ = true;
  if (&from == &first_)
    take(*head, in);
  else if (auto* x = std::get_if<data::answer>(&head->body))
    on(*x, in);
  else if (std::holds_alternative<data::join>(head->body))
    second_taken_ = true;
  return true;
}

void forwarded_channel::take(const data::head& head, const parcel_ptr& in) {
  if (auto* x = std::get_if<data::attached>(&head.body))
    on(*x);
  else if (auto* progress = std::get_if<data::progress>(&head.body))
    on(*progress);
  else if (auto* answer = std::get_if<data::answer>(&head.body))
    on(*answer, in);
  else if (auto* why = std::get_if<data::refused>(&head.body))
    on(*why);
  else if (auto* wanted = std::get_if<data::state_wanted>(&head.body))
    send_part(*wanted);
  else
    parts_.listener.on_message(head, {.bytes = in->bulk(), .owner = in});
}

void forwarded_channel::on(const data::refused& x) {
  const auto& lease = parts_.lease.current();
  spdlog::warn("session {}: {} refused: {}", lease.session.value, lease.node,
               x.why);
  if (stage_ == stage::attaching)
    return parts_.listener.suspect("its worker refused: " + x.why);
  detached();
  attach();
}

/// Takes the position from which the worker needs the calls.
void forwarded_channel::on(const data::attached& x) {
  auto& header = parts_.opened.header();
  if (x.at.received < header.trimmed.load() ||
      x.at.received > header.tail.load())
    return parts_.listener.lose_session(
        "its worker is at a call that the log does not hold");
  stage_ = stage::attached;
  sent_ = x.at.received;
  // The answers that a former client took are in the shared memory.
  answers_seen_ = std::max(answers_seen_, x.at.acknowledged);
  second_port_ = x.second_port;
  offer_ = x.seal;
  // A new offer makes the sealed connection void.
  if (offer_.port != 0) {
    second_.reset();
    second_taken_ = false;
  }
  join_second();
  parts_.listener.on_attached(x.at.received);
  on(x.at);
}

void forwarded_channel::on(const data::progress& x) {
  // A worker that restores a state executes no calls before it is attached.
  if (!ready())
    return;
  const auto& area = *parts_.opened.area;
  executed_ = std::min(x.executed, sent_);
  area.publish_executed(executed_);
  area.note_charged(std::min(x.charged, sent_));
  for (std::size_t i = 0; i < x.busy.size(); ++i)
    area.note_busy(i, x.busy[i], clock::now());
  parts_.listener.on_progress(x);
}

void forwarded_channel::on(const data::answer& x, const parcel_ptr& in) {
  if (x.number <= answers_seen_)
    return; // a repeated answer
  if (x.number == answers_seen_ + 1)
    arrived(x, in);
  else if (!second_ ||
           !early_answers_.keep(x.number, in->bulk().size(), {x, in}))
    return attach(); // some were lost with a connection, so all come again
  while (auto next = early_answers_.take(answers_seen_ + 1))
    if (next->head.number > answers_seen_)
      arrived(next->head, next->in);
}

/// Takes an answer, after all earlier ones have arrived.
void forwarded_channel::arrived(const data::answer& x, const parcel_ptr& in) {
  answers_seen_ = x.number;
  long_bytes_ += in->bulk().size();
  if (parts_.answers.deliver(x, in->bulk()))
    parts_.listener.on_answer();
  unacknowledged_bytes_ += in->bulk().size();
  if (unacknowledged_bytes_ > acknowledge_bytes ||
      answers_seen_ - acknowledged_ > acknowledge_count)
    acknowledge();
}

// -- messages out -------------------------------------------------------------

void forwarded_channel::acknowledge() {
  acknowledged_ = answers_seen_;
  unacknowledged_bytes_ = 0;
  send(data::keepalive{sent_, answers_seen_});
}

/// Waits briefly for another call, while busy-polling pays.
void forwarded_channel::gather_calls() {
  auto began = clock::now();
  const auto& reader = parts_.opened.reader;
  if (!reader.ready() || parts_.polling.time(began) < gathers_for)
    return;
  while (reader.may_grow(lent_from) && clock::now() - began < gathers_for)
    __builtin_ia32_pause();
}

status forwarded_channel::forward() {
  if (!ready())
    return {};
  if (has_room())
    gather_calls();
  while (ready() && has_room()) {
    auto range = parts_.opened.reader.next_range(call_frame_bytes);
    if (!range)
      return range.why();
    if (range->empty())
      break;
    auto from = sent_;
    sent_ += range->size();
    send_long(data::calls{from, sent_}, *range);
  }
  return {};
}

void forwarded_channel::tend() {
  open_second();
  keep_alive();
}

void forwarded_channel::keep_alive() {
  auto now = clock::now();
  if (is_closed() || now < next_keepalive_)
    return;
  const auto& options = parts_.options;
  // A client that stood still has not read yet what its worker sent.
  attended_.attend(now);
  next_keepalive_ = now + options.keepalive_every;
  auto patience = parts_.patience.of(
      spoke_ ? options.lease_term : options.first_word_within, now);
  if (attended_.now() - heard_ > patience && !parts_.lease.suspected()) {
    parts_.patience.ended(now);
    parts_.listener.suspect("its worker has been silent for " +
                            std::to_string(patience.count()) + " ms");
  }
  if (!up_)
    return;
  auto suspected = parts_.lease.suspected();
  // A worker that restores a state only needs to know that its client is alive.
  if (parts_.restore.held() && stage_ == stage::attaching && !suspected)
    return send(data::keepalive{0, answers_seen_});
  if (ready())
    return acknowledge();
  // A suspected worker's lease must run out, unless the worker sends something.
  if (!suspected)
    attach();
}

void forwarded_channel::send_long(data::body body,
                                  std::span<const std::byte> payload) {
  if (is_closed())
    return;
  long_bytes_ += payload.size();
  auto& way = connection_for(payload.size());
  if (send_by(way, std::move(body), payload))
    return;
  if (&way == &first_)
    detached();
  else
    lose_second(false);
}

bool forwarded_channel::send_by(link_socket& way, data::body body,
                                std::span<const std::byte> payload) {
  auto words = data::encode(
      {parts_.lease.session(), parts_.lease.epoch(), std::move(body)});
  if (payload.size() >= pages_mapped_from)
    map_pages(payload);
  dispatch out;
  put_frames(out, words, payload, parts_.opened.area);
  parts_.fence.note_contact();
  return way.send(out) == link_socket::sent::yes;
}

/// Sends the bytes of the state that the worker requests.
void forwarded_channel::send_part(const data::state_wanted& wanted) {
  auto part = parts_.restore.part(wanted);
  if (!part)
    return;
  dispatch out;
  put_frames(out,
             data::encode({parts_.lease.session(), parts_.lease.epoch(),
                           data::state_part{wanted.from}}),
             *part, part);
  parts_.fence.note_contact();
  if (first_.send(out) != link_socket::sent::yes)
    detached();
}

} // namespace vgpu
