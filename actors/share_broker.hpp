// Where a session's worker lends what other sessions may have too, and where it
// borrows what others lend.
//
//   program A ── handle of 64 bytes, by whatever way ──► program B
//      │ memory_share                                       │ memory_import
//      ▼                                                    ▼
//   worker of A: broker ◄── secret, kind, number, serial ── worker of B
//                       ─── words, file descriptors ──────►
//
// Both workers are processes of one host. What is said at the socket is hostile
// until it has shown the secret, and what comes back is checked by the device.
#pragma once

#include "actors/doorbell.hpp"
#include "actors/unix_socket.hpp"
#include "devices/sharing_unit.hpp"
#include "schema/sharing.hpp"

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace vgpu {

enum class share_kind : std::uint64_t {
  memory = 1, // an allocation, by its address
  event = 2,
  placed = 3, // memory that the program places by itself, by its id
};

/// A thing that is lent, in its session.
struct share_key {
  share_kind kind{};
  std::uint64_t number = 0;
  auto operator<=>(const share_key&) const = default;
};

/// Answers who asks at a socket with an abstract name, on a thread of its own:
/// two workers that borrow from each other at the same time wait for each
/// other's brokers, and these wait for nobody. Thread-safe. With it, all that
/// was lent and is not borrowed yet is gone.
class share_broker {
public:
  /// How many connections are listened to at once, and for how long one may
  /// say nothing.
  static constexpr std::size_t most_callers = 64;
  static constexpr std::chrono::milliseconds patience{1'000};
  /// So much can be lent at a time.
  static constexpr std::size_t most_lent = 16'384;

  /// Listens under the name of this secret. A fault where somebody else does.
  static result<std::unique_ptr<share_broker>> open(const share_secret& secret);
  ~share_broker();
  share_broker(const share_broker&) = delete;
  share_broker& operator=(const share_broker&) = delete;

  const share_secret& secret() const noexcept { return secret_; }

  /// Lends it until it is withdrawn. CUDA_ERROR_OUT_OF_MEMORY where too much
  /// is lent already.
  status lend(const share_key& what, std::uint64_t serial,
              device::shared_object object);
  /// No effect where nothing is lent under that name.
  void withdraw(const share_key& what);

private:
  struct lent {
    std::uint64_t serial = 0;
    device::shared_object object;
  };
  struct caller {
    unique_fd socket;
    std::chrono::steady_clock::time_point until;
  };

  share_broker(const share_secret& secret, unique_fd listener);
  void run();
  /// False where one who called cannot be let in now.
  bool accept();
  /// Whether the caller has been served, or will not be.
  bool serve(const caller& x);
  void answer(int socket, std::span<const std::uint64_t> question);

  const share_secret secret_;
  unique_fd listener_;
  doorbell stop_; // ends the thread
  std::mutex mutex_;
  std::map<share_key, lent> lent_;
  std::vector<caller> callers_; // the thread's
  std::thread thread_;          // last: it uses the rest
};

/// Borrows what another worker of this host lends. Waits for its broker, for
/// five seconds at most. CUDA_ERROR_INVALID_VALUE where nobody lends
/// such a thing (any more).
result<device::shared_object> borrow(share_kind kind, const share_name& what);

/// The socket's name, without the leading NUL.
std::string share_socket_name(const share_secret& secret);

} // namespace vgpu
