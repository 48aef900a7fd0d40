#include "schema/log/call_log.hpp"

#include "schema/base/round_up.hpp"
#include "schema/base/streaming_copy.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vgpu {

namespace {

/// Returns the fault for a record whose words contradict each other.
fault damaged(std::uint64_t position, const std::string& what) {
  return {fault_kind::corrupt, "the call log is damaged at " +
                                   std::to_string(position) + ": " + what +
                                   "; the program's session ends"};
}

/// Returns how much to trim after writing so many bytes: more than was written,
/// as long as there is room.
constexpr std::uint64_t trimmed_for(std::uint64_t written) {
  return std::max(2 * segment_bytes, 2 * written);
}

/// From this many bytes on, waking other threads pays. A program that makes
/// only small calls never starts them.
constexpr std::uint64_t spread_from = std::uint64_t{16} << 20;
static_assert(spread_from > trimmed_for(0));

/// Returns a fault where no honest writer could have written this size.
status check_size(std::uint64_t position, std::uint32_t size) {
  if (size < record_bytes(1, 0) || size > max_record || size % 8 != 0)
    return damaged(position, "a record of " + std::to_string(size) + " bytes");
  return {};
}

} // namespace

// -- writing ------------------------------------------------------------------

std::span<std::uint64_t> reservation::message() const noexcept {
  return {reinterpret_cast<std::uint64_t*>(at_ + 1), message_words_};
}

std::span<std::byte> reservation::payload() const noexcept {
  auto* begin = reinterpret_cast<std::byte*>(at_ + 1) + 8ull * message_words_;
  return {begin, payload_bytes_};
}

log_writer::log_writer(session_area& area, int doorbell,
                       std::function<void(std::uint64_t)> fills,
                       run_parts spread)
    : area_(area), doorbell_(doorbell), fills_(std::move(fills)),
      spread_(std::move(spread)) {}

reservation log_writer::reserve(std::uint32_t message_words,
                                std::uint32_t payload_bytes,
                                const std::function<void()>& stalled) {
  auto bytes = record_bytes(message_words, payload_bytes);
  auto begin = take(bytes, stalled);
  auto end = begin + bytes;
  if (begin / populate_bytes != end / populate_bytes) [[unlikely]]
    populate(begin, end);
  return place_at(begin, message_words, payload_bytes);
}

reservation log_writer::reserve_written(std::uint32_t message_words,
                                        std::uint32_t payload_bytes,
                                        const std::function<void()>& stalled) {
  auto place =
      place_at(take(record_bytes(message_words, payload_bytes), stalled),
               message_words, payload_bytes);
  populate_head(place);
  return place;
}

std::vector<reservation>
log_writer::reserve_run(std::uint32_t message_words,
                        std::uint32_t payload_bytes, std::size_t count,
                        const std::function<void()>& stalled) {
  auto bytes = record_bytes(message_words, payload_bytes);
  // The run is reserved at once, because a writer that waits for room must not
  // hold a place that the reader needs.
  auto begin = take(count * bytes, stalled);
  std::vector<reservation> places;
  places.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    places.push_back(place_at(begin + i * bytes, message_words, payload_bytes));
    populate_head(places.back());
  }
  return places;
}

std::size_t
log_writer::longest_run(std::uint32_t message_words,
                        std::uint32_t payload_bytes) const noexcept {
  // A run leaves room in a small log for other writers and for the reader.
  constexpr std::uint64_t most = std::uint64_t{64} << 20;
  return std::min(most, area_.log_capacity() / 4) /
         record_bytes(message_words, payload_bytes);
}

std::size_t log_writer::file_of(const reservation& place) const noexcept {
  return area_.log_at(place.position_ + place.payload_bytes_ / 2).file;
}

