// Has the session's next worker make objects while this one executes calls.
//
// The prepared worker may also read the file in which this one keeps a copy of
// the session's memory up to date, so that the state with which the session
// leaves need not travel by way of a client elsewhere.
//
// Loading modules takes longer than most other parts of a migration. The
// prepared worker does it before the session stands still: it gets a file that
// describes the objects, without contents, and answers when they exist, or that
// variables lie elsewhere there. Objects that it could not make are made when
// it restores the state.
#pragma once

#include "actors/lend/switchboard.hpp"
#include "actors/worker/checkpoint/helper.hpp"
#include "schema/base/ids.hpp"
#include "schema/wire/next_worker.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace vgpu {

/// Is the way to a prepared worker. The outcome tells whether the session's
/// objects exist there.
class prepared_next : public helper {
public:
  /// Passes on a parcel of the memory that the state at this position lends.
  /// Precondition: the outcome was good.
  virtual status lend(std::uint64_t position, int parcel) = 0;
};

/// Names the files that a prepared worker gets. They must outlive the helper.
struct preparation_files {
  int objects = -1;  // what the worker makes
  int contents = -1; // the kept copy of the session's memory, if there is one
};

/// Passes files on to the prepared worker of a session. The helper calls
/// `ring`, on any thread, when there is an outcome.
using begin_preparation = std::function<result<std::unique_ptr<prepared_next>>(
    const next_worker& to, session_id session, preparation_files files,
    std::function<void()> ring)>;

/// Does so over the prepared worker's socket, on the same host, to which
/// `connect` connects. After `within` without an answer the outcome is a fault.
/// One of kind `unsupported` says that the session cannot continue in that
/// worker.
result<std::unique_ptr<prepared_next>>
prepare_next_worker(const next_worker& to, session_id session,
                    preparation_files files, const worker_connector& connect,
                    std::function<void()> ring,
                    std::chrono::milliseconds within = std::chrono::minutes{2});

} // namespace vgpu
