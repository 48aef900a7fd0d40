// What a session_client says to a worker that calls are sent to, and hears.
#include "actors/client/session_client_forwarding.hpp"

#include "schema/base/streaming_copy.hpp"
#include "schema/log/changed_lines.hpp"
#include "schema/wire/call_codec.hpp"

#include <spdlog/spdlog.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace vgpu {

namespace {

/// One frame of calls.
constexpr std::uint64_t frame_bytes = std::uint64_t{1} << 20;
/// From here on pages are mapped before they are used.
constexpr std::size_t map_from = std::size_t{64} << 10;
/// Calls that nobody waits for may wait themselves so long: who waits does so
/// right behind them mostly, and one message is less work than two.
constexpr auto gathers_for = std::chrono::microseconds{2};
/// Answers taken before the worker is told, so that it can drop them.
constexpr std::uint64_t acknowledge_bytes = std::uint64_t{2} << 20;
constexpr std::uint64_t acknowledge_count = 512;
/// Who moves so much has two more threads for it.
constexpr std::uint64_t second_from = std::uint64_t{16} << 20;

/// ZeroMQ's thread has the most to do with each byte; here its page faults are
/// taken, many at once. Where the kernel does not know how, they are its own.
void map_pages(std::span<const std::byte> bytes) {
  auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  auto end = begin + bytes.size();
  begin = begin / page_bytes * page_bytes;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
}

} // namespace

link_options session_client::data_link(std::string endpoint) const {
  link_options out;
  out.as = link_options::form::connect;
  out.endpoint = std::move(endpoint);
  out.name = "session/" + std::to_string(lease_->session.value);
  return out;
}

void session_client::attach_forwarded() {
  auto options = data_link(lease_->worker.endpoint);
  options.io_thread = 0;
  try {
    forwarding_ = std::make_unique<forwarding>(zmq_, options);
  } catch (const zmq::error_t& e) {
    return suspect("cannot connect to " + options.endpoint + ": " + e.what());
  }
  spdlog::info("session {}: epoch {} on {}, calls forwarded to {}",
               lease_->session.value, lease_->epoch.value, lease_->node,
               options.endpoint);
}

void session_client::read_connection() {
  if (!forwarding_)
    return;
  auto& to = *forwarding_;
  for (auto& change : to.socket.connection_changes()) {
    to.up = change.what == link_event::kind::up;
    to.attached = false;
    if (to.up)
      attach();
    else if (change.what == link_event::kind::unreachable)
      suspect("nobody listens at " + lease_->worker.endpoint);
  }
  if (!to.second)
    return;
  for (auto& change : to.second->connection_changes()) {
    if (change.what != link_event::kind::up)
      return lose_second(change.what == link_event::kind::unreachable);
    join_second();
  }
}

// -- a second connection ------------------------------------------------------

/// Once it pays. Without, all goes by the first.
void session_client::open_second() {
  if (!forwarding_)
    return;
  auto& to = *forwarding_;
  if (to.second || to.long_bytes < second_from || !to.attached ||
      to.second_port == 0 || to.second_fails)
    return;
  const auto& first = lease_->worker.endpoint;
  auto options = data_link(first.substr(0, first.rfind(':') + 1) +
                           std::to_string(to.second_port));
  options.io_thread = 1;
  try {
    to.second.emplace(zmq_, options);
  } catch (const zmq::error_t& e) {
    spdlog::warn("session {}: no second connection to {}: {}",
                 lease_->session.value, options.endpoint, e.what());
    to.second_fails = true;
  }
}

/// Calls go by it when the worker has answered, by it.
void session_client::join_second() {
  auto& to = *forwarding_;
  if (to.second && to.attached)
    send_by(*to.second, data::join{lease_->token});
}

/// What was on its way by it comes again by the first.
void session_client::lose_second(bool unreachable) {
  auto& to = *forwarding_;
  to.forget_second();
  to.second_fails = unreachable;
  if (to.attached && !unreachable)
    attach();
}

// -- messages -----------------------------------------------------------------

/// In turns, as what comes by one may wait for what comes by the other.
void session_client::read_socket() {
  for (auto heard = true; heard && forwarding_;) {
    heard = hear(forwarding_->socket);
    if (forwarding_ && forwarding_->second)
      heard = hear(*forwarding_->second) || heard;
  }
}

/// False if there is no message.
bool session_client::hear(link_socket& from) {
  auto in = from.receive();
  if (!in)
    return false;
  auto words = in->words();
  auto head = data::decode(
      {reinterpret_cast<const std::uint64_t*>(words.begin()), words.size()});
  if (!head || head->session != lease_->session ||
      head->epoch != lease_->epoch) {
    spdlog::warn("session {}: dropped a message of {}: {}",
                 lease_->session.value, printable(in->peer()),
                 head ? std::string{"it is of another epoch"}
                      : head.why().what);
    return true;
  }
  auto& to = *forwarding_;
  to.heard = clock::now();
  to.spoke = true;
  if (&from == &to.socket)
    take(*head, in);
  else if (auto* x = std::get_if<data::answer>(&head->body))
    on(*x, in);
  else if (std::holds_alternative<data::join>(head->body))
    to.second_taken = true;
  return true;
}

