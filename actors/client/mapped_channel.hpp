// A worker on the program's host, which maps the program's call log.
#pragma once

#include "actors/client/held_state.hpp"
#include "actors/client/opened_session.hpp"
#include "actors/client/session_lease.hpp"
#include "actors/client/worker_channel.hpp"

#include <memory>

namespace vgpu {

/// Hands the session's memory to the worker. From then on the worker reads the
/// calls and answers the program by itself, and this connection carries orders,
/// reports and descriptors.
class mapped_channel final : public worker_channel {
public:
  /// Connects to the worker of the current lease, and hands it the session's
  /// memory and the state to restore. Returns null where the worker does not
  /// listen on this host. All references must outlive the object; `state` may
  /// be null.
  static std::unique_ptr<mapped_channel>
  open(const opened_session& opened, const session_lease& lease,
       data::attach hello, const held_state* state, worker_listener& listener);

  bool is_mapped() const noexcept override { return true; }
  bool ready() const noexcept override { return bool{socket_}; }
  void send(data::body what) override { send_with(std::move(what), {}); }
  void send_with(data::body what, std::span<const int> descriptors) override;
  void close() noexcept override { socket_ = unique_fd{}; }
  bool add_to(std::vector<pollfd>& items) override;
  bool has_messages(std::vector<pollfd>&) override { return false; }
  void note_ready(const std::vector<pollfd>& items, bool overlooked) override;
  void read() override;
  bool restored_unheard() override;

private:
  mapped_channel(unique_fd socket, unique_fd files,
                 const opened_session& opened, const session_lease& lease,
                 worker_listener& listener)
      : socket_(std::move(socket)), files_(std::move(files)), opened_(opened),
        lease_(lease), listener_(listener) {}

  void take(packet in);
  void open_files();

  unique_fd socket_;
  /// Brings the worker's questions for files of the program.
  unique_fd files_;
  const opened_session& opened_;
  const session_lease& lease_;
  worker_listener& listener_;
  std::size_t item_ = 0; // the socket's index in the poll items
  bool readable_ = false;
  bool asked_ = false; // for a file
};

} // namespace vgpu
