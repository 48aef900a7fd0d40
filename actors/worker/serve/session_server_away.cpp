// What is done for a session while a call of its is executed: signs of life for
// its client, and a look at the calls that lie ahead.
#include "actors/worker/serve/session_server_mapped.hpp"

#include "schema/wire/call_codec.hpp"

#include <algorithm>
#include <variant>

namespace vgpu {

/// A call may take longer than a client waits for a sign of life: a module
/// that is compiled, memory that is cleared.
bool session_server::execute_away(const record& what,
                                  std::shared_ptr<const void> owner) {
  in_call_ = true;
  heartbeat_thread_.leave();
  auto done = exec_->execute(what, std::move(owner));
  heartbeat_thread_.back();
  in_call_ = false;
  return done;
}

/// On the stand-in's thread, while a call is executed: of the executor, nothing
/// but look_ahead() may be touched.
void session_server::look_after(std::chrono::milliseconds away) {
  if (in_call_) {
    look_ahead();
    // Its client has no use for signs of life, and sees the log itself.
    if (mapped_)
      return;
  }
  while (auto in = socket_->receive())
    if (!keep_alive(in))
      put_by(std::move(in));
  check_lease();
  if (lapsed_ || client_.empty())
    return;
  send_answers();
  if (away < options_.longest_call)
    send(client_, known_);
}

/// At the calls behind the one that is executed, of which some may end what it
/// waits for; each is looked at once.
void session_server::look_ahead() {
  if (mapped_) {
    constexpr auto most = 1 << 14; // in one look, for which the call waits
    log_reader ahead{*mapped_->area, mapped_->doorbell.get(),
                     std::max(seen_until_, mapped_->reader.position())};
    for (auto i = 0; i < most; ++i) {
      auto got = ahead.next();
      if (!got || !*got)
        break;
      exec_->look_ahead(**got);
    }
    seen_until_ = ahead.position();
    return;
  }
  auto position = position_;
  for (auto& x : backlog_)
    if (!look_ahead_in(x.rest, position))
      return;
  for (auto& [from, in] : calls_put_by())
    if (from == position && !look_ahead_in(in->bulk(), position))
      return;
}

/// Where they begin, in their order, which is not that of two connections.
std::multimap<std::uint64_t, parcel_ptr> session_server::calls_put_by() const {
  std::multimap<std::uint64_t, parcel_ptr> out;
  reorder_.each(
      [&](const calls_in_order& x) { out.emplace(x.range.from, x.in); });
  for (auto& in : put_by_) {
    auto words = in->words();
    auto head = data::decode(
        {reinterpret_cast<const std::uint64_t*>(words.begin()), words.size()});
    auto* calls = head ? std::get_if<data::calls>(&head->body) : nullptr;
    if (calls != nullptr && allowed(*head) && takes_calls_of(in->peer()))
      out.emplace(calls->from, in);
  }
  return out;
}

/// At a range that begins at `position`, which is moved to its end. False where
/// it is damaged or does not lie as words do: when its turn comes is soon
/// enough.
bool session_server::look_ahead_in(std::span<const std::byte> bytes,
                                   std::uint64_t& position) {
  auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  if (begin % sizeof(std::uint64_t) != 0)
    return false;
  auto end = position + bytes.size();
  if (end <= seen_until_)
    position = end;
  while (position < end) {
    auto got = parse_record(bytes, position, ahead_);
    if (!got || !*got)
      return false;
    if (position > position_ && position >= seen_until_) {
      exec_->look_ahead(**got);
      seen_until_ = (*got)->end;
    }
    bytes = bytes.subspan((*got)->end - position);
    position = (*got)->end;
  }
  return true;
}

/// What is too much is dropped, as a connection that breaks drops it: the
/// client sends it again, and joins its second anew.
void session_server::put_by(parcel_ptr in) {
  constexpr auto most_bytes = std::size_t{256} << 20;
  constexpr auto most_messages = std::size_t{1} << 16;
  put_by_bytes_ += in->bulk().size();
  if (put_by_bytes_ > most_bytes || put_by_.size() == most_messages)
    second_.clear();
  else
    put_by_.push_back(std::move(in));
}

/// False if the message is to be taken when the call is done.
bool session_server::keep_alive(const parcel_ptr& in) {
  auto words = in->words();
  auto head = data::decode(
      {reinterpret_cast<const std::uint64_t*>(words.begin()), words.size()});
  if (!head || !allowed(*head) || in->peer() != client_ || lapsed_)
    return false;
  heard_ = clock::now();
  auto* alive = std::get_if<data::keepalive>(&head->body);
  if (alive != nullptr)
    forwarded_->acknowledge(alive->answers_seen);
  return alive != nullptr;
}

} // namespace vgpu
