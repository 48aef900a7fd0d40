#include "devices/cpu/memory/shared_memory.hpp"

#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace vgpu::device::cpu {

namespace {

constexpr std::size_t copied_at_once = 64 << 10;

bool all_zero(const std::byte* from, std::size_t bytes) {
  return from[0] == std::byte{0} && std::memcmp(from, from + 1, bytes - 1) == 0;
}

/// Copies all but zeroes to a new file, whose pages are zero where nothing was
/// written.
status copy_to_file(int file, const std::byte* from, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += copied_at_once) {
    auto size = std::min<std::uint64_t>(copied_at_once, bytes - at);
    if (all_zero(from + at, size))
      continue;
    if (::pwrite(file, from + at, size, static_cast<off_t>(at)) !=
        static_cast<ssize_t>(size))
      return cuda_fault(
          CUDA_ERROR_OUT_OF_MEMORY,
          std::string{"shared memory: cannot allocate host memory: "} +
              std::strerror(errno));
  }
  return {};
}

} // namespace

result<shared_descriptor> to_file(const void* from, std::uint64_t bytes) {
  auto file = make_sealed_memory("vgpu shared memory", bytes);
  if (!file)
    return file.why();
  if (auto ok =
          copy_to_file(file->get(), static_cast<const std::byte*>(from), bytes);
      !ok)
    return ok.why();
  return shared_descriptor{std::make_shared<unique_fd>(std::move(*file))};
}

status shared_memory::move(device_address address, std::uint64_t bytes) {
  auto file = to_file(reinterpret_cast<const void*>(address), bytes);
  if (!file)
    return file.why();
  if (auto ok = in_.replace(address, bytes, (*file)->get()); !ok)
    return ok;
  parts_.insert_or_assign(address, part{bytes, std::move(*file)});
  return {};
}

/// Makes each granule that reaches beyond the range a part of its own, because
/// it may outlive the range and then hold another allocation.
result<shared_granules> shared_memory::share(device_address address,
                                             std::uint64_t bytes) {
  auto first = address / granule_bytes * granule_bytes;
  auto last = (address + bytes - 1) / granule_bytes * granule_bytes;
  auto is_whole = [&](device_address at) {
    return at >= address && at + granule_bytes <= address + bytes;
  };
  shared_granules out;
  out.bytes = last + granule_bytes - first;
  for (auto at = first; at <= last;) {
    auto end = at + granule_bytes;
    while (is_whole(at) && end <= last && is_whole(end))
      end += granule_bytes;
    if (!parts_.contains(at))
      if (auto ok = move(at, end - at); !ok)
        return ok.why();
    auto& made = parts_.at(at);
    out.what.words.push_back(made.bytes);
    out.what.descriptors.push_back(made.file);
    at += made.bytes;
  }
  return out;
}

void shared_memory::forget(device_address address, std::uint64_t bytes) {
  parts_.erase(parts_.lower_bound(address),
               parts_.lower_bound(address + bytes));
}

} // namespace vgpu::device::cpu
