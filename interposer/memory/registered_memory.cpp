#include "interposer/memory/registered_memory.hpp"

#include "interposer/memory/memory.hpp"
#include "interposer/memory/memory_part.hpp"
#include "interposer/memory/synchronous_memory.hpp"
#include "interposer/memory/zero_copy.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/session/uncancelled.hpp"
#include "schema/base/round_up.hpp"

#include <cinttypes>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <vector>

namespace vgpu::interposer {

namespace {

/// Describes whole pages of a file that a process has mapped.
struct mapped_file {
  unique_fd file;
  // Offset of the first page
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Holds one line of /proc/self/maps (proc(5)).
struct mapping_line {
  std::uintptr_t begin = 0, end = 0;
  char access[5] = "";
  std::uint64_t offset = 0;
  unsigned major = 0, minor = 0;
  std::uint64_t inode = 0;
  // Where the path begins in the line
  int path = 0;

  explicit mapping_line(const std::string& text) {
    if (std::sscanf(
            text.c_str(),
            "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
            &begin, &end, access, &offset, &major, &minor, &inode, &path) != 7)
      end = 0;
  }
  bool is_shared_file() const {
    return access[0] == 'r' && access[1] == 'w' && access[3] == 's' &&
           inode != 0;
  }
};

/// Opens the mapped file by its name. Where the name does not exist or names
/// another file, opens it through the mapping itself, which the kernel allows
/// only to privileged processes.
unique_fd open_mapped(const mapping_line& x, const std::string& name) {
  char itself[64];
  std::snprintf(itself, sizeof itself,
                "/proc/self/map_files/%" PRIxPTR "-%" PRIxPTR, x.begin, x.end);
  for (const auto* path : {name.c_str(), static_cast<const char*>(itself)}) {
    struct stat of {};
    // The type is checked first, because opening a device or a pipe has
    // effects.
    if (::stat(path, &of) != 0 || !S_ISREG(of.st_mode) ||
        of.st_ino != x.inode || of.st_dev != makedev(x.major, x.minor))
      continue;
    unique_fd file{::open(path, O_RDWR | O_CLOEXEC)};
    struct stat now {};
    if (file && ::fstat(file.get(), &now) == 0 && now.st_ino == of.st_ino &&
        now.st_dev == of.st_dev)
      return file;
  }
  return {};
}

/// Opens the file that lies there. Where it cannot be opened, or the mapping is
/// shorter, the result has no file. Returns nothing where the memory is the
/// process's own.
std::optional<mapped_file> file_under(std::uintptr_t at, std::uint64_t bytes) {
  uncancelled guard;
  std::ifstream maps{"/proc/self/maps"};
  for (std::string text; std::getline(maps, text);) {
    mapping_line x{text};
    if (at < x.begin || at >= x.end)
      continue;
    if (!x.is_shared_file())
      return std::nullopt;
    auto first = at / page_bytes * page_bytes;
    mapped_file out{{},
                    x.offset + (first - x.begin),
                    round_up(at + bytes, page_bytes) - first};
    if (bytes <= x.end - at)
      out.file = open_mapped(x, text.substr(static_cast<std::size_t>(x.path)));
    return out;
  }
  return std::nullopt;
}

/// Maps the file into the host window, in this process and in the worker.
CUresult show(context& in, const mapped_file& what, unsigned flags,
              device_address& out) {
  auto& s = process::the_session();
  allocation place{.bytes = what.bytes,
                   .kind = memory_kind::registered,
                   .context = in.id.load(),
                   .flags = flags,
                   .device = in.device_index()};
  if (auto code = allocate_host_addresses(in, place); code != CUDA_SUCCESS)
    return code;
  auto code = CUDA_ERROR_NOT_SUPPORTED;
  if (s.area().show_file(place.address, what.bytes, what.file.get(),
                         what.offset))
    code =
        s.ask(call::host_file{place.address, what.bytes, what.offset,
                              static_cast<std::uint32_t>(::getpid()),
                              static_cast<std::uint32_t>(s.area().control_fd()),
                              static_cast<std::uint32_t>(what.file.get())},
              place.device)
            .result;
  if (code != CUDA_SUCCESS) {
    give_up_host_addresses(place);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  s.begin_sharing();
  zero_copy_memory::allocated();
  out = place.address;
  return CUDA_SUCCESS;
}

} // namespace

CUresult registered_memory::add(const context& in, const void* at,
                                std::uint64_t bytes, unsigned flags) {
  auto begin = reinterpret_cast<std::uintptr_t>(at);
  if (at == nullptr || bytes == 0 || begin + bytes < begin)
    return CUDA_ERROR_INVALID_VALUE;
  std::unique_lock guard{mutex_};
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.end() && next->first < begin + bytes)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (holding(at) != nullptr)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  ranges_.emplace(begin, range{bytes, flags, in.id.load(), in.device_index(),
                               begin, next_serial()});
  count_.store(ranges_.size(), std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult registered_memory::remove(const void* at) {
  auto begin = reinterpret_cast<std::uintptr_t>(at);
  if (beginning_at(at))
    on_occasion<occasion::host_memory>(wait_for_devices);
  {
    std::unique_lock guard{mutex_};
    if (ranges_.erase(begin) != 1)
      return holding(at) != nullptr ? CUDA_ERROR_INVALID_VALUE
                                    : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    count_.store(ranges_.size(), std::memory_order_release);
  }
  synchronous().forget(begin);
  std::lock_guard one{showing_mutex_};
  end_mirror(begin);
  if (auto known = shown_.find(begin); known != shown_.end()) {
    // This fails where the end of the context already freed the range.
    (void)on_occasion<occasion::first_use>(
        [&] { return free_shown(known->second); });
    shown_.erase(known);
  }
  return CUDA_SUCCESS;
}

void registered_memory::remove_all(std::uint64_t context) {
  std::vector<std::uintptr_t> gone;
  {
    std::shared_lock guard{mutex_};
    for (auto& [begin, x] : ranges_)
      if (x.context == context)
        gone.push_back(begin);
  }
  for (auto begin : gone)
    (void)remove(reinterpret_cast<const void*>(begin)); // NOLINT
}

const registered_memory::range_map::value_type*
registered_memory::holding(const void* at) const {
  auto address = reinterpret_cast<std::uintptr_t>(at);
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin())
    return nullptr;
  auto& known = *std::prev(next);
  return address - known.first < known.second.bytes ? &known : nullptr;
}

std::optional<registered_memory::range>
registered_memory::find(const void* at) const {
  std::shared_lock guard{mutex_};
  auto known = holding(at);
  return known == nullptr ? std::nullopt : std::optional{known->second};
}

bool registered_memory::holds(std::uintptr_t at, std::uint64_t bytes) const {
  if (count_.load(std::memory_order_acquire) == 0)
    return false;
  auto end = at + bytes;
  std::shared_lock guard{mutex_};
  // Neighbours may hold the range together.
  while (at < end) {
    auto known = holding(reinterpret_cast<const void*>(at)); // NOLINT
    if (known == nullptr)
      return false;
    at = known->first + known->second.bytes;
  }
  return true;
}

std::optional<registered_memory::range>
registered_memory::beginning_at(const void* at) const {
  std::shared_lock guard{mutex_};
  auto known = ranges_.find(reinterpret_cast<std::uintptr_t>(at));
  return known == ranges_.end() ? std::nullopt : std::optional{known->second};
}

CUresult registered_memory::device_pointer(context& in, const void* at,
                                           CUdeviceptr& out) {
  std::lock_guard one{showing_mutex_};
  std::uintptr_t begin = 0;
  range what;
  {
    std::shared_lock guard{mutex_};
    auto known = holding(at);
    if (known == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    std::tie(begin, what) = *known;
  }
  auto [place, is_new] = shown_.try_emplace(begin, 0);
  if (is_new || !is_shown(place->second)) {
    auto code = on_occasion<occasion::first_use>(
        [&] { return show_range(in, begin, what, place->second); });
    if (code != CUDA_SUCCESS) {
      shown_.erase(place);
      return code;
    }
  }
  out = place->second + begin % page_bytes +
        (reinterpret_cast<std::uintptr_t>(at) - begin);
  return CUDA_SUCCESS;
}

CUresult registered_memory::show_range(context& in, std::uintptr_t begin,
                                       const range& what, device_address& out) {
  auto shared = file_under(begin, what.bytes);
  if (!shared)
    return mirror(in, begin, what, out);
  return shared->file ? show(in, *shared, what.flags, out)
                      : CUDA_ERROR_NOT_SUPPORTED;
}

/// Gives kernels a copy, in whole pages, because the range lies at the same
/// place in its first page as with a driver. Precondition: the mutex of what
/// is shown is held.
CUresult registered_memory::mirror(context& in, std::uintptr_t begin,
                                   const range& what, device_address& out) {
  auto first = begin / page_bytes * page_bytes;
  allocation place{.bytes = round_up(begin + what.bytes, page_bytes) - first,
                   .kind = memory_kind::registered,
                   .context = in.id.load(),
                   .flags = what.flags,
                   .device = in.device_index()};
  if (auto code = allocate_host_addresses(in, place); code != CUDA_SUCCESS)
    return code;
  begin_pinned(place);
  auto* copy = reinterpret_cast<std::byte*>( // NOLINT: the host window
      place.address + begin % page_bytes);
  {
    std::lock_guard guard{mirrors_mutex_};
    mirrors_.insert_or_assign(begin,
                              mirrored_memory{begin, {copy, what.bytes}});
    mirrors_count_.store(mirrors_.size(), std::memory_order_release);
  }
  session_part::get().after_wait.arm();
  zero_copy().note(place.address);
  out = place.address;
  return CUDA_SUCCESS;
}

void registered_memory::end_mirror(std::uintptr_t begin) {
  std::lock_guard guard{mirrors_mutex_};
  auto known = mirrors_.find(begin);
  if (known == mirrors_.end())
    return;
  known->second.take();
  mirrors_.erase(known);
  mirrors_count_.store(mirrors_.size(), std::memory_order_release);
  session_part::get().after_wait.disarm();
}

void registered_memory::put_changes() {
  if (mirrors_count_.load(std::memory_order_acquire) == 0)
    return;
  std::lock_guard guard{mirrors_mutex_};
  for (auto& [begin, x] : mirrors_)
    x.put();
}

void registered_memory::take_changes() {
  if (mirrors_count_.load(std::memory_order_acquire) == 0)
    return;
  std::lock_guard guard{mirrors_mutex_};
  for (auto& [begin, x] : mirrors_)
    x.take();
}

registered_memory& registered() noexcept {
  return memory_part::get().registered;
}

} // namespace vgpu::interposer
