// Makes a session's objects in a prepared worker, before its orders come.
#pragma once

#include "actors/link/data_head.hpp"
#include "actors/link/doorbell.hpp"
#include "actors/link/unix_socket.hpp"
#include "actors/worker/checkpoint/lent_parcel.hpp"
#include "actors/worker/execute/executor.hpp"
#include "schema/base/ids.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace vgpu {

/// Takes, once, the file with which the session's present worker describes the
/// session's objects, and answers when they exist here (next_preparation.hpp).
/// It has no epoch and executes no work. Its thread uses listener and executor
/// from the beginning until end(); nobody else may use them meanwhile.
class preparation_desk {
public:
  /// Accepts a worker that shows `token` at `listener`.
  preparation_desk(int listener, session_id session, std::uint64_t token,
                   executor& exec);
  ~preparation_desk() { end(); }
  preparation_desk(const preparation_desk&) = delete;
  preparation_desk& operator=(const preparation_desk&) = delete;

  /// Ends the thread. An object that is being made is completed.
  void end();
  /// Returns, once, the file in which the session's present worker keeps a copy
  /// of its memory, or no descriptor. Call it after end().
  unique_fd take_contents() noexcept { return std::move(contents_); }
  /// Returns the memory that the session's present worker has lent, if any.
  /// Call it after end().
  lent_parcel take_lent();

private:
  void serve();
  void accept_all();
  bool read(unique_fd& guest);
  bool take(packet& in, int guest);
  data::body prepare(int file);

  int listener_;
  session_id session_;
  std::uint64_t token_;
  executor& exec_;
  std::atomic<bool> stops_{false};
  doorbell stop_;
  std::vector<unique_fd> guests_{}; // have sent nothing yet
  unique_fd present_{};             // the session's present worker
  unique_fd contents_{};
  std::thread thread_;
};

} // namespace vgpu