void log_writer::write(const reservation& place,
                       std::span<const std::byte> payload) noexcept {
  auto begin = place.position_ + record_bytes(place.message_words_, 0);
  if (begin + payload.size() <= prepared_.load(std::memory_order_acquire))
    return streaming_copy(place.payload().data(), payload.data(),
                          payload.size());
  std::size_t done = 0;
  while (done < payload.size()) {
    auto part = area_.log_at(begin + done);
    auto n = ::pwrite(part.fd, payload.data() + done,
                      std::min(payload.size() - done, part.bytes),
                      static_cast<off_t>(part.offset));
    if (n <= 0)
      break;
    done += static_cast<std::size_t>(n);
  }
  // The rest, which the kernel could not read, is copied here, so that the
  // program gets its own fault or makes the memory readable.
  std::memcpy(place.payload().data() + done, payload.data() + done,
              payload.size() - done);
  auto end = begin + payload.size();
  if (begin / populate_bytes != end / populate_bytes)
    populate(end / populate_bytes * populate_bytes - 1, end);
}

/// Reserves the next `bytes` and returns their position.
std::uint64_t log_writer::take(std::uint64_t bytes,
                               const std::function<void()>& stalled) {
  auto& header = area_.header();
  auto position = header.tail.fetch_add(bytes, std::memory_order_acq_rel);
  auto end = position + bytes;
  if (position / segment_bytes != end / segment_bytes ||
      end - header.trimmed.load(std::memory_order_acquire) >
          area_.log_capacity()) [[unlikely]]
    make_room(end, bytes, stalled);
  return position;
}

reservation log_writer::place_at(std::uint64_t position,
                                 std::uint32_t message_words,
                                 std::uint32_t payload_bytes) const noexcept {
  reservation place;
  auto* at = area_.log_data() + (position & (area_.log_capacity() - 1));
  place.at_ = reinterpret_cast<record_header*>(at);
  place.position_ = position;
  place.message_words_ = message_words;
  place.payload_bytes_ = payload_bytes;
  return place;
}

void log_writer::commit(const reservation& place, slot_index index) noexcept {
  auto& record = *place.at_;
  record.message_words = static_cast<std::uint16_t>(place.message_words_);
  record.slot = index;
  record.payload_bytes = place.payload_bytes_;
  if (index != 0) {
    auto& slot = area_.at(index);
    slot.call.store(place.position_, std::memory_order_relaxed);
    slot.state.store(static_cast<std::uint32_t>(slot_state::waiting),
                     std::memory_order_release);
  }
  auto size = record_bytes(place.message_words_, place.payload_bytes_);
  // This publishes the record. The order is total with fall_asleep(): either
  // the reader sees the record before it sleeps, or this thread sees that the
  // reader sleeps.
  record.size.store(static_cast<std::uint32_t>(size),
                    std::memory_order_seq_cst);
  auto& asleep = area_.header().reader_asleep;
  if (asleep.load(std::memory_order_seq_cst) != 0 && asleep.exchange(0) != 0)
    ring();
}

std::uint64_t log_writer::tail() const noexcept {
  return area_.header().tail.load(std::memory_order_acquire);
}

void log_writer::ring() noexcept {
  std::uint64_t one = 1;
  // The write fails only when the count is at its maximum, and then the
  // doorbell already rings. The call by number is no point at which the
  // program's thread is cancelled.
  [[maybe_unused]] auto n = ::syscall(SYS_write, doorbell_, &one, sizeof(one));
}

void log_writer::make_room(std::uint64_t end, std::uint64_t bytes,
                           const std::function<void()>& stalled) {
  std::lock_guard guard{trimming_};
  auto& header = area_.header();
  auto used = [&] {
    return end - std::min(end, header.trimmed.load(std::memory_order_relaxed));
  };
  trim(trimmed_for(bytes));
  tell_filling(end, false);
  while (used() > area_.log_capacity()) {
    header.room_wanted.store(1, std::memory_order_seq_cst);
    trim(area_.log_capacity());
    if (used() <= area_.log_capacity())
      break;
    ring();
    sleep_while(header.room_wanted, 1, std::chrono::milliseconds{100});
    trim(area_.log_capacity());
    if (used() <= area_.log_capacity())
      break;
    tell_filling(end, true);
    if (stalled)
      stalled();
  }
}

