#include "actors/worker/serve/preparation_desk.hpp"

#include "actors/link/data_head.hpp"
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

/// Serves until the modules of one session are compiled, or until end().
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

/// Reads a guest's first message, and closes the connection after it. Returns
/// whether it was from the session's worker.
bool preparation_desk::read(unique_fd& guest) {
  auto in = receive_packet(guest.get());
  if (in && !*in)
    return false;
  auto done = in && !(*in)->closed && take(**in, guest.get());
  guest = unique_fd{};
  return done;
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
  auto why = prepare(in.descriptors[0].get());
  if (why.empty())
    spdlog::info("session {}: its modules are compiled, while its present "
                 "worker executes calls",
                 session_.value);
  else
    spdlog::info("session {}: not all of its modules are compiled ahead: {}",
                 session_.value, why);
  (void)send_packet(
      guest, data::encode({session_, epoch{}, data::prepared{std::move(why)}}),
      {});
  return true;
}

/// Returns why not all modules were compiled, or an empty text.
std::string preparation_desk::prepare(int file) {
  try {
    auto ok = exec_.prepare(file, stops_);
    return ok ? "" : ok.why().what;
  } catch (const std::exception& why) { // there is too little memory
    return why.what();
  }
}

} // namespace vgpu
