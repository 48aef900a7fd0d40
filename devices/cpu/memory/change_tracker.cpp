#include "devices/cpu/memory/change_tracker.hpp"

#include "schema/base/cuda_fault.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace vgpu::device::cpu {

namespace {

constexpr std::uint64_t granules_of_window = window_bytes / granule_bytes;
/// Each granule may become a mapping of its own, and a process has 65530.
constexpr std::uint64_t most_watched = 16'384;
/// The protection of this many granules changes in one system call. No thread
/// of the process gets past a fault meanwhile, so they are few.
constexpr std::uint64_t granules_at_once = 8;
/// The devices of a session, all in one process, are at most this many.
constexpr std::size_t most_trackers = 64;

/// The trackers that the handler asks. They are in slots because a handler
/// takes no lock.
std::array<std::atomic<change_tracker*>, most_trackers> trackers{};

struct sigaction handler_before {};
thread_local bool hands_on = false;

/// Passes on a fault that is not ours to the former handler, or ends the
/// process.
void hand_on(int number, siginfo_t* info, void* context) {
  auto again = std::exchange(hands_on, true);
  if (!again && (handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(number, info, context);
  } else if (!again && handler_before.sa_handler != SIG_DFL &&
             handler_before.sa_handler != SIG_IGN) {
    handler_before.sa_handler(number);
  } else {
    struct sigaction end {};
    end.sa_handler = SIG_DFL;
    ::sigaction(number, &end, nullptr); // and the instruction faults again
  }
  hands_on = again;
}

void on_fault(int number, siginfo_t* info, void* context) {
  auto error = errno;
  auto ours = info->si_code == SEGV_ACCERR &&
              change_tracker::note_write(
                  reinterpret_cast<std::uintptr_t>(info->si_addr));
  errno = error;
  if (!ours)
    hand_on(number, info, context);
}

/// Sets the handler, before memory is protected. Other code may have set
/// another one since.
status set_handler() {
  static std::mutex one_by_one;
  auto lock = std::lock_guard{one_by_one};
  struct sigaction now {};
  if (::sigaction(SIGSEGV, nullptr, &now) == 0) {
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault)
      return {};
    handler_before = now;
    struct sigaction ours {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    if (::sigaction(SIGSEGV, &ours, nullptr) == 0)
      return {};
  }
  return cuda_fault(
      CUDA_ERROR_NOT_SUPPORTED,
      std::string{"change tracking: cannot handle page faults: "} +
          std::strerror(errno));
}

} // namespace

change_tracker::~change_tracker() {
  for (auto& slot : trackers) {
    auto* self = this;
    slot.compare_exchange_strong(self, nullptr);
  }
}

status change_tracker::reserve(device_address base) {
  constexpr auto bytes = granules_of_window * sizeof(word);
  auto* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      std::string{"window: cannot allocate host memory: "} +
                          std::strerror(errno));
  words_ = mapping{at, bytes};
  base_ = base;
  return {};
}

void change_tracker::set(device_address address, std::uint64_t bytes,
                         std::uint32_t to) noexcept {
  auto first = (address - base_) / granule_bytes;
  auto end = first + bytes / granule_bytes;
  for (auto i = first; i != end; ++i) {
    auto was = words()[i].exchange(to);
    if (to != 0 && was == 0)
      ++granules_;
    else if (to == 0 && was != 0)
      --granules_;
  }
  end_ = std::max(end_, end);
}

void change_tracker::add(device_address address, std::uint64_t bytes) noexcept {
  auto lock = std::lock_guard{mutex_};
  set(address, bytes, latest_);
}

void change_tracker::remove(device_address address,
                            std::uint64_t bytes) noexcept {
  auto lock = std::lock_guard{mutex_};
  set(address, bytes, 0);
}

bool change_tracker::allow(std::uint64_t first, std::uint64_t end,
                           bool writable) noexcept {
  return mprotect(reinterpret_cast<void*>(base_ + first * granule_bytes),
                  (end - first) * granule_bytes,
                  writable ? PROT_READ | PROT_WRITE : PROT_READ) == 0;
}

