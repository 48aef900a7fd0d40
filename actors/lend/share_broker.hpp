// Where a session's worker lends what other sessions may have too, and where it
// borrows what others lend.
//
//   program A ── handle of 64 bytes, by whatever way ──► program B
//      │ memory_share                                       │ memory_import
//      ▼                                                    ▼
//   worker of A: broker ◄── secret, kind, number, serial ── worker of B
//                       ─── words, file descriptors ──────►
//                           (one of them: B has it, share_ledger.hpp)
//
// Both workers are processes of one host. What is said at the socket is hostile
// until it has shown the secret, and what comes back is checked by the device.
#pragma once

#include "actors/lend/share_ledger.hpp"
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

/// What a thing that is lent takes of its session's quota.
struct share_cost {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
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
              device::shared_object object, share_cost cost = {});
  /// No effect where nothing is lent under that name. It costs as long as
  /// somebody has it who borrowed it before.
  void withdraw(const share_key& what);
  /// Bytes of a device that were withdrawn and that somebody has.
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
  /// False where one who called cannot be let in now.
  bool accept();
  /// Whether the caller has been served, or will not be.
  bool serve(const caller& x);
  void answer(int socket, std::span<const std::uint64_t> question);

  const share_secret secret_;
  unique_fd listener_;
  share_ledger ledger_;
  doorbell stop_; // ends the thread
  std::mutex mutex_;
  std::map<share_key, lent> lent_;
  std::uint64_t last_entry_ = 0;
  std::vector<lent> left_;      // withdrawn, and somebody has it
  std::vector<caller> callers_; // the thread's
  std::thread thread_;          // last: it uses the rest
};

/// Something that another session lends. The stake is to be kept for as long as
/// anything of the object is in use: until then it is not given back.
struct borrowed_thing {
  device::shared_object object;
  share_stake stake;
};

/// Borrows what another worker of this host lends. Waits for its broker, for
/// five seconds at most. CUDA_ERROR_INVALID_VALUE where nobody lends
/// such a thing (any more).
result<borrowed_thing> borrow(share_kind kind, const share_name& what);

/// The socket's name, without the leading NUL.
std::string share_socket_name(const share_secret& secret);

} // namespace vgpu
