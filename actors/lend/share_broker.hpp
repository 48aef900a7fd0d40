// How a session's worker lends objects to other sessions and borrows theirs.
//
//   program A ── handle of 64 bytes, by any way ────────► program B
//      │ memory_share                                       │ memory_import
//      ▼                                                    ▼
//   worker of A: broker ◄── secret, kind, number, serial ── worker of B
//                       ─── words, file descriptors ──────►
//                           (one of them: B's entry, share_ledger.hpp)
//
// Both workers are processes of one host. The broker treats a caller as hostile
// until it has shown the secret, and the device checks what is borrowed.
#pragma once

#include "actors/lend/share_ledger.hpp"
#include "actors/lend/switchboard.hpp"
#include "actors/link/doorbell.hpp"
#include "actors/link/unix_socket.hpp"
#include "devices/interface/sharing_unit.hpp"
#include "schema/base/shared_resource.hpp"

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace vgpu {

/// Names the kinds of objects that a session lends.
enum class share_kind : std::uint64_t {
  /// Is an allocation, named by its address.
  memory = 1,
  event = 2,
  /// Is memory that the program places by itself, named by its id.
  placed = 3,
};

/// Describes the key of a lent object within its session.
struct share_key {
  share_kind kind{};
  std::uint64_t number = 0;
  auto operator<=>(const share_key&) const = default;
};

/// Describes the part of its session's quota that a lent object uses.
struct share_cost {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
};

/// Answers workers that call at a socket with an abstract name. It has a thread
/// of its own, which waits for nobody, so two workers may borrow from each
/// other at the same time. Destroying it withdraws everything that is not
/// borrowed yet. Thread-safe.
class share_broker {
public:
  /// Gives the number of connections that it serves at once.
  static constexpr std::size_t most_callers = 64;
  /// Says how long a connection may be silent.
  static constexpr std::chrono::milliseconds patience{1'000};
  /// Gives the number of objects that can be lent at a time.
  static constexpr std::size_t most_lent = 16'384;

  /// Listens under the name of this secret. Fails where another process does.
  static result<std::unique_ptr<share_broker>> open(const share_secret& secret);
  ~share_broker();
  share_broker(const share_broker&) = delete;
  share_broker& operator=(const share_broker&) = delete;

  const share_secret& secret() const noexcept { return secret_; }

  /// Lends the object until withdraw(). Fails as `exhausted`
  /// where most_lent objects are lent already.
  status lend(const share_key& what, std::uint64_t serial,
              device::shared_object object, share_cost cost = {});
  /// Stops lending the object; no effect where it is not lent. It counts
  /// against the quota as long as a session that borrowed it has it.
  void withdraw(const share_key& what);
  /// Returns the bytes on a device that are withdrawn while another session
  /// still has them.
  std::uint64_t left(std::uint32_t device);

private:
  struct lent {
    std::uint64_t serial = 0;
    device::shared_object object;
    share_cost cost;
    std::uint64_t entry = 0;
  };
  struct caller {
    unique_fd socket;
    std::chrono::steady_clock::time_point until;
  };

  share_broker(const share_secret& secret, unique_fd listener,
               share_ledger ledger);
  void run();
  /// Returns false where no caller can be accepted now.
  bool accept();
  /// Returns whether the caller is finished, served or not.
  bool serve(const caller& x);
  void answer(int socket, std::span<const std::uint64_t> question);

  const share_secret secret_;
  unique_fd listener_;
  share_ledger ledger_;
  doorbell stop_;
  std::mutex mutex_;
  std::map<share_key, lent> lent_;
  std::uint64_t last_entry_ = 0;
  /// Holds what is withdrawn while another session still has it.
  std::vector<lent> left_;
  /// Belongs to the thread.
  std::vector<caller> callers_;
  /// Comes last, because the thread uses the other members.
  std::thread thread_;
};

/// Describes an object that another session lends. Keep the stake for as long
/// as anything of the object is in use, because the lender sees from it that
/// the object is borrowed.
struct borrowed_thing {
  device::shared_object object;
  share_stake stake;
};

/// Borrows an object that another worker of this host lends, to whose broker
/// `connect` connects. Waits up to five seconds for the broker. Fails as
/// `usage` where nobody lends the object (any more).
result<borrowed_thing> borrow(share_kind kind, const share_name& what,
                              const worker_connector& connect);

/// Returns the socket's name, without the leading NUL. Every user of the host
/// can read the names of abstract sockets, so this one is a one-way digest of
/// the secret. A caller shows the secret itself in its question.
std::string share_socket_name(const share_secret& secret);

} // namespace vgpu
