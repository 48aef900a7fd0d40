// Answers ZeroMQ's question whether a peer's key may connect (ZAP, RFC 27).
#pragma once

#include "actors/link/doorbell.hpp"
#include "actors/link/log_limit.hpp"
#include "actors/link/permitted_keys.hpp"

#include <zmq.hpp>

#include <memory>
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
  /// Throws zmq::error_t where the context has one already.
  key_guard(zmq::context_t& zmq, std::shared_ptr<permitted_keys> permitted);
  key_guard(const key_guard&) = delete;
  key_guard& operator=(const key_guard&) = delete;
  ~key_guard();

private:
  void serve();
  void answer();
  bool knows(const std::string& address, const zmq::message_t& key,
             std::string& user);

  std::shared_ptr<permitted_keys> permitted_;
  zmq::socket_t asked_;
  doorbell stop_;
  log_limit refused_;
  std::jthread thread_;
};

} // namespace vgpu