bool log_writer::protects() const noexcept {
  return area_.header().protection_level.load(std::memory_order_acquire) !=
         static_cast<std::uint32_t>(protection::none);
}

/// Calls fills_ once for each snapshot, or again where a thread waits for one.
void log_writer::tell_filling(std::uint64_t end, bool again) {
  auto covered = area_.header().covered.load(std::memory_order_acquire);
  auto uncovered = end - std::min(end, covered);
  auto most =
      std::min(area_.header().snapshot_after.load(), area_.log_capacity() / 2);
  if (!protects() || uncovered <= most || (reported_at_ == covered && !again))
    return;
  reported_at_ = covered;
  fills_(uncovered);
}

void log_writer::populate_head(const reservation& place) noexcept {
  auto payload = place.position_ + record_bytes(place.message_words_, 0);
  if (place.position_ / populate_bytes != payload / populate_bytes)
    populate(place.position_, payload);
}

/// Populates the pieces of the log that [position, end) is the first to enter.
/// A kernel that does not support this adds the pages one by one.
void log_writer::populate(std::uint64_t position, std::uint64_t end) noexcept {
  if (end <= prepared_.load(std::memory_order_relaxed))
    return;
  auto begin = round_up(position, populate_bytes);
  auto bytes = round_up(end, populate_bytes) - begin;
  auto* at = area_.log_data() + (begin & (area_.log_capacity() - 1));
  ::madvise(at, bytes, MADV_POPULATE_WRITE);
}

void log_writer::prepare(std::uint64_t bytes) {
  auto& header = area_.header();
  bytes = std::min(bytes, area_.log_capacity() / 4);
  {
    std::lock_guard guard{trimming_};
    trim(trimmed_for(bytes));
  }
  auto tail = header.tail.load(std::memory_order_relaxed);
  auto room =
      header.trimmed.load(std::memory_order_relaxed) + area_.log_capacity();
  auto end = std::min(tail + bytes, room) / segment_bytes * segment_bytes;
  auto at = std::max(prepared_.load(), round_up(tail, populate_bytes));
  while (at < end) {
    auto next = std::min(end, (at / segment_bytes + 1) * segment_bytes);
    // Where the kernel does not support it or has no memory left, nothing
    // changes.
    if (::madvise(area_.log_data() + (at & (area_.log_capacity() - 1)),
                  next - at, MADV_POPULATE_WRITE) != 0)
      return;
    prepared_.store(at = next, std::memory_order_release);
  }
}

/// Returns at most so many bytes to the kernel, because this happens within a
/// call of the program.
void log_writer::trim(std::uint64_t most) {
  auto& header = area_.header();
  auto begin = header.trimmed.load(std::memory_order_relaxed);
  auto unneeded = protects() ? header.covered.load(std::memory_order_seq_cst)
                             : header.executed.load(std::memory_order_seq_cst);
  auto end = std::min({unneeded, begin + most,
                       header.tail.load(std::memory_order_relaxed)}) /
             segment_bytes * segment_bytes;
  if (end <= begin)
    return;
  punch(begin, end);
  header.trimmed.store(end, std::memory_order_release);
}

/// Punches holes, which also zeroes the bytes, so that they count as not
/// committed when the log wraps around. It takes as long as writing, and the
/// kernel lets only one thread at a time change a file.
void log_writer::punch(std::uint64_t begin, std::uint64_t end) noexcept {
  auto pieces_of = [&](std::size_t file) {
    for (auto at = begin; at < end;) {
      auto place = area_.log_at(at);
      auto bytes = std::min<std::uint64_t>(place.bytes, end - at);
      if (place.file == file)
        ::fallocate(place.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(place.offset),
                    static_cast<off_t>(bytes));
      at += bytes;
    }
  };
  if (spread_ && end - begin >= spread_from)
    return spread_(log_files, pieces_of);
  for (std::size_t file = 0; file < log_files; ++file)
    pieces_of(file);
}

// -- reading ------------------------------------------------------------------

