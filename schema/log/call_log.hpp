// The call log: a session's calls in shared memory, in order. Transport queue,
// order of calls and journal in one (schema/README.md has the page).
//
// A record is a record_header, one Cap'n Proto message (wire::Call), and
// perhaps a payload of raw bytes; its place in bytes since the log's beginning
// is the call's number. Writers reserve with one fetch_add and commit by
// storing the record's size, so copying is done by many at once and the order
// is that of the reservations. Memory beyond the tail is zero: a size of zero
// means "not committed yet".
#pragma once

#include "schema/log/session_area.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace vgpu {

struct record_header {
  std::atomic<std::uint32_t> size; // bytes, the whole record; written last
  std::uint16_t message_words;     // 8-byte words of the message
  slot_index slot;                 // 0: nobody waits
  std::uint32_t payload_bytes;
  /// Of the bytes that the call brought the program, once they arrived (0: not
  /// yet, or none): what a replay must bring again.
  std::atomic<std::uint32_t> digest;
};
static_assert(sizeof(record_header) == 16);

/// No payload is larger: bulk data is cut into records of this size.
inline constexpr std::uint32_t max_payload = std::uint32_t{4} << 20;
/// No message is larger (a parameter block is at most 32 KiB).
inline constexpr std::uint32_t max_message_words = 8192;
inline constexpr std::uint64_t max_record =
    sizeof(record_header) + 8ull * max_message_words + max_payload;

/// Memory of the log is given back in multiples of this size,
inline constexpr std::uint64_t segment_bytes = std::uint64_t{1} << 20;
/// and taken in pieces of this size: one page fault for many pages.
inline constexpr std::uint64_t populate_bytes = std::uint64_t{64} << 10;
/// A payload from here on is handed to the kernel, which puts it into pages
/// that it need not clear before.
inline constexpr std::uint64_t written_from = std::uint64_t{256} << 10;
static_assert(segment_bytes % populate_bytes == 0);
static_assert(log_stripe(minimum_log) % segment_bytes == 0);

static_assert(max_record + populate_bytes <= mirror_bytes);

constexpr std::uint64_t record_bytes(std::uint64_t message_words,
                                     std::uint64_t payload_bytes) noexcept {
  return sizeof(record_header) + 8 * message_words +
         (payload_bytes + 7) / 8 * 8;
}

/// A reserved place in the log: fill message() and payload(), then commit.
class reservation {
public:
  /// Zeroed.
  std::span<std::uint64_t> message() const noexcept;
  std::span<std::byte> payload() const noexcept;
  call_number call() const noexcept { return {position_}; }

private:
  friend class log_writer;
  record_header* at_ = nullptr;
  std::uint64_t position_ = 0;
  std::uint32_t message_words_ = 0;
  std::uint32_t payload_bytes_ = 0;
};

/// Calls `job(part)` for each part from 0 to `parts`, in any order and perhaps
/// on several threads at once, and returns when all are done.
using run_parts = std::function<void(
    std::size_t parts, const std::function<void(std::size_t)>& job)>;

/// The program's end of a log. Thread-safe: any number of threads append.
class log_writer {
public:
  /// `area` and `doorbell` (an eventfd) must outlive it. `fills` is called by
  /// a thread whose call finds that no snapshot covers the last
  /// `snapshot_after` bytes, or half of the journal: once for each snapshot,
  /// and every 100 ms while a thread waits for room. Whoever reads the log
  /// should take one, or lower the protection. `spread`: how memory of the log
  /// is given back, a part for each of its files; without, one after another.
  log_writer(session_area& area, int doorbell,
             std::function<void(std::uint64_t bytes)> fills,
             run_parts spread = {});

  /// Takes the next place. Blocks only while the log is full: of calls that
  /// were not executed yet (protection none), or that no snapshot covers yet;
  /// `stalled` is then called every 100 ms and may throw to give up the
  /// session. Preconditions: message_words <= max_message_words,
  /// payload_bytes <= max_payload.
  reservation reserve(std::uint32_t message_words, std::uint32_t payload_bytes,
                      const std::function<void()>& stalled);

