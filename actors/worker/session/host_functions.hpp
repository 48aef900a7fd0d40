// A program's host functions and waits for values: a stream stops there until
// the program lets it continue.
#pragma once

#include "schema/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace vgpu {

/// Holds host functions whose turn has come or that have returned, by call
/// number. A function that returned before a replay does not stop its stream
/// again, because the program ran it already. Thread-safe.
class host_calls {
public:
  /// Records that a stream was told to stop at this call.
  void enqueued(call_number call);
  /// Records that a stream has reached this call. `go_on` lets the stream
  /// continue, and is called when the function has returned.
  void begin(call_number call, std::function<void()> go_on);
  /// Records that the log was read up to the return of the call's function.
  void finish(std::uint64_t call);
  /// Records that a later entry of the log has the function's return. The
  /// stream continues if it was told to stop there. A call that a replay has
  /// yet to come to is in nobody's way, and ends in its turn.
  void finish_early(std::uint64_t call);
  /// Ends the calls that finish_early() left, where streams stop at them now.
  void finish_ahead();
  /// Returns the calls that finish_early() left.
  std::vector<std::uint64_t> left_ahead() const;
  /// Records that a call which finish_early() left was ended by other means.
  void note_ended_ahead(std::uint64_t call);
  /// Returns how many calls finish_early() ended that finish() has yet to
  /// reach.
  std::size_t ended_ahead() const;

private:
  void end(std::uint64_t call);

  mutable std::mutex lock_;
  std::map<std::uint64_t, std::function<void()>> going_;
  std::set<std::uint64_t> done_;
  /// Holds the calls that were enqueued and have not returned.
  std::set<std::uint64_t> open_;
  /// Holds the calls that finish_early() left.
  std::set<std::uint64_t> ahead_;
  /// Holds the calls that finish_early() ended and finish() has yet to reach.
  std::set<std::uint64_t> early_;
};

/// Holds the host functions of a session. The executor's thread uses it, and
/// shares `calls` with the devices' completions.
struct host_functions {
  std::shared_ptr<host_calls> calls = std::make_shared<host_calls>();
  /// Counts the functions that were called in the log and have not returned
  /// there.
  std::uint64_t open = 0;
  /// Holds the numbers of the open calls that are waits for values.
  std::set<std::uint64_t> open_waits;
  /// Holds, for each function that has not begun, the event at which a stream
  /// stands before it, by the function's call number.
  std::map<std::uint64_t, event_id> stood_at;
};

} // namespace vgpu