result<std::optional<record>>
parse_record(std::span<const std::byte> bytes, std::uint64_t position,
             std::vector<std::uint64_t>& scratch) {
  if (bytes.size() < sizeof(record_header))
    return std::optional<record>{};
  auto& header = *reinterpret_cast<const record_header*>(bytes.data());
  auto size = header.size.load(std::memory_order_acquire);
  if (size == 0)
    return std::optional<record>{};
  if (auto ok = check_size(position, size); !ok)
    return ok.why();
  if (size > bytes.size())
    return damaged(position, "a record that is cut");
  // Each word is read once, because the writer may change it at any time.
  auto message_words = header.message_words;
  auto payload_bytes = header.payload_bytes;
  auto slot = header.slot;
  auto digest = header.digest.load(std::memory_order_relaxed);
  if (message_words == 0 || message_words > max_message_words ||
      payload_bytes > max_payload ||
      record_bytes(message_words, payload_bytes) != size)
    return damaged(position, "a record whose parts do not add up");
  if (slot >= slot_count)
    return damaged(position, "slot " + std::to_string(slot));
  scratch.resize(message_words);
  auto* message = bytes.data() + sizeof(record_header);
  std::memcpy(scratch.data(), message, 8ull * message_words);
  return std::optional<record>{
      {.call = {position},
       .end = position + size,
       .slot = slot,
       .digest = digest,
       .message = {scratch.data(), message_words},
       .payload = {message + 8ull * message_words, payload_bytes}}};
}

log_reader::log_reader(const session_area& area, int doorbell,
                       std::uint64_t from)
    : area_(area), doorbell_(doorbell), position_(from) {}

result<std::optional<record>> log_reader::next() {
  auto at = position_ & (area_.log_capacity() - 1);
  // The mirror makes a whole record readable at any position.
  auto got =
      parse_record({area_.log_data() + at, mirror_bytes}, position_, scratch_);
  if (got && *got)
    position_ = (*got)->end;
  return got;
}

result<std::span<const std::byte>> log_reader::next_range(std::uint64_t limit) {
  auto* begin = area_.log_data() + (position_ & (area_.log_capacity() - 1));
  limit = std::min(limit, mirror_bytes);
  std::uint64_t bytes = 0;
  for (;;) {
    auto& header = *reinterpret_cast<const record_header*>(begin + bytes);
    auto size = header.size.load(std::memory_order_acquire);
    if (size == 0)
      break;
    if (auto ok = check_size(position_ + bytes, size); !ok)
      return ok.why();
    if (bytes + size > limit && bytes != 0)
      break;
    bytes += size;
    if (bytes >= limit)
      break;
  }
  position_ += bytes;
  return std::span<const std::byte>{begin, bytes};
}

bool log_reader::ready() const noexcept {
  auto* at = area_.log_data() + (position_ & (area_.log_capacity() - 1));
  return reinterpret_cast<const record_header*>(at)->size.load(
             std::memory_order_seq_cst) != 0;
}

bool log_reader::may_grow(std::uint64_t limit) const noexcept {
  auto* begin = area_.log_data() + (position_ & (area_.log_capacity() - 1));
  for (std::uint64_t bytes = 0; bytes < limit;) {
    auto& header = *reinterpret_cast<const record_header*>(begin + bytes);
    auto size = header.size.load(std::memory_order_acquire);
    if (size == 0)
      return true;
    if (header.slot != 0 || !check_size(position_ + bytes, size))
      return false;
    bytes += size;
  }
  return false;
}

bool log_reader::fall_asleep() noexcept {
  area_.header().reader_asleep.store(1, std::memory_order_seq_cst);
  if (!ready())
    return true;
  // The doorbell may ring now, which makes the next sleep a short one.
  awake(false);
  return false;
}

void log_reader::awake(bool rung) noexcept {
  area_.header().reader_asleep.store(0, std::memory_order_relaxed);
  if (!rung)
    return;
  std::uint64_t count = 0;
  // The read does not block, and whether the doorbell rang does not matter.
  [[maybe_unused]] auto n = ::read(doorbell_, &count, sizeof(count));
}

} // namespace vgpu
