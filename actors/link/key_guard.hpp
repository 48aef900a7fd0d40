// Answers ZeroMQ's question whether a peer's key may connect (ZAP, RFC 27), and
// keeps the keys of a worker's port.
#pragma once

#include "actors/link/curve_keys.hpp"
#include "actors/link/doorbell.hpp"
#include "actors/link/log_limit.hpp"
#include "actors/link/permitted_keys.hpp"
#include "actors/link/seal/sealed_port.hpp"
#include "schema/base/fault.hpp"

#include <zmq.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace vgpu {

/// A key_guard refuses who has no permitted key, before any byte of such a peer
/// reaches a link. A context whose links bind with keys has one, which must
/// outlive these links: ZeroMQ refuses everybody where there is none.
///
/// It has a thread of its own, which does nothing but look keys up, so that a
/// peer's handshake waits for no other work.
class key_guard {
public:
  /// Throws zmq::error_t where the context has one already. `tickets` says
  /// which ticket opens a sealed port. Null: there is none.
  key_guard(zmq::context_t& zmq, std::shared_ptr<permitted_keys> permitted,
            std::shared_ptr<sealed_tickets> tickets = nullptr);
  key_guard(const key_guard&) = delete;
  key_guard& operator=(const key_guard&) = delete;
  ~key_guard();

private:
  void serve();
  void answer();
  bool knows(const std::string& address, const zmq::message_t& key,
             std::string& user);
  bool holds_ticket(std::string_view shown, std::string& user);

  std::shared_ptr<permitted_keys> permitted_;
  std::shared_ptr<sealed_tickets> tickets_; // may be null
  zmq::socket_t asked_;
  doorbell stop_;
  log_limit refused_;
  std::jthread thread_;
};

/// Holds the keys of a worker's TCP port. It has a key of the port's own, whose
/// secret half never leaves the process, and admits one client. It must outlive
/// the port's socket, and its ZeroMQ context must outlive it.
class port_keys {
public:
  /// Makes a key that nobody had before. Nobody is admitted yet. Fails where
  /// this ZeroMQ has no CURVE.
  static result<std::unique_ptr<port_keys>> make(zmq::context_t& zmq);

  /// Returns the public half of the port's key.
  const std::string& open() const noexcept { return own_.open; }

  /// Returns the keys for the port's socket.
  std::shared_ptr<const link_keys> link() const;

  /// Admits who has this key or `former`, which the same client had before, and
  /// nobody else any more. What is no key admits nobody. Thread-safe.
  void admit(const std::string& client_key, const std::string& former = {});

private:
  port_keys(zmq::context_t& zmq, key_pair own);

  key_pair own_;
  std::shared_ptr<permitted_keys> permitted_ =
      std::make_shared<permitted_keys>();
  std::shared_ptr<sealed_tickets> tickets_ = std::make_shared<sealed_tickets>();
  key_guard guard_;
};

/// Returns the keys for a connection to the port at `endpoint`, whose key is
/// `port_key`.
std::shared_ptr<const link_keys> keys_to_port(const key_pair& own,
                                              const std::string& endpoint,
                                              const std::string& port_key);

} // namespace vgpu
