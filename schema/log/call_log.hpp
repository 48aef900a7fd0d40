// The call log: a session's calls in shared memory, in order. It is the
// transport queue, the order of calls and the journal in one
// (docs/design/call-log.md).
//
// A record is a record_header, one Cap'n Proto message (wire::Call), and
// optionally a payload of raw bytes. Its position in bytes from the log's
// beginning is the call's number. Writers reserve with one fetch_add and commit
// by storing the record's size, so many threads can copy at once, and the
// reservations determine the order. Memory beyond the tail is zero: a size of
// zero means "not committed yet".
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

/// Describes the head of each record.
struct record_header {
  /// Holds the size of the whole record in bytes. It is written last.
  std::atomic<std::uint32_t> size;
  /// Holds the size of the message in words of 8 bytes.
  std::uint16_t message_words;
  /// Holds the slot for the answer. 0: no thread waits.
  slot_index slot;
  std::uint32_t payload_bytes;
  /// Holds the digest of the bytes that the call brought to the program, once
  /// they arrived, so that a replay can compare its own. 0: none, or not yet.
  std::atomic<std::uint32_t> digest;
};
static_assert(sizeof(record_header) == 16);

/// Gives the largest payload in bytes. Bulk data is cut into records of this
/// size.
inline constexpr std::uint32_t max_payload = std::uint32_t{4} << 20;
/// Gives the largest message in words. A parameter block has at most 32 KiB.
inline constexpr std::uint32_t max_message_words = 8192;
inline constexpr std::uint64_t max_record =
    sizeof(record_header) + 8ull * max_message_words + max_payload;

/// A record of a call that reads at most this many bytes has a payload of zeros
/// for them, so that a replay can tell how its own result differs.
inline constexpr std::uint32_t kept_result_bytes = 256;

/// The log gives its memory back to the kernel in multiples of this many bytes.
inline constexpr std::uint64_t segment_bytes = std::uint64_t{1} << 20;
/// The log's memory is populated in pieces of this many bytes, so that many
/// pages cost one page fault.
inline constexpr std::uint64_t populate_bytes = std::uint64_t{64} << 10;
/// A payload of at least this many bytes is written by the kernel, which need
/// not clear the pages first.
inline constexpr std::uint64_t written_from = std::uint64_t{256} << 10;
static_assert(segment_bytes % populate_bytes == 0);
static_assert(log_stripe(minimum_log) % segment_bytes == 0);

static_assert(max_record + populate_bytes <= mirror_bytes);

/// Returns the size of a record in bytes.
constexpr std::uint64_t record_bytes(std::uint64_t message_words,
                                     std::uint64_t payload_bytes) noexcept {
  return sizeof(record_header) + 8 * message_words +
         (payload_bytes + 7) / 8 * 8;
}

/// A reservation is a reserved place in the log. Fill message() and payload(),
/// then commit it.
class reservation {
public:
  /// Returns the room for the message, which is zeroed.
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

/// Calls `job(part)` for each part from 0 to `parts`, in any order and possibly
/// on several threads at once. Returns when all parts are done.
using run_parts = std::function<void(
    std::size_t parts, const std::function<void(std::size_t)>& job)>;

/// A log_writer is the program's end of a log. Thread-safe: any number of
/// threads may append.
class log_writer {
public:
  /// `area` and `doorbell` (an eventfd) must outlive it. It calls `fills` when
  /// no snapshot covers the last `snapshot_after` bytes, or half of the
  /// journal: once for each snapshot, on the thread of the call that finds
  /// this, and every 100 ms while a thread waits for room. The reader of the
  /// log should then take a snapshot or lower the protection. `spread` gives
  /// the log's memory back in parallel, one part for each of its files;
  /// without it, the parts follow each other.
  log_writer(session_area& area, int doorbell,
             std::function<void(std::uint64_t bytes)> fills,
             run_parts spread = {});

  /// Reserves the next place. It blocks only while the log is full of calls
  /// that were not executed yet (protection none) or that no snapshot covers
  /// yet. It then calls `stalled` every 100 ms, which may throw to give up the
  /// session. Preconditions: message_words <= max_message_words, payload_bytes
  /// <= max_payload.
  reservation reserve(std::uint32_t message_words, std::uint32_t payload_bytes,
                      const std::function<void()>& stalled);

