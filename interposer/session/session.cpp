#include "interposer/session/session.hpp"

#include "interposer/session/process.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/session/stdio_plug.hpp"
#include "interposer/session/uncancelled.hpp"
#include "interposer/session/visible_devices.hpp"
#include "interposer/session/write_all.hpp"
#include "schema/base/cuda_fault.hpp"
#include "schema/base/own_environment.hpp"
#include "schema/base/sizes.hpp"
#include "schema/log/memory_size.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace vgpu::interposer {

namespace {

constexpr std::uint64_t pinned_step = 4096;
/// Waiting threads busy-poll this long for an answer even where the worker may
/// need the processor. With a mapped log, some answers come within a
/// microsecond.
constexpr std::chrono::microseconds busy_poll_where_scarce{20};

std::uint64_t physical_memory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Returns the largest size of the journal in bytes, as a power of two:
/// VGPU_JOURNAL, or a quarter of the machine's memory.
result<std::uint64_t> journal_capacity() {
  auto wanted = std::min(physical_memory() / 4, std::uint64_t{16} << 30);
  if (const auto* text = setting("VGPU_JOURNAL"); text != nullptr) {
    auto given = parse_size(text);
    if (!given)
      return fault{fault_kind::usage, "VGPU_JOURNAL: " + given.why().what};
    wanted = *given;
  }
  return std::bit_floor(
      std::clamp(wanted, std::uint64_t{64} << 20, maximum_log));
}

std::uint64_t pinned_capacity() {
  auto bytes = std::min(physical_memory(), window_bytes);
  return bytes / granule_bytes * granule_bytes;
}

/// Makes the memory of a session. Where a limit for the size of files is too
/// small, the parts of the memory are as large as it permits.
result<session_area> create_area(std::uint64_t journal) {
  auto most = largest_file();
  auto pinned = pinned_capacity();
  auto area = session_area::create(journal, pinned);
  if (area || most / 2 >= pinned)
    return area;
  log_line(log_level::warn,
           "RLIMIT_FSIZE permits files of " + std::to_string(most) +
               " bytes, which limits the journal and pinned memory");
  return session_area::create(
      std::min(journal, std::bit_floor(std::min(most, journal) * log_files)),
      std::min(pinned, most / 2 / granule_bytes * granule_bytes));
}

fault system_fault(const std::string& what) {
  return {fault_kind::system, what + ": " + std::strerror(errno)};
}

call::digest digest_of(std::span<const std::byte> bytes) {
  auto hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

} // namespace

session::session(session_area area, unique_fd doorbell, busy_poll_limits limits)
    : area_(std::move(area)), doorbell_(std::move(doorbell)),
      log_(
          area_, doorbell_.get(),
          [this](std::uint64_t bytes) {
            log_line(log_level::info, "the journal reached " +
                                          std::to_string(bytes) +
                                          " bytes; asking for a snapshot");
            std::lock_guard guard{channel_mutex_};
            channel_.report_filling(bytes);
          },
          [this](std::size_t parts, auto& job) { writers_.run(parts, job); }),
      slots_(area_, limits), arena_(area_), idle_([this] { check_client(); }) {}

session::~session() = default;

result<std::unique_ptr<session>> session::open() {
  uncancelled through;
  stdio_plug plug;
  auto journal = journal_capacity();
  if (!journal)
    return journal.why();
  auto polling = chosen_busy_poll();
  if (!polling)
    return polling.why();
  auto area = create_area(*journal);
  if (!area)
    return area.why();
  unique_fd doorbell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!doorbell)
    return system_fault("cannot make a doorbell");
  std::unique_ptr<session> self{
      new session(std::move(*area), std::move(doorbell),
                  polling->limits(busy_poll_where_scarce))};
  self->states_ = state_places::create(state_folder());
  const auto* protect = setting("VGPU_PROTECT");
  if (protect != nullptr && std::string_view{protect} == "none")
    self->area_.header().protection_level.store(
        static_cast<std::uint32_t>(protection::none));
  auto granted = self->channel_.greet(self->area_, self->doorbell_.get(),
                                      self->states_.descriptors(), false);
  if (!granted)
    return granted.why();
  self->grant_ = std::move(*granted);
  if (self->grant_.quota == 0)
    self->grant_.quota = self->grant_.devices.front().total_memory;
  return self;
}

status session::use_devices() {
  auto ok = choose_devices();
  if (ok)
    ok = reserve_windows();
  if (!ok) {
    wire_.clear();
    devices_.clear();
    spaces_.clear();
    windows_.clear();
  }
  return ok;
}

std::uint64_t session::used_of_leased(std::size_t index) const {
  auto seen = std::find(wire_.begin(), wire_.end(), index);
  return seen == wire_.end()
             ? 0
             : spaces_[static_cast<std::size_t>(seen - wire_.begin())]->used();
}

status session::choose_devices() {
  // A vGPU's devices have one order, but the driver checks the wish for one.
  if (const auto* order = std::getenv("CUDA_DEVICE_ORDER");
      order != nullptr && !is_device_order(order))
    return cuda_fault(CUDA_ERROR_INVALID_DEVICE,
                      "CUDA_DEVICE_ORDER is neither FASTEST_FIRST nor "
                      "PCI_BUS_ID: '" +
                          std::string{order} + "'");
  const auto* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) {
    wire_.resize(grant_.devices.size());
    std::iota(wire_.begin(), wire_.end(), std::uint8_t{0});
  } else if (auto chosen = visible_devices(visible, grant_.devices)) {
    wire_ = std::move(*chosen);
  } else {
    return chosen.why();
  }
  for (auto d : wire_)
    devices_.push_back(grant_.devices[d]);
  return {};
}