status change_tracker::watch() {
  if (auto ok = set_handler(); !ok)
    return ok;
  if (watched_)
    return {};
  for (auto& slot : trackers) {
    change_tracker* nobody = nullptr;
    if (slot.compare_exchange_strong(nobody, this)) {
      watched_ = true;
      return {};
    }
  }
  return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                    "change tracking: this process already has " +
                        std::to_string(most_trackers) +
                        " windows, which is the limit");
}

result<std::uint64_t> change_tracker::mark() {
  auto lock = std::unique_lock{mutex_};
  if (granules_ > most_watched)
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                      "changes of memory: " + std::to_string(granules_) +
                          " granules exceed the limit (" +
                          std::to_string(most_watched) + ")");
  auto before = latest_.load();
  if (before == std::numeric_limits<std::uint32_t>::max())
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                      "change tracking: no mark is left");
  if (auto ok = watch(); !ok)
    return ok.why();
  // The mark comes first: a handler that reopened a granule under the former
  // mark sees the new one when it checks again.
  latest_ = before + 1;
  // Memory that is mapped meanwhile counts as written after the mark.
  auto end = end_;
  for (std::uint64_t first = 0; first < end; first += granules_at_once) {
    protect(first, std::min(first + granules_at_once, end), before);
    // A thread that maps memory, or meets a fault, gets a turn.
    lock.unlock();
    lock.lock();
  }
  return before + 1;
}

/// Write-protects the granules that were last written after the mark `written`.
void change_tracker::protect(std::uint64_t first, std::uint64_t end,
                             std::uint32_t written) noexcept {
  for (auto i = first; i < end; ++i) {
    if (words()[i] != written)
      continue;
    auto from = i;
    while (i < end && words()[i] == written)
      ++i;
    // Memory that cannot be protected counts as written.
    if (!allow(from, i, false))
      for (auto k = from; k != i; ++k)
        (void)reopen(k);
  }
}

/// Makes a granule writable again. Several threads may do this at once without
/// harm. A mark that was made meanwhile may have come too early to protect the
/// granule after this, so the granule counts as written after that mark too.
bool change_tracker::reopen(std::uint64_t granule) noexcept {
  for (;;) {
    auto latest = latest_.load();
    words()[granule] = latest;
    if (!allow(granule, granule + 1, true))
      return false;
    if (latest_ == latest)
      return true;
  }
}

bool change_tracker::note_write(std::uintptr_t address) noexcept {
  for (auto& slot : trackers) {
    auto* x = slot.load();
    if (x == nullptr || address - x->base_ >= window_bytes)
      continue;
    auto granule = (address - x->base_) / granule_bytes;
    return x->words()[granule] != 0 && x->reopen(granule);
  }
  return false;
}

bool change_tracker::changed_since(device_address address,
                                   std::uint64_t mark) const noexcept {
  auto offset = address - base_;
  if (words_.size() == 0 || offset >= window_bytes)
    return true;
  auto last = words()[offset / granule_bytes].load();
  return last == 0 || last >= mark;
}

/// Reads by a system call, which returns an error, and does not fault, where
/// memory is unmapped meanwhile.
status change_tracker::peek(std::span<std::byte> into,
                            device_address from) const {
  auto offset = from - base_;
  if (words_.size() == 0 || offset >= window_bytes ||
      into.size() > window_bytes - offset)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "change tracking: the address is in no window");
  iovec to{into.data(), into.size()};
  iovec of{reinterpret_cast<void*>(from), into.size()};
  if (::process_vm_readv(::getpid(), &to, 1, &of, 1, 0) ==
      static_cast<ssize_t>(into.size()))
    return {};
  return cuda_fault(
      CUDA_ERROR_OPERATING_SYSTEM,
      std::string{"change tracking: cannot examine the window's memory: "} +
          std::strerror(errno));
}

} // namespace vgpu::device::cpu