  /// Does what reserve() does, for a payload that write() writes.
  reservation reserve_written(std::uint32_t message_words,
                              std::uint32_t payload_bytes,
                              const std::function<void()>& stalled);
  /// Does what reserve_written() does, for `count` consecutive records of one
  /// shape. Several threads may write and commit them; the log's contents do
  /// not depend on that. Precondition: 0 < count <= longest_run() for that
  /// shape.
  std::vector<reservation> reserve_run(std::uint32_t message_words,
                                       std::uint32_t payload_bytes,
                                       std::size_t count,
                                       const std::function<void()>& stalled);
  /// Returns the largest number of records for reserve_run().
  std::size_t longest_run(std::uint32_t message_words,
                          std::uint32_t payload_bytes) const noexcept;
  /// Returns the log's file in which most of the payload lies. Threads that
  /// write to different files do not wait for each other.
  std::size_t file_of(const reservation& place) const noexcept;
  /// Writes the whole payload.
  void write(const reservation& place,
             std::span<const std::byte> payload) noexcept;

  /// Publishes the record, and wakes the reader if it sleeps. If there is a
  /// slot, it is first set to wait for this call.
  void commit(const reservation& place, slot_index slot) noexcept;

  /// Populates the pages of the next `bytes`, or fewer, and gives unneeded
  /// memory back to the kernel, so that the next writers need not. It is meant
  /// for one thread that is otherwise idle, while there is little writing.
  void prepare(std::uint64_t bytes);

  /// Returns the position of the next record. As long as it stays the same,
  /// nothing was appended.
  std::uint64_t tail() const noexcept;

  /// Rings the reader's doorbell in any case, because a new reader may be
  /// asleep.
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
  /// Holds `covered` as of the last call of fills_.
  std::uint64_t reported_at_ = ~std::uint64_t{0};
  std::mutex trimming_;
  /// Holds the end of the populated pages.
  std::atomic<std::uint64_t> prepared_{0};
};

/// Describes a record as a reader sees it. `message` is the reader's own copy,
/// but the payload still lies in the log.
struct record {
  call_number call;
  /// Is the position of the next record.
  std::uint64_t end = 0;
  slot_index slot = 0;
  /// Is the digest of an answer that the program has received, or 0.
  std::uint32_t digest = 0;
  std::span<const std::uint64_t> message;
  std::span<const std::byte> payload;
};

/// Parses the record at `bytes`, which is log memory from `position` on (or a
/// forwarded range of it). Returns nothing where the record is not committed
/// yet, and a fault where it is damaged. It copies the message into `scratch`
/// before it examines it, so that the writer cannot change it afterwards.
result<std::optional<record>> parse_record(std::span<const std::byte> bytes,
                                           std::uint64_t position,
                                           std::vector<std::uint64_t>& scratch);

/// A log_reader is the reading end of a log. Not thread-safe.
class log_reader {
public:
  /// Reads from the position `from` on. The area and the doorbell must outlive
  /// it.
  log_reader(const session_area& area, int doorbell, std::uint64_t from);

  /// Returns the next record, or nothing when there is none yet. The record is
  /// valid until the next call. A fault means that the program damaged its log.
  result<std::optional<record>> next();

  /// Returns the committed bytes from position() on, as they lie in the log,
  /// and moves behind them: at most `limit` bytes but at least one record, or
  /// nothing when there is none.
  result<std::span<const std::byte>> next_range(std::uint64_t limit);

  /// Returns whether next() would find a record (or a damaged one).
  bool ready() const noexcept;

  /// Returns whether next_range(`limit`) could return more a moment later:
  /// fewer bytes are there, and the program waits for none of their calls.
  bool may_grow(std::uint64_t limit) const noexcept;

  /// Returns the position of the next record.
  std::uint64_t position() const noexcept { return position_; }
  void rewind(std::uint64_t to) noexcept { position_ = to; }

  /// Announces that this thread will sleep on the doorbell. Returns false where
  /// a record arrived meanwhile.
  bool fall_asleep() noexcept;
  /// Ends the announcement after the sleep. `rung` says whether the doorbell
  /// was found ringing, and silences it.
  void awake(bool rung = true) noexcept;

private:
  const session_area& area_;
  int doorbell_;
  std::uint64_t position_;
  std::vector<std::uint64_t> scratch_;
};

} // namespace vgpu
