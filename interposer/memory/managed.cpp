#include "interposer/memory/managed.hpp"

#include "interposer/memory/memory_part.hpp"
#include "interposer/session/own_thread.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/stdio_plug.hpp"
#include "schema/log/memory_size.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include <sys/mman.h>
#include <unistd.h>

namespace vgpu::interposer {

namespace {

constexpr std::uint64_t page = 4096;
/// Memory moves between host and device in blocks of this size.
constexpr std::uint64_t block_bytes = std::uint64_t{64} << 10;
/// A program that reads consecutive blocks gets up to this many at once.
constexpr std::size_t longest_run = 32;
/// Regions outside the windows use this part of the file.
constexpr std::uint64_t beyond_bytes = std::uint64_t{4} << 30;

void* as_pointer(device_address x) {
  return reinterpret_cast<void*>(x); // NOLINT: addresses of the program's
}

std::uint64_t page_of(std::uint64_t x) {
  return x / page * page;
}
std::uint64_t page_behind(std::uint64_t x) {
  return page_of(x + page - 1);
}

bool in_window(device_address x) {
  return here().device_of(x).has_value();
}

std::size_t blocks_in(std::uint64_t bytes) {
  return static_cast<std::size_t>((bytes + block_bytes - 1) / block_bytes);
}

} // namespace

managed_memory& managed() noexcept {
  return memory_part::get().managed;
}

// -- regions
// ------------------------------------------------------------------------

bool managed_memory::open() {
  if (all_.data() != nullptr)
    return true;
  stdio_plug plug;
  auto windows = here().devices().size() * window_bytes;
  unique_fd file{::memfd_create("vgpu-managed", MFD_CLOEXEC)};
  auto size = windows + beyond_bytes;
  // Memory without a file has no such limit (RLIMIT_FSIZE), but does not say
  // which pages it has.
  if (file && !size_memory(file.get(), size)) {
    if (errno != EFBIG)
      return false;
    file = unique_fd{};
  }
  auto* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE | (file ? 0 : MAP_ANONYMOUS),
                    file ? file.get() : -1, 0);
  if (at == MAP_FAILED)
    return false;
  all_ = mapping{at, size};
  // A dump should hold the program's view instead.
  ::madvise(at, size, MADV_DONTDUMP);
  room_ = here().arena().take(longest_run * block_bytes);
  beyond_ = windows;
  choose_service();
  file_ = std::move(file);
  return true;
}

/// Chooses who serves the touches. Without a thread it is the signal's handler.
void managed_memory::choose_service() {
  faults_ = page_faults::open(permitted_fault_service());
  if (faults_ && !start_own_thread([this] { serve(); }))
    faults_.reset();
  auto service = faults_ ? faults_->service() : fault_service::signal;
  here().area().header().managed_faults = static_cast<std::uint32_t>(service);
  log_line(log_level::info,
           "touches of managed memory are " + std::string{to_text(service)});
}

