#include "actors/worker/serve/forwarded_source.hpp"

#include "actors/worker/session/worker_bounds.hpp"
#include "schema/wire/call_codec.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace vgpu {

result<data::head> head_of(const parcel& in) {
  auto words = in.words();
  return data::decode(
      {reinterpret_cast<const std::uint64_t*>(words.begin()), words.size()});
}

// -- waiting ------------------------------------------------------------------

void forwarded_source::add_to(std::vector<pollfd>& items) {
  first_item_ = items.size();
  socket_->add_to(items);
  items_ = items.size() - first_item_;
}

void forwarded_source::note_ready(const std::vector<pollfd>& items,
                                  bool overlooked) {
  auto changes = std::span{items}.subspan(first_item_ + 1, items_ - 1);
  ready_ = {.messages = overlooked || items[first_item_].revents != 0,
            .connections = std::ranges::any_of(
                changes, [](const auto& x) { return x.revents != 0; })};
}

bool forwarded_source::has_messages(std::vector<pollfd>& items) {
  auto found = socket_->has_messages();
  if (found)
    items[first_item_].revents = POLLIN;
  return found;
}

// -- messages -----------------------------------------------------------------

parcel_ptr forwarded_source::next_postponed() {
  if (postponed_.empty())
    return nullptr;
  auto in = std::move(postponed_.front());
  postponed_.pop_front();
  postponed_bytes_ -= in->bulk().size();
  if (postponed_.empty()) {
    postponed_bytes_ = 0;
    strangers_postponed_ = 0;
  }
  return in;
}

bool forwarded_source::receive_in_call(parcel_ptr in) {
  auto head = head_of(*in);
  auto of_client = head && identity_.allows(*head) && is_client(in->peer()) &&
                   !silence_.lapsed();
  auto* alive = of_client ? std::get_if<data::keepalive>(&head->body) : nullptr;
  if (alive != nullptr)
    answers_->acknowledge(alive->answers_seen);
  else
    postpone(std::move(in));
  return of_client;
}

/// Postpones a message. Drops what exceeds the limit, as a broken connection
/// would: the client sends it again, and joins its second connection anew.
void forwarded_source::postpone(parcel_ptr in) {
  auto is_stranger = !is_client(in->peer()) && in->peer() != second_;
  // A new client, or a new second connection, has said who it is in a message
  // that is still postponed. Its calls may follow, and must not be lost.
  if (is_stranger &&
      strangers_postponed_++ >= worker_bounds::postponed_of_strangers)
    return;
  postponed_bytes_ += in->bulk().size();
  if (postponed_bytes_ > worker_bounds::postponed ||
      postponed_.size() == worker_bounds::postponed_messages)
    second_.clear();
  else
    postponed_.push_back(std::move(in));
}

void forwarded_source::send(const std::string& peer, data::body body) {
  vgpu::dispatch frames;
  frames.peer = peer;
  put_frames(frames, identity_.encode(std::move(body)));
  (void)socket_->send(frames);
}

void forwarded_source::send_part(
    data::state_part head,
    std::shared_ptr<const std::vector<std::byte>> bytes) {
  vgpu::dispatch frames;
  frames.peer = client_;
  put_frames(frames, identity_.encode(head), *bytes, bytes);
  (void)socket_->send(frames);
}

// -- the client ---------------------------------------------------------------

void forwarded_source::send_attached(const data::progress& at) {
  data::attached out{at, socket_->second_port()};
  if (socket_->has_sealed_port()) {
    second_.clear();
    out.seal = socket_->offer_sealed({identity_.session, identity_.epoch});
  }
  send(out);
}

void forwarded_source::attach(const std::string& peer, const data::attach& x,
                              std::uint64_t position) {
  client_ = peer;
  received_ = std::max(received_, position);
  if (!answers_) {
    // A device may answer until its executor is destroyed.
    answers_ = std::make_shared<forwarded_answers>(
        [ring = ring_, exec = &exec_] {
          ring();
          exec->gates().nudge();
        },
        socket_->within_host());
    answers_->tell_of(exec_.zero_copy());
  }
  if (position < x.replay_until)
    answers_->hold();
  begin_again(x);
  exec_.serve(answers_);
}

void forwarded_source::attach_again(const data::attach& x) {
  std::erase_if(postponed_, [&](const auto& in) {
    auto head = head_of(*in);
    return takes_calls_of(in->peer()) && head &&
           std::holds_alternative<data::calls>(head->body);
  });
  postponed_bytes_ = 0;
  for (const auto& in : postponed_)
    postponed_bytes_ += in->bulk().size();
  begin_again(x);
}

/// Forgets what was under way: the client sends its calls again, and gets again
/// the answers that it has not seen.
void forwarded_source::begin_again(const data::attach& x) {
  second_.clear();
  reorder_.clear();
  answers_->attached(x);
  answers_->acknowledge(x.answers_seen);
  answers_->rewind();
}

