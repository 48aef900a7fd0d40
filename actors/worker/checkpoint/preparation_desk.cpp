#include "actors/worker/checkpoint/preparation_desk.hpp"

#include "actors/link/log.hpp"

#include <poll.h>

#include <cerrno>
#include <cstddef>
#include <exception>
#include <utility>
#include <variant>

namespace vgpu {

preparation_desk::preparation_desk(int listener, session_id session,
                                   std::uint64_t token, executor& exec)
    : listener_(listener), session_(session), token_(token), exec_(exec),
      thread_([this] { serve(); }) {}

void preparation_desk::end() {
  if (!thread_.joinable())
    return;
  stops_ = true;
  stop_.ring();
  thread_.join();
  guests_.clear();
}

/// Serves until the objects of one session exist, or until end().
void preparation_desk::serve() {
  for (;;) {
    std::vector<pollfd> items{{stop_.fd(), POLLIN, 0}, {listener_, POLLIN, 0}};
    for (auto& x : guests_)
      items.push_back({x.get(), POLLIN, 0});
    if (::poll(items.data(), items.size(), -1) < 0 && errno != EINTR)
      return;
    if (stops_)
      return;
    for (auto& x : guests_)
      if (read(x))
        return;
    std::erase_if(guests_, [](auto& x) { return !x; });
    accept_all();
  }
}

void preparation_desk::accept_all() {
  constexpr std::size_t most_guests = 8;
  while (auto socket = accept_own(listener_)) {
    if (guests_.size() == most_guests)
      guests_.erase(guests_.begin());
    guests_.push_back(std::move(socket));
  }
}

/// Reads a guest's first message, and closes the connection after it, unless it
/// was from the session's worker. Returns whether it was.
bool preparation_desk::read(unique_fd& guest) {
  auto in = receive_packet(guest.get());
  if (in && !*in)
    return false;
  auto done = in && !(*in)->closed && take(**in, guest.get());
  auto socket = std::exchange(guest, unique_fd{});
  if (done)
    present_ = std::move(socket);
  return done;
}

lent_parcel preparation_desk::take_lent() {
  lent_parcel out;
  // It was sent before the orders for this worker were given.
  while (present_) {
    auto in = receive_packet(present_.get());
    if (!in || !*in || (*in)->closed)
      break;
    auto head = data::decode((*in)->words);
    auto* x = head ? std::get_if<data::lent>(&head->body) : nullptr;
    if (x != nullptr && (*in)->descriptors.size() == 1)
      out = {x->position, std::move((*in)->descriptors[0])};
  }
  return out;
}

bool preparation_desk::take(packet& in, int guest) {
  auto head = data::decode(in.words);
  auto* x = head ? std::get_if<data::prepare>(&head->body) : nullptr;
  if (x == nullptr || head->session != session_ || x->token != token_ ||
      in.descriptors.empty() || in.descriptors.size() > 2) {
    spdlog::warn("session {}: a message to a prepared worker was refused",
                 session_.value);
    return false;
  }
  if (in.descriptors.size() > 1)
    contents_ = std::move(in.descriptors[1]);
  auto outcome = prepare(in.descriptors[0].get());
  (void)send_packet(guest,
                    data::encode({session_, epoch{}, std::move(outcome)}), {});
  return true;
}

/// Returns the answer.
data::body preparation_desk::prepare(int file) {
  executor::preparation done;
  try {
    done = exec_.prepare(file, stops_);
  } catch (const std::exception& why) { // there is too little memory
    done.made = fault{fault_kind::exhausted, why.what()};
  }
  if (!done.like) {
    auto& why = done.like.why().what;
    spdlog::warn("session {}: it cannot continue here: {}", session_.value,
                 why);
    return data::unlike{why};
  }
  if (!done.made) {
    auto& why = done.made.why().what;
    spdlog::info("session {}: not all of its objects are made ahead: {}",
                 session_.value, why);
    return data::prepared{why};
  }
  spdlog::info("session {}: its objects exist, while its present worker "
               "executes calls",
               session_.value);
  return data::prepared{};
}

} // namespace vgpu
