// A worker to which the client sends the program's calls.
#pragma once

#include "actors/client/answer_delivery.hpp"
#include "actors/client/fence.hpp"
#include "actors/client/opened_session.hpp"
#include "actors/client/session_client_options.hpp"
#include "actors/client/session_lease.hpp"
#include "actors/client/session_restore.hpp"
#include "actors/client/worker_channel.hpp"
#include "actors/link/link_socket.hpp"
#include "actors/link/reorder_buffer.hpp"
#include "policies/lifecycle/attention.hpp"
#include "policies/lifecycle/growing_patience.hpp"

#include <optional>

namespace vgpu {

/// Holds what a forwarded_channel uses. All of it must outlive the channel.
struct forwarding_parts {
  zmq::context_t& zmq;
  const session_client_options& options;
  /// Gives the log, from which the channel reads calls and in which it
  /// publishes how far they were executed.
  opened_session& opened;
  const session_lease& lease;
  /// Gives the bytes of the state that the worker restores.
  session_restore& restore;
  answer_delivery& answers;
  /// Notes each message to the worker.
  worker_fence& fence;
  /// Limits busy-polling for a call that follows at once.
  const busy_poll& polling;
  /// Limits the silence of the session's workers.
  policy::growing_patience& patience;
  worker_listener& listener;
};

/// Sends the calls of the log to the worker in order, and takes the answers in
/// order. It reconnects by itself after a loss. The worker then says from which
/// call on it needs the calls, and the client which answers it has.
///
///           up                attached
///   apart ──────► attaching ──────────► attached
///     ▲             ▲    ▲ attach again   │ │
///     │             │    └────────────────┘ │ a message could not be sent, or
///     │ down        └───────── apart ◄──────┘ the worker refused
///     └─ from each; close() ends it from each
///
/// Long payloads alternate between two connections, because a single thread
/// copies for each connection. Where the worker has keys, they use a sealed
/// connection, as CURVE encrypts the first one slowly.
class forwarded_channel final : public worker_channel {
public:
  /// Returns why a client with these options must not connect to the worker,
  /// because one of them has a key and the other has none.
  static status check_keys(const session_client_options& options,
                           const control::worker_endpoints& worker);

  /// Begins to connect to the worker of the current lease. Throws zmq::error_t.
  explicit forwarded_channel(const forwarding_parts& parts);

  bool is_mapped() const noexcept override { return false; }
  bool ready() const noexcept override { return stage_ == stage::attached; }
  void send(data::body what) override { send_long(std::move(what), {}); }
  void send_with(data::body what, std::span<const int>) override {
    send(std::move(what));
  }
  void close() noexcept override { stage_ = stage::closed; }
  bool add_to(std::vector<pollfd>& items) override;
  bool has_messages(std::vector<pollfd>& items) override;
  void note_ready(const std::vector<pollfd>& items, bool overlooked) override;
  void read() override;
  bool takes_calls() const noexcept override { return ready() && has_room(); }
  status forward() override;
  std::optional<std::uint64_t> sent() const noexcept override { return sent_; }
  bool has_answers(std::uint64_t count) const noexcept override {
    return answers_seen_ >= count;
  }
  void tend() override;
  clock::time_point next_tend() const noexcept override {
    return next_keepalive_;
  }

private:
  enum class stage {
    apart,     // the worker does not know this connection
    attaching, // the client has sent the lease
    attached,  // the worker takes calls
    closed,
  };
  struct answer_in_order {
    data::answer head;
    parcel_ptr in;
  };

  bool is_closed() const noexcept { return stage_ == stage::closed; }
  bool has_room() const noexcept;
  void detached() noexcept;
  void attach();

  // messages out
  void send_long(data::body body, std::span<const std::byte> payload);
  bool send_by(link_socket& way, data::body body,
               std::span<const std::byte> payload = {});
  link_socket& connection_for(std::size_t bytes);
  void send_part(const data::state_wanted& wanted);
  void acknowledge();
  void keep_alive();
  void gather_calls();

  // messages in
  void read_connections();
  void read_messages();
  bool hear(link_socket& from);
  void take(const data::head& head, const parcel_ptr& in);
  void on(const data::attached& x);
  void on(const data::progress& x);
  void on(const data::answer& x, const parcel_ptr& in);
  void on(const data::refused& x);
  void arrived(const data::answer& x, const parcel_ptr& in);

  // the second connection
  void open_second();
  void join_second();
  void lose_second(bool unreachable);
  bool is_offered_second() const noexcept;
  link_options second_connection() const;

  forwarding_parts parts_;
  link_socket first_;
  bool up_ = false; // the first connection stands
  stage stage_ = stage::apart;

  std::uint64_t sent_ = 0;     // calls before it were sent
  std::uint64_t executed_ = 0; // earlier calls are not needed any more
  std::uint64_t answers_seen_ = 0;
  std::uint64_t acknowledged_ = 0; // answers, as the worker knows
  std::uint64_t unacknowledged_bytes_ = 0;
  reorder_buffer<answer_in_order> early_answers_;

  /// Holds the time in which this client could hear its worker. A step is
  /// longer than the time between keepalives, each of which follows a reading.
  policy::attention attended_;
  clock::time_point heard_;
  bool spoke_ = false; // a message of the worker has arrived
  clock::time_point next_keepalive_{};

  std::optional<link_socket> second_;
  std::uint16_t second_port_ = 0; // 0: the worker takes no second connection
  seal_offer offer_;              // what a sealed one needs; used once
  bool sealed_ = false;           // the second one is, or was the last time
  bool second_taken_ = false;     // the worker has joined it to the session
  bool second_fails_ = false;     // its port has no listener
  bool by_second_ = false;        // the last long payload used it
  /// Counts the bytes of payloads on both connections since it was lost.
  std::uint64_t long_bytes_ = 0;

  // Hold the result of the last wait. The items of the first connection come
  // before those of the second.
  std::size_t first_item_ = 0;
  bool messages_ready_ = false;
  bool connections_ready_ = false;
};

} // namespace vgpu