  /// As reserve(), for a payload that write() puts there.
  reservation reserve_written(std::uint32_t message_words,
                              std::uint32_t payload_bytes,
                              const std::function<void()>& stalled);
  /// As reserve_written(), for `count` records of one shape in a row, which
  /// several threads may write and commit: what is in the log does not depend
  /// on it. Precondition: 0 < count <= longest_run() for that shape.
  std::vector<reservation> reserve_run(std::uint32_t message_words,
                                       std::uint32_t payload_bytes,
                                       std::size_t count,
                                       const std::function<void()>& stalled);
  std::size_t longest_run(std::uint32_t message_words,
                          std::uint32_t payload_bytes) const noexcept;
  /// In which of the log's files most of the payload lies: threads that write
  /// to different ones do not wait for each other.
  std::size_t file_of(const reservation& place) const noexcept;
  /// The payload, whole.
  void write(const reservation& place,
             std::span<const std::byte> payload) noexcept;

  /// Publishes the record, and wakes the reader if it sleeps. A slot, where
  /// there is one, is set to wait for this call first.
  void commit(const reservation& place, slot_index slot) noexcept;

  /// Makes ready the pages of the next `bytes`, or fewer, and gives back what
  /// is not needed any more, so that who writes there next need not: for one
  /// thread that has nothing else to do, while nobody writes much.
  void prepare(std::uint64_t bytes);

  /// Where the next record would go: equal to an earlier value of it means
  /// that nothing was appended since.
  std::uint64_t tail() const noexcept;

  /// Rings the reader's doorbell, needed or not (a new reader may sleep).
  void ring() noexcept;

private:
  std::uint64_t take(std::uint64_t bytes, const std::function<void()>& stalled);
  reservation place_at(std::uint64_t position, std::uint32_t message_words,
                       std::uint32_t payload_bytes) const noexcept;
  void populate_head(const reservation& place) noexcept;
  void make_room(std::uint64_t end, std::uint64_t bytes,
                 const std::function<void()>& stalled);
  void populate(std::uint64_t position, std::uint64_t end) noexcept;
  void trim(std::uint64_t most);
  void punch(std::uint64_t begin, std::uint64_t end) noexcept;
  bool protects() const noexcept;
  void tell_filling(std::uint64_t end, bool again);

  session_area& area_;
  int doorbell_;
  std::function<void(std::uint64_t)> fills_;
  run_parts spread_;
  std::uint64_t told_at_ = ~std::uint64_t{0}; // `covered`, when told last
  std::mutex trimming_;
  std::atomic<std::uint64_t> prepared_{0}; // from the tail to here pages are
};

/// A record as a reader sees it. `message` is the reader's own copy; the
/// payload lies in the log still.
struct record {
  call_number call;
  std::uint64_t end = 0; // where the next record begins
  slot_index slot = 0;
  std::uint32_t digest = 0; // of an answer that the program has had
  std::span<const std::uint64_t> message;
  std::span<const std::byte> payload;
};

/// Parses the record at `bytes`, which is log memory from `position` on (or a
/// range of it that was forwarded). Nothing where the record is not committed
/// yet. A fault where it is damaged. The message is copied into `scratch`
/// before it is looked at, so that its writer cannot change it afterwards.
result<std::optional<record>> parse_record(std::span<const std::byte> bytes,
                                           std::uint64_t position,
                                           std::vector<std::uint64_t>& scratch);

/// The reading end of a log: one thread.
class log_reader {
public:
  /// Reads from `from` on. The area and the doorbell must outlive it.
  log_reader(const session_area& area, int doorbell, std::uint64_t from);

  /// The next record, or nothing when there is none yet. The record is valid
  /// until the next call. A fault means that the program damaged its log.
  result<std::optional<record>> next();

  /// The committed bytes from position() on, at most `limit` but at least one
  /// record, as they lie in the log; empty when there are none. Moves on.
  result<std::span<const std::byte>> next_range(std::uint64_t limit);

  /// Whether next() would find a record (or a damaged one).
  bool ready() const noexcept;

  /// Whether next_range(`limit`) could bring more a moment later: there is
  /// less than that, and the program waits for none of it.
  bool may_grow(std::uint64_t limit) const noexcept;

  std::uint64_t position() const noexcept { return position_; }
  void rewind(std::uint64_t to) noexcept { position_ = to; }

  /// Announces that this thread will sleep on the doorbell; false where a
  /// record came in between. After waking: awake(), with whether the doorbell
  /// was found ringing.
  bool fall_asleep() noexcept;
  void awake(bool rung = true) noexcept;

private:
  const session_area& area_;
  int doorbell_;
  std::uint64_t position_;
  std::vector<std::uint64_t> scratch_;
};

} // namespace vgpu