// -- calls --------------------------------------------------------------------

bool forwarded_source::take(const data::calls& x, const parcel_ptr& in) {
  auto bytes = in->bulk().size();
  auto fits =
      x.to >= x.from && x.to - x.from == bytes && is_within_credit(x.to);
  if (fits && x.from > received_ && !second_.empty() &&
      reorder_.keep(x.from, bytes, {x, in}))
    return true;
  if (!fits || x.from > received_)
    return false;
  queue(x, in);
  while (auto next = reorder_.take(received_))
    queue(next->range, next->in);
  return true;
}

/// Returns whether the client may send calls up to this position. Payloads that
/// devices still copy count as well.
bool forwarded_source::is_within_credit(std::uint64_t position) const {
  auto executed = exec_.executed();
  return position <= executed || position - executed <= worker_bounds::backlog;
}

/// Queues a range that begins at or before the received position.
void forwarded_source::queue(const data::calls& x, const parcel_ptr& in) {
  if (x.to <= received_)
    return; // all of it arrived before
  auto bytes = in->bulk().subspan(received_ - x.from);
  received_ = x.to;
  calls_.push_back(in_words({in, bytes}));
}

forwarded_source::range forwarded_source::in_words(range calls) {
  auto bytes = calls.rest;
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % sizeof(std::uint64_t) ==
      0)
    return calls;
  auto words =
      std::make_shared<std::vector<std::uint64_t>>((bytes.size() + 7) / 8);
  auto* to = reinterpret_cast<std::byte*>(words->data());
  std::copy(bytes.begin(), bytes.end(), to);
  return {std::move(words), {to, bytes.size()}};
}

void forwarded_source::skip_to(std::uint64_t position) {
  received_ = std::max(received_, position);
}

result<record> forwarded_source::next(std::uint64_t position) {
  auto got = parse_record(calls_.front().rest, position, scratch_);
  if (!got)
    return got.why();
  if (!*got)
    return fault{fault_kind::corrupt,
                 "a range of calls ends in the middle of one"};
  return **got;
}

void forwarded_source::drop(std::uint64_t bytes) {
  auto& rest = calls_.front().rest;
  rest = rest.subspan(bytes);
  if (rest.empty())
    calls_.pop_front();
}

std::vector<forwarded_source::range>
forwarded_source::ranges_from(std::uint64_t position) const {
  std::vector<range> out{calls_.begin(), calls_.end()};
  for (auto& x : out)
    position += x.rest.size();
  for (auto& [from, in] : unordered())
    if (from == position) {
      out.push_back({in, in->bulk()});
      position += in->bulk().size();
    }
  return out;
}

/// Returns the ranges that arrived before earlier ones, or during a call, by
/// their positions.
std::multimap<std::uint64_t, parcel_ptr> forwarded_source::unordered() const {
  std::multimap<std::uint64_t, parcel_ptr> out;
  reorder_.each(
      [&](const calls_in_order& x) { out.emplace(x.range.from, x.in); });
  for (auto& in : postponed_) {
    auto head = head_of(*in);
    auto* calls = head ? std::get_if<data::calls>(&head->body) : nullptr;
    if (calls != nullptr && identity_.allows(*head) &&
        takes_calls_of(in->peer()))
      out.emplace(calls->from, in);
  }
  return out;
}

// -- answers ------------------------------------------------------------------

void forwarded_source::send_answers() {
  waits_for_room_ = false;
  if (!answers_ || !has_client() || silence_.lapsed())
    return;
  while (auto out = answers_->next()) {
    switch (send_answer(*out)) {
    case link_socket::sent::yes:
      continue;
    case link_socket::sent::full:
      answers_->take_back();
      waits_for_room_ = true;
      return;
    case link_socket::sent::gone:
      // The client says what it lacks when it is back.
      answers_->rewind();
      client_.clear();
      return;
    }
  }
}

/// Sends an answer by one of the client's connections. Long answers alternate
/// between two, if there is room in both, or use the sealed one.
link_socket::sent forwarded_source::send_answer(const outbound_answer& out) {
  vgpu::dispatch frames;
  put_frames(frames, identity_.encode(out.head), out.payload, out.owner);
  auto send_to = [&](const std::string& peer) {
    frames.peer = peer;
    return socket_->send(frames);
  };
  auto sealed = socket_->has_sealed_port();
  if (!second_.empty() &&
      out.payload.size() >= (sealed ? sealed_from : striped_from)) {
    by_second_ = sealed || !by_second_;
    auto done = by_second_ ? send_to(second_) : link_socket::sent::full;
    if (done == link_socket::sent::yes)
      return done;
    if (done == link_socket::sent::gone)
      second_.clear();
  }
  return send_to(client_);
}

} // namespace vgpu