void session_client::take(const data::head& head, const parcel_ptr& in) {
  if (auto* x = std::get_if<data::attached>(&head.body))
    on(*x);
  else if (auto* y = std::get_if<data::progress>(&head.body))
    on(*y);
  else if (auto* z = std::get_if<data::answer>(&head.body))
    on(*z, in);
  else if (auto* why = std::get_if<data::refused>(&head.body)) {
    spdlog::warn("session {}: {} refused: {}", lease_->session.value,
                 lease_->node, why->why);
    forwarding_->attached = false;
    if (forwarding_->attaching)
      return suspect("its worker refused: " + why->why);
    attach();
  } else if (auto* part = std::get_if<data::state_part>(&head.body)) {
    on(*part, in);
  } else if (auto* wanted = std::get_if<data::state_wanted>(&head.body)) {
    on(*wanted);
  } else {
    take_movement(head, {});
  }
}

/// Shows the lease; calls flow when the worker has answered.
void session_client::attach() {
  // To the worker this is a client that begins: it goes on.
  cancel_movement("its connection broke meanwhile");
  forwarding_->attached = false;
  forwarding_->attaching = true;
  forwarding_->second_taken = false;
  forwarding_->reorder.clear();
  send(make_attach(forwarding_->answers_seen));
}

/// The worker says from where on it wants the calls.
void session_client::on(const data::attached& x) {
  auto& header = area_->header();
  if (x.at.received < header.trimmed.load() ||
      x.at.received > header.tail.load())
    return lose_session("its worker is at a call that the log does not hold");
  forwarding_->attached = true;
  forwarding_->attaching = false;
  forwarding_->sent = x.at.received;
  // What a client before this one had taken is in the shared memory.
  forwarding_->answers_seen =
      std::max(forwarding_->answers_seen, x.at.acknowledged);
  reader_->rewind(aside_ ? aside_->position : x.at.received);
  forwarding_->second_port = x.second_port;
  join_second();
  restored();
  on(x.at);
}

void session_client::on(const data::progress& x) {
  auto& to = *forwarding_;
  // Before it is attached, a worker that restores a state has executed none.
  if (!to.attached)
    return;
  to.executed = std::min(x.executed, to.sent);
  area_->publish_executed(to.executed);
  area_->note_charged(std::min(x.charged, to.sent));
  for (std::size_t i = 0; i < x.busy.size(); ++i)
    area_->note_busy(i, x.busy[i], clock::now());
  report_progress(x);
}

void session_client::on(const data::answer& x, const parcel_ptr& in) {
  auto& to = *forwarding_;
  if (x.number <= to.answers_seen)
    return; // sent again
  if (x.number == to.answers_seen + 1)
    arrived(x, in);
  else if (!to.second || !to.reorder.keep(x.number, in->bulk().size(), {x, in}))
    return attach(); // some were lost with a connection: all since, again
  while (auto next = to.reorder.take(to.answers_seen + 1))
    if (next->head.number > to.answers_seen)
      arrived(next->head, next->in);
}

/// All answers before it are here.
void session_client::arrived(const data::answer& x, const parcel_ptr& in) {
  auto& to = *forwarding_;
  to.answers_seen = x.number;
  to.long_bytes += in->bulk().size();
  deliver(x, in->bulk());
  to.unacknowledged_bytes += in->bulk().size();
  if (to.unacknowledged_bytes > acknowledge_bytes ||
      to.answers_seen - to.acknowledged > acknowledge_count) {
    to.acknowledged = to.answers_seen;
    to.unacknowledged_bytes = 0;
    send(data::keepalive{to.sent, to.answers_seen});
  }
}

/// Whether the program waits for what this call brings, in whatever slot: of
/// its answers only the last says in which.
bool session_client::is_awaited(call_number call) {
  if (area_->waits(awaited_in_, call))
    return true;
  for (unsigned i = 1; i < slot_count; ++i)
    if (area_->waits(static_cast<slot_index>(i), call)) {
      awaited_in_ = static_cast<slot_index>(i);
      return true;
    }
  return false;
}

/// Maps the program's pinned memory; false where there are no addresses for it.
bool session_client::view_host() {
  if (!host_view_) {
    auto view = area_->view_host();
    host_view_ = view ? std::move(*view) : mapping{};
  }
  return host_view_->data() != nullptr;
}

/// Into the program's pinned memory. It is mapped as soon as something long
/// goes there: writing to the file costs the kernel a look at each page.
void session_client::write_host(std::uint64_t offset,
                                std::span<const std::byte> bytes) {
  if (bytes.size() >= map_from && view_host())
    streaming_copy(host_view_->data() + offset, bytes.data(), bytes.size());
  else if (!bytes.empty() &&
           ::pwrite(area_->host_fd(), bytes.data(), bytes.size(),
                    static_cast<off_t>(offset)) < 0)
    spdlog::error("cannot write to pinned memory: {}", std::strerror(errno));
}

