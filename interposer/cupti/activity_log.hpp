// Gathers a traced program's activities: the calls that it makes, and the work
// that they append with the times that the worker tells.
#pragma once

#include "interposer/cupti/activity.hpp"
#include "interposer/cupti/clock_difference.hpp"
#include "interposer/cupti/text_store.hpp"
#include "interposer/session/tracer.hpp"
#include "schema/log/work_times.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace vgpu::interposer {

/// Names who wants activities. Each reader gets all of them.
enum class activity_reader : std::uint8_t { file, tool };
inline constexpr std::size_t activity_readers = 2;

/// Is called as the program's calls begin and end, on their threads.
class call_listener {
public:
  virtual void begins(activity& x) noexcept = 0;
  virtual void ends(const activity& x) noexcept = 0;

protected:
  ~call_listener() = default;
};

/// Gathers activities while a reader wants them. A call of the log is one
/// piece of work; those of one long copy become one activity. Times that come
/// twice, because a worker was lost and its successor replayed the work, count
/// once. Thread-safe.
class activity_log final : public tracer {
public:
  /// Keeps at most this many activities for each reader, and as many without
  /// times. Further ones are dropped and counted.
  static constexpr std::size_t most_kept = std::size_t{1} << 20;

  /// Begins gathering for this reader. Precondition: the session is in use.
  void begin(activity_reader who);
  /// Ends it. What is gathered and not taken is dropped.
  void end(activity_reader who);
  bool wants(activity_reader who) const noexcept;

  /// Returns the activities that are done, in the order in which they ended.
  /// Waits a moment for times that are on their way.
  std::vector<activity> take(activity_reader who);
  /// Returns how many activities were dropped since the last call.
  std::uint64_t take_dropped(activity_reader who);
  /// Returns how many activities wait to be taken, without times included.
  std::size_t size(activity_reader who) const;

  /// Sets a reader's listener, or none. It is called even while the reader
  /// wants no activities, and lives as long as the process.
  void listen(activity_reader who, call_listener* to);

  // -- tracer -----------------------------------------------------------------

  void enters(std::string_view body) noexcept override;
  void leaves(CUresult result) noexcept override;
  void copies_from(device_address source) noexcept override;
  void launched(const call::launch& x, const function& what,
                std::uint8_t device, call_number number) noexcept override;
  void appended(const call::write& x, std::uint8_t device,
                call_number number) noexcept override;
  void appended(const call::late_write& x, std::uint8_t device,
                call_number number) noexcept override;
  void appended(const call::read& x, std::uint8_t device,
                call_number number) noexcept override;
  void appended(const call::read_host& x, std::uint8_t device,
                call_number number) noexcept override;
  void appended(const call::copy& x, std::uint8_t device,
                call_number number) noexcept override;
  void appended(const call::fill& x, std::uint8_t device,
                call_number number) noexcept override;
  void appended(const call::stream_sync& x, std::uint8_t device,
                call_number number) noexcept override;
  void appended(const call::stream_wait& x, std::uint8_t device,
                call_number number) noexcept override;
  void answered(call_number number) noexcept override;

private:
  /// Holds an activity whose times have not all come.
  struct pending {
    activity what;
    /// Counts the calls whose times have not come, and the copy that appends
    /// parts.
    unsigned parts = 1;
    bool has_times = false;
  };
  using pending_ptr = std::shared_ptr<pending>;

  struct thread_call;
  static thread_call& own() noexcept;

  bool wants_any() const noexcept;
  void switch_work(bool on);
  void switch_tracer();
  activity made(activity_kind kind, std::uint8_t device,
                std::uint32_t stream) const;
  void add_write(const call::extent& size, stream_id stream,
                 std::uint8_t device, call_number number) noexcept;
  void add_read(const call::extent& size, stream_id stream, memory_place to,
                std::uint8_t device, call_number number) noexcept;
  void add_copy(const activity& what, call_number number) noexcept;
  void add(const activity& what, call_number number) noexcept;
  void add_locked(const pending_ptr& what, call_number number);
  void less(pending& x);
  void give(const activity& x);
  void collect();
  void settle(const work_times& x);
  void drop();

  mutable std::mutex mutex_;
  text_store texts_;
  std::array<bool, activity_readers> wanted_{};
  std::array<std::deque<activity>, activity_readers> done_;
  std::array<std::uint64_t, activity_readers> dropped_{};
  std::unordered_map<std::uint64_t, pending_ptr> pending_;
  /// Holds the numbers of calls without times whose end the program knows.
  std::unordered_set<std::uint64_t> awaited_;
  /// Holds times whose call another thread is about to note, and those that
  /// came twice.
  std::unordered_map<std::uint64_t, work_times> early_;
  clock_difference clock_;
  std::array<std::atomic<call_listener*>, activity_readers> listeners_{};
  std::atomic<std::uint32_t> last_correlation_{0};
  std::mutex switching_; // held longer than mutex_, and taken before it
};

} // namespace vgpu::interposer