/// Maps a part of the memory a second time, where the program sees it. `place`
/// is MAP_FIXED or MAP_FIXED_NOREPLACE.
bool managed_memory::show(device_address begin, std::uint64_t bytes,
                          std::uint64_t offset, int access, int place) {
  auto* at = file_ ? ::mmap(as_pointer(begin), bytes, access,
                            MAP_SHARED | MAP_NORESERVE | place, file_.get(),
                            static_cast<off_t>(offset))
                   : ::mmap(as_pointer(begin), bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | place,
                            -1, 0);
  if (at == MAP_FAILED)
    return false;
  auto there = at == as_pointer(begin);
  if (there && !file_) {
    // A length of 0 means another mapping of the same pages.
    auto* first = all_.data() + offset;
    there =
        ::mremap(first, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at &&
        ::mprotect(at, bytes, access) == 0;
    ::madvise(at, bytes, MADV_DODUMP);
  }
  if (!there)
    ::munmap(at, bytes);
  return there;
}

std::optional<std::uint64_t> managed_memory::offset_of(device_address begin,
                                                       std::uint64_t bytes) {
  // The windows follow one another, in the program's order of its devices.
  static_assert(first_window % window_bytes == 0);
  if (auto device = here().device_of(begin); device)
    return *device * window_bytes + begin % window_bytes;
  if (bytes > all_.size() - beyond_)
    return std::nullopt;
  return std::exchange(beyond_, beyond_ + bytes);
}

bool managed_memory::insert(device_address begin, std::uint64_t bytes,
                            std::uint8_t device, block first) {
  auto offset = offset_of(begin, bytes);
  if (!offset)
    return false;
  if (!faults_)
    watch_managed_memory();
  auto access =
      first == block::fresh || faults_ ? PROT_READ | PROT_WRITE : PROT_NONE;
  auto place = in_window(begin) ? MAP_FIXED : MAP_FIXED_NOREPLACE;
  if (!show(begin, bytes, *offset, access, place))
    return false;
  auto* at = as_pointer(begin);
  auto watched = faults_ && first == block::at_device;
  if (watched && !faults_->watch(begin, bytes)) {
    ::munmap(at, bytes);
    return false;
  }
  // A forked child has no part in it: its touches would move nothing, and its
  // writes would go to the parent's bytes.
  ::madvise(at, bytes, MADV_DONTFORK);
  region fresh{.bytes = bytes,
               .offset = *offset,
               .device = device,
               .pieces = {},
               .blocks = std::vector<block>(blocks_in(bytes), first),
               .watched = watched};
  regions_.emplace(begin, std::move(fresh));
  regions_there_.fetch_add(1);
  return true;
}

CUresult managed_memory::add_allocation(const piece& what,
                                        std::uint8_t device) {
  std::lock_guard guard{mutex_};
  if (!open() ||
      !insert(what.address, page_behind(what.bytes), device, block::fresh))
    return CUDA_ERROR_OPERATING_SYSTEM;
  auto& made = regions_.at(what.address);
  made.pieces.push_back(what);
  note_at_host(made);
  return CUDA_SUCCESS;
}

bool managed_memory::add_variables(std::span<const piece> what,
                                   std::uint8_t device) {
  std::lock_guard guard{mutex_};
  if (!open())
    return false;
  std::vector<piece> sorted{what.begin(), what.end()};
  std::sort(sorted.begin(), sorted.end(),
            [](auto& a, auto& b) { return a.address < b.address; });
  auto end_of = [](const piece& x) {
    return page_behind(x.address + std::max<std::uint64_t>(x.bytes, 1));
  };
  // Variables whose pages are adjacent form one region.
  for (std::size_t i = 0; i < sorted.size();) {
    auto j = i + 1;
    for (auto end = end_of(sorted[i]);
         j < sorted.size() && page_of(sorted[j].address) <= end; ++j)
      end = std::max(end, end_of(sorted[j]));
    if (!add_page_run(std::span{sorted}.subspan(i, j - i), device))
      return false;
    i = j;
  }
  return true;
}

/// Adds variables whose pages are adjacent. Where they share a page with
/// another module's variables, that module's region takes them in.
bool managed_memory::add_page_run(std::span<const piece> what,
                                  std::uint8_t device) {
  auto begin = page_of(what.front().address);
  auto end = begin;
  for (auto& x : what)
    end = std::max(
        end, page_behind(x.address + std::max<std::uint64_t>(x.bytes, 1)));
  auto known = find(begin);
  if (known == regions_.end() &&
      !insert(begin, end - begin, device, block::at_device))
    return false;
  auto& in = *find(begin);
  if (end - in.first > in.second.bytes)
    // They reach beyond an existing region.
    return false;
  if (in.second.at_host)
    give(find(begin), std::next(find(begin)));
  in.second.pieces.insert(in.second.pieces.end(), what.begin(), what.end());
  return true;
}

void managed_memory::remove(device_address at) {
  std::lock_guard guard{mutex_};
  auto known = find(at);
  if (known == regions_.end())
    return;
  auto& [begin, x] = *known;
  std::erase_if(x.pieces, [&](const piece& y) { return y.address == at; });
  if (!x.pieces.empty())
    return;
  if (in_window(begin))
    ::mmap(as_pointer(begin), x.bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  else
    ::munmap(as_pointer(begin), x.bytes);
  ::madvise(bytes_of(x, begin, begin, x.bytes).data(), x.bytes, MADV_REMOVE);
  if (x.at_host)
    at_host_.fetch_sub(1);
  regions_.erase(known);
  regions_there_.fetch_sub(1);
}

managed_memory::region_map::iterator managed_memory::find(device_address at) {
  auto next = regions_.upper_bound(at);
  if (next == regions_.begin())
    return regions_.end();
  auto i = std::prev(next);
  return at - i->first < i->second.bytes ? i : regions_.end();
}

std::span<std::byte> managed_memory::bytes_of(const region& x,
                                              device_address region_begin,
                                              device_address at,
                                              std::uint64_t bytes) const {
  auto* all = static_cast<std::byte*>(all_.data());
  return {all + x.offset + (at - region_begin), bytes};
}

void managed_memory::note_at_host(region& x) {
  if (!std::exchange(x.at_host, true))
    at_host_.fetch_add(1);
}

// -- to the device
// ----------------------------------------------------------------

void managed_memory::hand_over() {
  std::lock_guard guard{mutex_};
  give(regions_.begin(), regions_.end());
}

void managed_memory::hand_over(device_address at, std::uint64_t bytes) {
  std::lock_guard guard{mutex_};
  auto first = find(at);
  if (first == regions_.end())
    first = regions_.lower_bound(at);
  give(first, regions_.lower_bound(at + bytes));
}

/// Gives the device the parts of these regions that the host has. It closes
/// adjacent regions together, because a program may have thousands of them.
void managed_memory::give(region_map::iterator first,
                          region_map::iterator last) {
  if (!faults_)
    watch_managed_memory();
  for (auto i = first; i != last;) {
    if (!i->second.at_host) {
      ++i;
      continue;
    }
    auto run = i;
    auto end = i->first;
    for (; i != last && i->second.at_host && i->first == end; ++i)
      end += i->second.bytes;
    close(run, i, end - run->first);
    for (; run != i; ++run) {
      send(*run);
      std::fill(run->second.blocks.begin(), run->second.blocks.end(),
                block::at_device);
      run->second.at_host = false;
      at_host_.fetch_sub(1);
    }
  }
}

/// Closes adjacent regions, of so many bytes, to the host.
void managed_memory::close(region_map::iterator first,
                           region_map::iterator last, std::uint64_t bytes) {
  auto at = first->first;
  if (!faults_) {
    ::mprotect(as_pointer(at), bytes, PROT_NONE);
    return;
  }
  if (std::any_of(first, last, [](auto& x) { return !x.second.watched; }))
    faults_->watch(at, bytes);
  for (auto i = first; i != last; ++i)
    i->second.watched = true;
  faults_->close(at, bytes);
}

void managed_memory::send(const region_map::value_type& x) {
  auto& blocks = x.second.blocks;
  for (std::size_t i = 0; i < blocks.size();) {
    auto same = i + 1;
    while (same < blocks.size() && blocks[same] == blocks[i])
      ++same;
    if (blocks[i] == block::writable || blocks[i] == block::fresh)
      send_blocks(x, i, same, blocks[i] == block::fresh);
    i = same;
  }
}

/// Sends blocks to the device. Of fresh blocks, the file holds only the pages
/// that the host has touched.
void managed_memory::send_blocks(const region_map::value_type& x,
                                 std::size_t first, std::size_t last,
                                 bool fresh) {
  auto& [begin, r] = x;
  auto from = first * block_bytes;
  auto to = std::min<std::uint64_t>(last * block_bytes, r.bytes);
  if (!fresh || !file_) {
    send_pieces(r, begin + from, begin + to, begin);
    return;
  }
  auto end = r.offset + to;
  for (auto at = r.offset + from; at < end;) {
    auto data = ::lseek(file_.get(), static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 || static_cast<std::uint64_t>(data) >= end)
      return;
    auto hole = ::lseek(file_.get(), data, SEEK_HOLE);
    auto stop =
        hole < 0 ? end : std::min(end, static_cast<std::uint64_t>(hole));
    send_pieces(r, begin + (static_cast<std::uint64_t>(data) - r.offset),
                begin + (stop - r.offset), begin);
    at = stop;
  }
}

void managed_memory::send_pieces(const region& x, device_address begin,
                                 device_address end,
                                 device_address region_begin) {
  for (auto& p : x.pieces) {
    auto from = std::max(begin, p.address);
    auto to = std::min(end, p.address + p.bytes);
    for (auto at = from; at < to;) {
      auto bytes = std::min<std::uint64_t>(to - at, max_payload);
      here().send(
          call::write_managed{at, bytes}, x.device,
          std::span<const std::byte>{bytes_of(x, region_begin, at, bytes)});
      at += bytes;
    }
  }
}

// -- to the host
// ------------------------------------------------------------------

bool managed_memory::touch(device_address at, bool writes) noexcept {
  if (process::now() != phase::running)
    return false;
  std::lock_guard guard{mutex_};
  auto known = find(at);
  if (known == regions_.end())
    return false;
  return let_in(*known, at, writes);
}

/// Moves the block at this address to the host. Returns false where it cannot
/// be opened, for instance because the process has too many mappings. Then the
/// program gets its fault.
bool managed_memory::let_in(region_map::value_type& to, device_address at,
                            bool writes) {
  auto& [begin, x] = to;
  auto first = static_cast<std::size_t>((at - begin) / block_bytes);
  auto last = first + 1;
  switch (x.blocks[first]) {
  case block::fresh:
  case block::writable:
    // Another thread has fetched the block already.
    return open_page(at, true);
  case block::readable:
    if (!writes)
      return open_page(at, false);
    break;
  case block::at_device:
    last = run_from(x, first);
    fetch(to, first, last);
    break;
  }
  // It is noted first, because the program continues as soon as the blocks are
  // open, and asks at its next launch whether the host has some.
  std::fill(x.blocks.begin() + static_cast<std::ptrdiff_t>(first),
            x.blocks.begin() + static_cast<std::ptrdiff_t>(last),
            writes ? block::writable : block::readable);
  note_at_host(x);
  return open_blocks(to, first, last, writes);
}

/// Opens the page again of a block that the host has. The kernel may drop a
/// page's mapping at any time, as a program may (MADV_DONTNEED).
bool managed_memory::open_page(device_address at, bool for_writes) {
  return !faults_ || faults_->open(page_of(at), page, for_writes);
}

bool managed_memory::open_blocks(region_map::value_type& in, std::size_t first,
                                 std::size_t last, bool for_writes) {
  auto& [begin, x] = in;
  auto at = begin + first * block_bytes;
  auto bytes =
      std::min<std::uint64_t>(begin + x.bytes, begin + last * block_bytes) - at;
  if (!faults_)
    return ::mprotect(as_pointer(at), bytes,
                      for_writes ? PROT_READ | PROT_WRITE : PROT_READ) == 0;
  // The file needs all pages, also those that were never written.
  ::madvise(bytes_of(x, begin, at, bytes).data(), bytes, MADV_POPULATE_READ);
  return faults_->open(at, bytes, for_writes);
}

void managed_memory::serve() {
  while (auto what = faults_->next())
    serve(*what);
  log_line(log_level::error, "the program has closed the descriptor by which "
                             "managed memory is served");
  for (;;)
    ::pause();
}

void managed_memory::serve(const page_faults::touch& what) noexcept {
  std::lock_guard guard{mutex_};
  auto known = find(what.at);
  auto begin = page_of(what.at);
  if (known != regions_.end() && !let_in(*known, what.at, what.writes))
    // The program gets its fault.
    ::mprotect(as_pointer(begin), page, PROT_NONE);
  // The program may have freed the memory.
  faults_->wake(begin, page);
}

/// Returns the end of a run of device blocks that begins at `at`. The run is as
/// long as the run of host blocks in front of it, and one block more.
std::size_t managed_memory::run_from(const region& x,
                                     std::size_t at) const noexcept {
  auto before = std::size_t{0};
  while (before < at && before + 1 < longest_run &&
         x.blocks[at - before - 1] != block::at_device)
    ++before;
  auto last = at + 1;
  while (last < x.blocks.size() && last - at <= before &&
         x.blocks[last] == block::at_device)
    ++last;
  return last;
}

void managed_memory::fetch(const region_map::value_type& x, std::size_t first,
                           std::size_t last) {
  auto begin = x.first + first * block_bytes;
  auto end =
      x.first + std::min<std::uint64_t>(last * block_bytes, x.second.bytes);
  for (auto& p : x.second.pieces) {
    auto from = std::max(begin, p.address);
    auto to = std::min(end, p.address + p.bytes);
    if (from < to)
      fetch_piece(x, from, to - from);
  }
}

/// Fetches bytes from the device. Where the session's work has ended in an
/// error, or the session is lost, the program sees its old bytes, and its next
/// call returns the error.
void managed_memory::fetch_piece(const region_map::value_type& x,
                                 device_address at, std::uint64_t bytes) {
  try {
    auto& s = here();
    auto got = s.ask(call::read_managed{at, bytes, {room_->offset(), bytes}},
                     x.second.device);
    if (got.result == CUDA_SUCCESS)
      std::memcpy(bytes_of(x.second, x.first, at, bytes).data(),
                  room_->bytes().data(), bytes);
  } catch (const std::exception&) {
    // A signal handler cannot report it.
  }
}

} // namespace vgpu::interposer