/// What kernels wrote into memory that they use in place. Where the program has
/// written since it was last told, and did not say so yet, that stays: it is
/// newer, or a replay brings what the program had before.
void session_client::merge_zero_copy(std::span<const std::byte> payload) {
  if (!host_known_) {
    auto view = area_->view_host_known();
    host_known_ = view ? std::move(*view) : mapping{};
  }
  if (!view_host() || host_known_->data() == nullptr)
    return spdlog::error("session {}: no addresses for the program's pinned "
                         "memory: it lacks what kernels wrote there",
                         lease_->session.value);
  constexpr std::chrono::milliseconds patience{10};
  host_guard guard{area_->header().host_taken, patience};
  for (auto& x : lines_of(payload)) {
    if (!area_->in_host(x.address, changed_line::bytes))
      continue;
    auto* memory = host_view_->data() + (x.address - host_window);
    auto* known = host_known_->data() + (x.address - host_window);
    each_change(x, [&](std::size_t i, std::byte now) {
      if (memory[i] == known[i])
        memory[i] = now;
      known[i] = now;
    });
  }
}

/// Puts an answer where the program waits for it; everything in it is checked
/// against the areas, as a worker's word is not taken for it.
void session_client::deliver(const data::answer& x,
                             std::span<const std::byte> payload) {
  using place = data::answer::place;
  auto arena = area_->arena();
  switch (x.where) {
  case place::none:
    if (x.slot == 0)
      area_->header().sticky_error = static_cast<std::uint32_t>(x.result);
    break;
  case place::arena:
    // Of a part it is not said in which slot the whole is awaited.
    if (x.slot != 0 ? !area_->waits(x.slot, x.call) : !is_awaited(x.call))
      return;
    if (x.at > arena.size() || payload.size() > arena.size() - x.at)
      return;
    streaming_copy(arena.data() + x.at, payload.data(), payload.size());
    break;
  case place::host:
    // What a client before this one had taken comes again, and is the program's
    // own by now.
    if (!area_->in_host(x.at, payload.size()) || !is_awaited(x.call))
      return;
    write_host(x.at - host_window, payload);
    break;
  case place::zero_copy:
    return merge_zero_copy(payload);
  case place::output:
  case place::error:
    area_->print(
        x.where == place::output ? console::output : console::error, x.at,
        {reinterpret_cast<const char*>(payload.data()), payload.size()});
    break;
  case place::host_call:
    area_->call_host(x.slot, x.call);
    return;
  }
  area_->note_digest(x.call, x.digest);
  area_->answer(x.slot, x.call, x.result, x.value);
  if (moved_ && x.slot != 0 && replay_told_ && !answer_told_)
    report_progress({.received = replay_until_, .answers = 1});
}

/// For a moment, as long as looking on is no waste.
void session_client::gather_calls() {
  auto began = clock::now();
  if (!reader_->ready() || busy_poll_.time(began) < gathers_for)
    return;
  while (reader_->may_grow(lent_from) && clock::now() - began < gathers_for)
    __builtin_ia32_pause();
}

void session_client::forward() {
  if (!forwarding_ || !forwarding_->attached || aside_)
    return;
  auto& to = *forwarding_;
  if (to.has_room())
    gather_calls();
  while (to.has_room()) {
    auto range = reader_->next_range(frame_bytes);
    if (!range)
      return end(range.why().what);
    if (range->empty())
      return;
    auto from = to.sent;
    to.sent += range->size();
    send(data::calls{from, to.sent}, *range);
    if (!forwarding_ || !forwarding_->attached)
      return;
  }
}

void session_client::keep_alive() {
  auto now = clock::now();
  if (!forwarding_ || now < next_keepalive_)
    return;
  next_keepalive_ = now + options_.keepalive_every;
  auto& to = *forwarding_;
  auto patience = to.spoke ? options_.lease_term : options_.first_word_within;
  if (now - to.heard > patience)
    suspect("its worker has been silent for " +
            std::to_string(patience.count()) + " ms");
  if (!to.up)
    return;
  // A worker that takes a state in is only reminded of us.
  if (held_ && to.attaching && !suspected_)
    return send(data::keepalive{0, to.answers_seen});
  // Once it is suspected its lease must run out, unless it speaks.
  if (!to.attached && !suspected_)
    return attach();
  if (!to.attached)
    return;
  to.acknowledged = to.answers_seen;
  to.unacknowledged_bytes = 0;
  send(data::keepalive{to.sent, to.answers_seen});
}

void session_client::send(data::body body, std::span<const std::byte> payload) {
  auto& to = *forwarding_;
  to.long_bytes += payload.size();
  auto& way = to.connection_for(payload.size());
  if (send_by(way, std::move(body), payload))
    return;
  if (&way == &to.socket)
    to.attached = false;
  else
    lose_second(false);
}

bool session_client::send_by(link_socket& way, data::body body,
                             std::span<const std::byte> payload) {
  auto words = data::encode({lease_->session, lease_->epoch, std::move(body)});
  if (payload.size() >= map_from)
    map_pages(payload);
  dispatch out;
  put_frames(out, words, payload, area_);
  last_contact_ = clock::now();
  return way.send(out) == link_socket::sent::yes;
}

} // namespace vgpu
