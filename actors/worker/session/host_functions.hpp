// Host functions of a program, and waits for values: where a stream stops until
// the program says that it may go on.
#pragma once

#include "schema/base/ids.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace vgpu {

/// Host functions whose turn has come or that have returned, by call number. A
/// function that a replay finds returned does not stop its stream: the program
/// ran it in an earlier life of the worker. Thread-safe.
class host_calls {
public:
  /// Notes that a stream has come to this call. `go_on` lets the stream go on,
  /// and is called when the function has returned.
  void begin(call_number call, std::function<void()> go_on);
  /// Notes that the log has come to where the call's function returned.
  void finish(std::uint64_t call);
  /// Notes that the function's return is found further on in the log.
  void finish_early(std::uint64_t call);

private:
  void end(std::uint64_t call);

  std::mutex lock_;
  std::map<std::uint64_t, std::function<void()>> going_;
  std::set<std::uint64_t> done_;
  /// The calls of done_ and of those let go whose end finish() has yet to see.
  std::set<std::uint64_t> early_;
};

/// The host functions of a session. The executor's thread uses it, and shares
/// `calls` with the devices' completions.
struct host_functions {
  std::shared_ptr<host_calls> calls = std::make_shared<host_calls>();
  /// How many were called in the log and have not returned there.
  std::uint64_t open = 0;
  /// The numbers of those that are waits for values.
  std::set<std::uint64_t> open_waits;
  /// An event behind which a stream stood before each function that has not
  /// begun, by the function's call number.
  std::map<std::uint64_t, event_id> stood_at;
};

} // namespace vgpu