status session::reserve_windows() {
  if (!host_mapped_)
    if (auto ok = area_.map_host(); !ok)
      return ok;
  host_mapped_ = true;
  for (std::size_t d = 0; d < devices().size(); ++d) {
    auto base = window_of(wire_[d]);
    auto* wanted = reinterpret_cast<void*>(base);
    auto* at = ::mmap(wanted, window_bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                          MAP_FIXED_NOREPLACE,
                      -1, 0);
    if (at == MAP_FAILED)
      return system_fault("cannot reserve the device's window of addresses");
    windows_.emplace_back(at, window_bytes);
    if (at != wanted)
      return fault{fault_kind::system,
                   "the device's window of addresses is taken"};
    spaces_.push_back(std::make_unique<address_space>(
        base, device_placed_offset, grant_.quota, 512, &area_.header().quota,
        &area_.header().used[wire_[d]]));
  }
  host_space_ = std::make_unique<address_space>(host_window, area_.host_bytes(),
                                                area_.host_bytes(), pinned_step,
                                                nullptr, nullptr, pinned_step);
  return {};
}

std::optional<std::uint8_t>
session::device_of(device_address at) const noexcept {
  auto found = std::find(wire_.begin(), wire_.end(), device_at(at));
  if (found == wire_.end())
    return std::nullopt;
  return static_cast<std::uint8_t>(found - wire_.begin());
}

void session::forget_pages(device_address at, std::uint64_t bytes) noexcept {
  auto whole = (bytes + pinned_step - 1) / pinned_step * pinned_step;
  ::madvise(reinterpret_cast<void*>(at), whole, MADV_REMOVE);
}

void session::begin_sharing() {
  if (shares_.exchange(true))
    return;
  (void)area_.lower_protection();
  log_line(log_level::info, "the session shares memory or events with another "
                            "process, and is no longer protected");
  std::lock_guard guard{channel_mutex_};
  channel_.report_sharing();
}

CUresult session::synchronise(std::uint8_t device) {
  session_part::get().at_wait.run();
  if (auto clean = clean_[device].load(std::memory_order_acquire);
      clean != 0 && clean == tail()) {
    session_part::get().after_wait.run();
    return sticky();
  }
  session_part::get().before_wait.run();
  call::device_sync what;
  auto x = begin(what, device);
  auto got = finish(x);
  session_part::get().after_wait.run();
  deliver_console();
  if (got.result != CUDA_SUCCESS)
    return got.result;
  auto& done = done_[device];
  for (auto known = done.load(); known < x.call.value;)
    if (done.compare_exchange_weak(known, x.call.value))
      break;
  clean_[device].store(x.call.value +
                           record_bytes(call::message_words(what), 0),
                       std::memory_order_release);
  spaces_[device]->settle(x.call.value);
  return CUDA_SUCCESS;
}

void session::deliver_console() {
  for (auto where : {console::output, console::error}) {
    if (!area_.has_text(where))
      continue;
    std::lock_guard guard{console_mutex_};
    auto text = area_.take_text(where);
    print_all(where == console::output ? stdout : stderr, text);
  }
}

/// Writes each of the log's files on a thread of its own. More threads would
/// wait for each other.
void session::write_parts(std::span<const reservation> places,
                          std::span<const std::byte> payload) {
  writers_.run(log_files, [&](std::size_t file) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (log_.file_of(places[i]) != file)
        continue;
      log_.write(places[i], payload.subspan(i * max_payload, max_payload));
      log_.commit(places[i], 0);
    }
  });
}

call::digest session::publish_image(std::span<const std::byte> image) {
  auto digest = digest_of(image);
  // The lock is held while copying, so that another thread that loads the same
  // image finds all of it.
  std::lock_guard guard{images_mutex_};
  if (!images_.insert(digest).second)
    return digest;
  for (std::uint64_t at = 0; at < image.size();) {
    auto part = image.subspan(
        at, std::min<std::uint64_t>(image.size() - at, max_payload));
    send(call::image_part{digest, at, image.size()}, 0, part);
    at += part.size();
  }
  return digest;
}

void session::check_client() {
  if (process::now() == phase::ended)
    throw session_lost{"the program is exiting"};
  uncancelled through;
  std::lock_guard guard{channel_mutex_};
  if (!channel_.hung_up())
    return;
  log_line(log_level::warn, "the client has ended; connecting to another one");
  if (lost_.load() == 0) {
    auto again =
        channel_.greet(area_, doorbell_.get(), states_.descriptors(), true);
    if (again) {
      log_.ring();
      return;
    }
    log_line(log_level::error, "the session is lost: " + again.why().what);
    lost_.store(CUDA_ERROR_DEVICE_UNAVAILABLE);
  }
  throw session_lost{"no client is available"};
}

void session::abandon_in_child() noexcept {
  channel_.close();
}

void session::finish() noexcept {
  // The client learns of the end when the kernel closes the socket.
}

} // namespace vgpu::interposer
