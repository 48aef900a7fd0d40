#include "schema/log/session_area.hpp"

#include "schema/base/own_addresses.hpp"
#include "schema/base/round_up.hpp"

#include "schema/log/call_log.hpp"
#include "schema/log/memory_size.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vgpu {

namespace {

constexpr std::uint64_t slots_offset = 4096;
constexpr std::uint64_t console_offset =
    slots_offset + slot_count * sizeof(slot);
constexpr std::uint64_t arena_offset =
    console_offset + console_count * console_bytes;
constexpr std::uint64_t control_bytes = arena_offset + arena_bytes;

fault from_errno(const std::string& what) {
  auto kind = errno == ENOMEM ? fault_kind::exhausted : fault_kind::system;
  return {kind, what + ": " + std::strerror(errno)};
}

result<mapping> map_shared(int fd, std::uint64_t bytes) {
  auto* at = ::mmap(own_address(bytes), bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED)
    return from_errno("cannot map a session's shared memory");
  return mapping{at, bytes};
}

/// Maps the stripes of the files in turns, and the first stripes again behind
/// the last.
result<mapping> map_mirrored(const std::array<unique_fd, log_files>& files,
                             std::uint64_t bytes) {
  auto all = bytes + mirror_bytes;
  auto* at = ::mmap(own_address(all), all, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return from_errno("cannot reserve address space for a call log");
  mapping whole{at, all};
  auto stripe = log_stripe(bytes);
  for (std::uint64_t offset = 0; offset < all; offset += stripe) {
    auto index = offset % bytes / stripe;
    auto* part =
        ::mmap(whole.data() + offset, std::min(stripe, all - offset),
               PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
               files[index % log_files].get(),
               static_cast<off_t>(index / log_files * stripe));
    if (part == MAP_FAILED)
      return from_errno("cannot map a call log");
  }
  return whole;
}

bool is_power_of_two(std::uint64_t x) {
  return x != 0 && (x & (x - 1)) == 0;
}

/// Returns the size of all files together, which have the same size each.
result<std::uint64_t>
sealed_log_size(const std::array<unique_fd, log_files>& files) {
  std::uint64_t whole = 0;
  for (auto& file : files) {
    auto size = sealed_size(file.get());
    if (!size)
      return size.why();
    if (!is_power_of_two(*size) || *size < minimum_log / log_files ||
        *size > maximum_log / log_files ||
        (whole != 0 && whole != *size * log_files))
      return fault{fault_kind::corrupt,
                   "a session's log has a file of an impossible size of " +
                       std::to_string(*size) + " bytes"};
    whole = *size * log_files;
  }
  return whole;
}

} // namespace

// -- ownership ----------------------------------------------------------------

unique_fd& unique_fd::operator=(unique_fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

unique_fd::~unique_fd() {
  if (fd_ >= 0)
    ::close(fd_);
}

unique_fd duplicate_of(int fd) noexcept {
  return unique_fd{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
}

int unique_fd::release() noexcept {
  return std::exchange(fd_, -1);
}

mapping::mapping(mapping&& other) noexcept
    : at_(std::exchange(other.at_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

mapping& mapping::operator=(mapping&& other) noexcept {
  std::swap(at_, other.at_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

mapping::~mapping() {
  if (at_ != nullptr)
    ::munmap(at_, bytes_);
}

// -- memory and sleeping ------------------------------------------------------

result<unique_fd> make_sealed_memory(const char* name, std::uint64_t bytes) {
  unique_fd fd{
      static_cast<int>(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING))};
  if (!fd)
    return from_errno("cannot create shared memory");
  if (!size_memory(fd.get(), bytes))
    return from_errno(errno == EFBIG
                          ? "cannot size shared memory, as RLIMIT_FSIZE "
                            "(ulimit -f) permits too small files"
                          : "cannot size shared memory");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return from_errno("cannot seal shared memory");
  return fd;
}

result<std::uint64_t> sealed_size(int fd) {
  auto seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return fault{fault_kind::corrupt,
                 "shared memory of a session is not sealed against shrinking; "
                 "its owner is not a vGPU program"};
  struct stat info {};
  if (::fstat(fd, &info) != 0)
    return from_errno("cannot tell the size of shared memory");
  return static_cast<std::uint64_t>(info.st_size);
}

void wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void wake_some(const std::atomic<std::uint32_t>& word,
               unsigned threads) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, static_cast<int>(threads), nullptr,
            nullptr, 0);
}

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                 std::chrono::nanoseconds patience) noexcept {
  using namespace std::chrono;
  auto whole = duration_cast<seconds>(patience);
  timespec limit{static_cast<time_t>(whole.count()),
                 static_cast<long>((patience - whole).count())};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

std::string_view to_text(fault_service x) noexcept {
  switch (x) {
  case fault_service::unused:
    break;
  case fault_service::signal:
    return "served by a handler of SIGSEGV; system calls fail with EFAULT "
           "there";
  case fault_service::program:
    return "served by a thread; system calls fail with EFAULT there";
  case fault_service::kernel:
    return "served by a thread, for the program and its system calls";
  }
  return {};
}

host_guard::host_guard(std::atomic<std::uint32_t>& taken,
                       std::chrono::microseconds patience) noexcept
    : taken_(taken) {
  using clock = std::chrono::steady_clock;
  auto until = clock::now() + patience;
  while (taken_.exchange(1, std::memory_order_acquire) != 0 &&
         clock::now() < until)
    std::this_thread::yield();
}

// -- making and opening -------------------------------------------------------

result<session_area> session_area::create(std::uint64_t log_capacity,
                                          std::uint64_t host_bytes) {
  if (!is_power_of_two(log_capacity) || log_capacity < minimum_log)
    return fault{fault_kind::usage,
                 "a log's capacity must be a power of two of at least 16 MiB, "
                 "not " +
                     std::to_string(log_capacity)};
  session_area area;
  auto make = [](unique_fd& into, const char* name,
                 std::uint64_t bytes) -> status {
    auto made = make_sealed_memory(name, bytes);
    if (!made)
      return made.why();
    into = std::move(*made);
    return {};
  };
  if (auto ok = make(area.control_, "vgpu-control", control_bytes); !ok)
    return ok.why();
  for (auto& file : area.log_)
    if (auto ok = make(file, "vgpu-log", log_capacity / log_files); !ok)
      return ok.why();
  // The second half is for view_host_known().
  if (auto ok = make(area.host_, "vgpu-host", 2 * host_bytes); !ok)
    return ok.why();
  if (auto ok = area.map_all(); !ok)
    return ok.why();
  auto& header = area.header();
  header.log_capacity = log_capacity;
  header.protection_level = static_cast<std::uint32_t>(protection::journal);
  header.snapshot_after = snapshot_after(log_capacity, 0);
  header.magic = control_header::the_magic;
  return area;
}

result<session_area> session_area::open(std::span<unique_fd> handed) {
  if (handed.size() < descriptor_count)
    return fault{fault_kind::corrupt, "a session's memory comes as " +
                                          std::to_string(descriptor_count) +
                                          " descriptors, not " +
                                          std::to_string(handed.size())};
  session_area area;
  area.control_ = std::move(handed[0]);
  area.host_ = std::move(handed[1]);
  std::move(handed.begin() + 2, handed.begin() + descriptor_count,
            area.log_.begin());
  if (auto ok = area.map_all(); !ok)
    return ok.why();
  if (area.header().magic != control_header::the_magic)
    return fault{fault_kind::corrupt,
                 "a session's control area has no valid header; the program's "
                 "libcuda is of another version"};
  return area;
}

status session_area::map_all() {
  auto control = sealed_size(control_.get());
  if (!control)
    return control.why();
  if (*control != control_bytes)
    return fault{fault_kind::corrupt,
                 "a session's control area has " + std::to_string(*control) +
                     " bytes instead of " + std::to_string(control_bytes) +
                     "; the program's libcuda is of another version"};
  auto log = sealed_log_size(log_);
  if (!log)
    return log.why();
  auto host = sealed_size(host_.get());
  if (!host)
    return host.why();
  if (*host == 0 || *host / 2 > window_bytes ||
      *host % (2 * granule_bytes) != 0)
    return fault{fault_kind::corrupt,
                 "a session's host memory has an impossible size of " +
                     std::to_string(*host) + " bytes"};
  log_capacity_ = *log;
  stripe_ = log_stripe(*log);
  host_bytes_ = *host / 2;
  auto control_map = map_shared(control_.get(), control_bytes);
  if (!control_map)
    return control_map.why();
  control_map_ = std::move(*control_map);
  auto log_map = map_mirrored(log_, log_capacity_);
  if (!log_map)
    return log_map.why();
  log_map_ = std::move(*log_map);
  return {};
}

status session_area::map_host() {
  auto* wanted = reinterpret_cast<void*>(host_window);
  auto* at =
      ::mmap(wanted, host_bytes_, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, host_.get(), 0);
  if (at == MAP_FAILED)
    return from_errno("cannot map host memory at its fixed address");
  host_map_ = mapping{at, host_bytes_};
  if (at != wanted)
    return fault{fault_kind::system,
                 "the address range of the host window is taken"};
  return {};
}

status session_area::show_file(device_address address, std::uint64_t bytes,
                               int file, std::uint64_t offset) const {
  if (bytes == 0 || bytes % page_bytes != 0 || address % page_bytes != 0 ||
      offset % page_bytes != 0 || !in_host(address, bytes))
    return fault{fault_kind::usage,
                 "a file cannot be shown at " + std::to_string(address) +
                     ": only whole pages of the host window can"};
  struct stat of {};
  if (::fstat(file, &of) != 0 || !S_ISREG(of.st_mode))
    return fault{fault_kind::usage,
                 "what is to be shown in the host window is not a file"};
  auto size = static_cast<std::uint64_t>(of.st_size);
  // Behind a file's last page there is nothing to access.
  if (offset >= size || bytes > round_up(size - offset, page_bytes))
    return fault{fault_kind::usage, "a file of " + std::to_string(size) +
                                        " bytes has no " +
                                        std::to_string(bytes) + " from " +
                                        std::to_string(offset) + " on"};
  if (::mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, file,
             static_cast<off_t>(offset)) != MAP_FAILED)
    return {};
  auto why = from_errno("cannot map a file into the host window");
  (void)show_own(address, bytes);
  return why;
}

status session_area::show_own(device_address address,
                              std::uint64_t bytes) const {
  if (!in_host(address, bytes) ||
      ::mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_NORESERVE | MAP_FIXED, host_.get(),
             static_cast<off_t>(address - host_window)) == MAP_FAILED)
    return from_errno("cannot map the host memory again");
  return {};
}

result<mapping> session_area::view_host() const {
  return view_host_from(0);
}

result<mapping> session_area::view_host_known() const {
  return view_host_from(host_bytes_);
}

result<mapping> session_area::view_host_from(std::uint64_t offset) const {
  auto* at = ::mmap(nullptr, host_bytes_, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE, host_.get(),
                    static_cast<off_t>(offset));
  if (at == MAP_FAILED)
    return fault{fault_kind::system,
                 "no addresses for the program's pinned memory"};
  return mapping{at, host_bytes_};
}

bool session_area::in_host(device_address address,
                           std::uint64_t bytes) const noexcept {
  return is_within_host_window(address, bytes, host_bytes_);
}

// -- views --------------------------------------------------------------------

control_header& session_area::header() const noexcept {
  return *reinterpret_cast<control_header*>(control_map_.data());
}

slot& session_area::at(slot_index index) const noexcept {
  return reinterpret_cast<slot*>(control_map_.data() +
                                 slots_offset)[index % slot_count];
}

std::array<int, session_area::descriptor_count>
session_area::descriptors() const noexcept {
  std::array<int, descriptor_count> out{control_.get(), host_.get()};
  std::transform(log_.begin(), log_.end(), out.begin() + 2,
                 [](const unique_fd& x) { return x.get(); });
  return out;
}

log_place session_area::log_at(std::uint64_t position) const noexcept {
  auto at = position & (log_capacity_ - 1);
  auto index = at / stripe_;
  auto within = at % stripe_;
  auto file = index % log_files;
  return {file, log_[file].get(), index / log_files * stripe_ + within,
          stripe_ - within};
}

std::span<std::byte> session_area::arena() const noexcept {
  return {control_map_.data() + arena_offset, arena_bytes};
}

// -- the reader's side --------------------------------------------------------

void session_area::publish_executed(std::uint64_t position) const noexcept {
  auto& header = this->header();
  header.executed.store(position, std::memory_order_seq_cst);
  wake_writers();
}

void session_area::publish_covered(std::uint64_t position) const noexcept {
  header().covered.store(position, std::memory_order_seq_cst);
  wake_writers();
}

bool session_area::lower_protection() const noexcept {
  auto before = header().protection_level.exchange(
      static_cast<std::uint32_t>(protection::none));
  wake_writers();
  return before != static_cast<std::uint32_t>(protection::none);
}

void session_area::wake_writers() const noexcept {
  auto& header = this->header();
  if (header.room_wanted.load(std::memory_order_seq_cst) != 0 &&
      header.room_wanted.exchange(0) != 0)
    wake_all(header.room_wanted);
}

bool session_area::waits(slot_index index, call_number call) const noexcept {
  auto& s = at(index);
  auto state = static_cast<slot_state>(s.state.load(std::memory_order_acquire));
  return (state == slot_state::waiting || state == slot_state::waiting_asleep ||
          state == slot_state::called) &&
         s.call.load(std::memory_order_relaxed) == call.value;
}

void session_area::answer(slot_index index, call_number call, CUresult result,
                          std::uint64_t value) const noexcept {
  if (index == 0 || !waits(index, call))
    return;
  auto& s = at(index);
  s.result.store(static_cast<std::uint32_t>(result), std::memory_order_relaxed);
  s.value.store(value, std::memory_order_relaxed);
  auto before =
      s.state.exchange(static_cast<std::uint32_t>(slot_state::answered),
                       std::memory_order_acq_rel);
  if (before == static_cast<std::uint32_t>(slot_state::waiting_asleep))
    wake_all(s.state);
}

bool session_area::is_journalled() const noexcept {
  return header().protection_level.load(std::memory_order_acquire) !=
         static_cast<std::uint32_t>(protection::none);
}

void session_area::note_result(
    call_number call, std::uint32_t digest,
    std::span<const std::byte> result) const noexcept {
  auto& header = this->header();
  auto kept = [&] {
    return is_journalled() &&
           call.value >= header.trimmed.load(std::memory_order_acquire);
  };
  if (digest == 0 || call.value % 8 != 0 || !kept() ||
      call.value >= header.tail.load(std::memory_order_acquire))
    return;
  auto* at = log_data() + (call.value & (log_capacity_ - 1));
  auto& head = *reinterpret_cast<record_header*>(at);
  auto& word = head.digest;
  if (word.load() != 0)
    return;
  // The program may change these at any time, but the log is its own.
  auto words = std::min<std::size_t>(head.message_words, max_message_words);
  auto* room = at + sizeof(record_header) + 8 * words;
  auto keeps = !result.empty() && result.size() <= kept_result_bytes &&
               head.payload_bytes == result.size();
  if (keeps)
    std::memcpy(room, result.data(), result.size());
  std::uint32_t none = 0;
  if (!word.compare_exchange_strong(none, digest) || kept())
    return;
  // The record was trimmed meanwhile. Everything beyond the tail must be zero.
  if (keeps)
    std::memset(room, 0, result.size());
  word.compare_exchange_strong(digest, 0);
}

void session_area::call_host(slot_index index,
                             call_number call) const noexcept {
  auto& s = at(index);
  if (index == 0 || s.call.load(std::memory_order_acquire) != call.value)
    return;
  auto expected = static_cast<std::uint32_t>(slot_state::waiting);
  if (!s.state.compare_exchange_strong(
          expected, static_cast<std::uint32_t>(slot_state::called)))
    return;
  header().upcalls.fetch_add(1, std::memory_order_acq_rel);
  wake_all(header().upcalls);
}

std::byte* session_area::ring(console where) const noexcept {
  return control_map_.data() + console_offset +
         static_cast<std::size_t>(where) * console_bytes;
}

void session_area::print(console where, std::uint64_t position,
                         std::string_view text) const noexcept {
  auto& written = header().console_written[static_cast<std::size_t>(where)];
  auto have = written.load(std::memory_order_relaxed);
  if (position == at_end)
    position = have;
  if (position + text.size() <= have)
    return;
  if (position < have)
    text.remove_prefix(have - position);
  auto* to = ring(where);
  for (auto c : text)
    to[have++ % console_bytes] = static_cast<std::byte>(c);
  written.store(have, std::memory_order_release);
}

bool session_area::has_text(console where) const noexcept {
  auto i = static_cast<std::size_t>(where);
  return header().console_written[i].load(std::memory_order_acquire) !=
         header().console_read[i].load(std::memory_order_relaxed);
}

std::uint64_t session_area::lost_text(console where) const noexcept {
  auto i = static_cast<std::size_t>(where);
  auto kept = header().console_written[i].load(std::memory_order_acquire) -
              header().console_read[i].load(std::memory_order_relaxed);
  return kept - std::min(kept, console_bytes);
}

std::string session_area::take_text(console where) const {
  auto i = static_cast<std::size_t>(where);
  auto end = header().console_written[i].load(std::memory_order_acquire);
  auto begin = header().console_read[i].load(std::memory_order_relaxed);
  if (end - begin > console_bytes)
    begin = end - console_bytes;
  std::string text(end - begin, '\0');
  auto* from = ring(where);
  for (auto& c : text)
    c = static_cast<char>(from[begin++ % console_bytes]);
  header().console_read[i].store(end, std::memory_order_relaxed);
  return text;
}

} // namespace vgpu
