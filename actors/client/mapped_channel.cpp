#include "actors/client/mapped_channel.hpp"

#include "actors/lend/program_files.hpp"
#include "actors/link/unix_socket.hpp"

#include <sys/socket.h>

#include <utility>
#include <variant>

namespace vgpu {

std::unique_ptr<mapped_channel>
mapped_channel::open(const opened_session& opened, const session_lease& lease,
                     data::attach hello, const held_state* state,
                     worker_listener& listener) {
  auto socket = connect_abstract(lease.current().worker.guest_socket);
  if (!socket)
    return nullptr;
  auto memory = opened.area->descriptors();
  std::vector<int> descriptors{memory.begin(), memory.end()};
  descriptors.push_back(opened.doorbell.get());
  if (state)
    descriptors.push_back(state->file.get());
  if (state && state->offered)
    descriptors.push_back(state->offered.get());
  int ends[2] = {-1, -1};
  hello.opens_files =
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   ends) == 0;
  unique_fd files{ends[0]};
  unique_fd asks{ends[1]};
  if (hello.opens_files)
    descriptors.push_back(asks.get());
  // A snapshot's file remains the newest snapshot until there is another.
  hello.adopt = state && !state->snapshot;
  auto sent = send_packet(
      socket->get(),
      data::encode({lease.session(), lease.epoch(), std::move(hello)}),
      descriptors);
  if (!sent)
    return nullptr;
  return std::unique_ptr<mapped_channel>{new mapped_channel{
      std::move(*socket), std::move(files), opened, lease, listener}};
}

void mapped_channel::send_with(data::body what,
                               std::span<const int> descriptors) {
  if (socket_)
    (void)send_packet(
        socket_.get(),
        data::encode({lease_.session(), lease_.epoch(), std::move(what)}),
        descriptors);
}

bool mapped_channel::add_to(std::vector<pollfd>& items) {
  item_ = items.size();
  // poll() ignores the descriptor of a closed socket, which is -1.
  items.push_back({socket_.get(), POLLIN, 0});
  items.push_back({files_.get(), POLLIN, 0});
  return false;
}

void mapped_channel::note_ready(const std::vector<pollfd>& items, bool) {
  readable_ = items[item_].revents != 0;
  asked_ = items[item_ + 1].revents != 0;
}

/// Opens files of the program for the worker, which may not look into other
/// processes.
void mapped_channel::open_files() {
  if (!answer_program_file(files_.get(), opened_.area->control_fd(),
                           peer_of(socket_.get())))
    files_ = unique_fd{};
}

void mapped_channel::read() {
  if (std::exchange(asked_, false) && socket_)
    open_files();
  if (!std::exchange(readable_, false))
    return;
  while (socket_) {
    auto in = receive_packet(socket_.get());
    if (in && !*in)
      return;
    if (!in || (*in)->closed) {
      close();
      return listener_.suspect("its worker is gone");
    }
    take(std::move(**in));
  }
}

void mapped_channel::take(packet in) {
  auto head = data::decode(in.words);
  if (!head || head->epoch != lease_.epoch())
    return;
  if (auto* why = std::get_if<data::refused>(&head->body)) {
    close();
    listener_.suspect("its worker refused: " + why->why);
  } else if (auto* x = std::get_if<data::progress>(&head->body)) {
    listener_.on_progress(*x);
  } else if (std::holds_alternative<data::attached>(head->body)) {
    listener_.on_attached({});
  } else {
    listener_.on_message(*head, {.files = std::move(in.descriptors)});
  }
}

bool mapped_channel::restored_unheard() {
  while (socket_) {
    auto in = receive_packet(socket_.get());
    if (!in || !*in || (*in)->closed)
      return false;
    auto head = data::decode((*in)->words);
    if (head && std::holds_alternative<data::attached>(head->body))
      return true;
  }
  return false;
}

} // namespace vgpu
