#include "devices/nvidia/memory/device_copies.hpp"

#include "schema/base/cuda_fault.hpp"

#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>

namespace vgpu::device::nvidia {

namespace {

constexpr std::uint64_t page = 4096;
/// The driver copies up to this many bytes of pageable memory into its own
/// queue without waiting for the device (CUDA driver API, "API synchronization
/// behavior").
constexpr std::size_t taken_at_once = std::size_t{64} << 10;
/// cuMemcpy2D accepts no larger pitch.
constexpr std::uint64_t most_pitch = 2147483647;

/// Memory for reads is pinned in pieces of this size, at the first read into
/// the piece of at least pinned_for bytes.
constexpr std::size_t landing_piece = std::size_t{4} << 20;
constexpr std::size_t pinned_for = std::size_t{16} << 10;

struct pages {
  std::uint64_t begin, end;
};
pages pages_of(std::uint64_t address, std::uint64_t bytes) {
  return {address / page * page, (address + bytes + page - 1) / page * page};
}

/// Returns the mode for a read. The caller notices the end of a short read
/// sooner than another thread would report it. A long read leaves the caller
/// time for further work.
completion_mode mode_of_read(std::span<const std::byte> bytes) {
  return bytes.size() <= taken_at_once ? completion_mode::spin_first
                                       : completion_mode::polled;
}

std::uint64_t pitch_of(const pitched& x, const extent& size) {
  return size.height > 1 ? x.pitch : std::max(x.pitch, size.width);
}

} // namespace

// -- host memory --------------------------------------------------------------

status copies::attach(device_address address, std::uint64_t bytes) {
  auto [begin, end] = pages_of(address, bytes);
  if (begin == end)
    return {};
  if (auto code =
          api_->cuMemHostRegister(reinterpret_cast<void*>(begin), end - begin,
                                  CU_MEMHOSTREGISTER_PORTABLE);
      code != CUDA_SUCCESS)
    return api_->failed(code, "cannot pin " + std::to_string(bytes) +
                                  " bytes of host memory");
  attached_[begin] = end;
  return {};
}

status copies::detach(device_address address, std::uint64_t bytes) {
  auto begin = pages_of(address, bytes).begin;
  if (attached_.erase(begin) == 0)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "the host memory to unpin is not pinned");
  return api_->check(api_->cuMemHostUnregister(reinterpret_cast<void*>(begin)),
                     "cuMemHostUnregister");
}

bool copies::attached(const void* at, std::uint64_t bytes) const {
  auto address = reinterpret_cast<std::uintptr_t>(at);
  auto next = attached_.upper_bound(address);
  if (next == attached_.begin())
    return false;
  return address + bytes <= std::prev(next)->second;
}

/// Returns a buffer, and waits until one is free. It does not wait while a
/// stream waits for a host function, because this same thread has yet to
/// execute the call that reports the function's end.
result<staging::buffer> copies::buffer(std::size_t bytes) {
  for (;;) {
    auto got = staging_.take(bytes, streams_.host_calls_pending());
    if (!got || *got)
      return got;
    std::this_thread::sleep_for(std::chrono::microseconds{20});
  }
}

// -- to and from the program --------------------------------------------------

status copies::to_device(CUstream in, device_address to, const void* from,
                         std::size_t bytes, bool in_window) {
  if (arrays_.holds(to))
    return copy_flat(in, to, reinterpret_cast<device_address>(from), bytes);
  // cuMemcpyHtoD does not accept an address in the host window as a device
  // pointer.
  auto code = in_window
                  ? api_->cuMemcpyHtoDAsync(to, from, bytes, in)
                  : api_->cuMemcpyAsync(to, reinterpret_cast<CUdeviceptr>(from),
                                        bytes, in);
  return api_->check(code, "a copy to the device");
}

status copies::from_device(CUstream in, std::byte* to, device_address from,
                           std::size_t bytes) {
  if (arrays_.holds(from))
    return copy_flat(in, reinterpret_cast<device_address>(to), from, bytes);
  return api_->check(
      api_->cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, in),
      "a copy from the device");
}

status copies::write(stream_id in, device_address to,
                     std::span<const std::byte> bytes, bool in_window) {
  // The driver's rule for pageable memory covers plain copies alone, and not
  // copies to arrays.
  if (bytes.size() <= taken_at_once && !arrays_.holds(to)) {
    auto stream = streams_.work_in(in);
    if (!stream)
      return stream.why();
    return to_device(*stream, to, bytes.data(), bytes.size(), in_window);
  }
  while (!bytes.empty()) {
    auto part = bytes.first(std::min(bytes.size(), staging::large_bytes));
    streams_.pause(in);
    auto room = buffer(part.size());
    if (!room)
      return room.why();
    std::memcpy(room->get(), part.data(), part.size());
    auto stream = streams_.work_in(in);
    if (!stream)
      return stream.why();
    if (auto ok = to_device(*stream, to, room->get(), part.size(), in_window);
        !ok)
      return ok;
    streams_.when_done(
        in, CUDA_SUCCESS, [held = *room](CUresult) {},
        completion_mode::cleanup);
    to += part.size();
    bytes = bytes.subspan(part.size());
  }
  return {};
}

/// Returns the first part of `bytes` that lies in one piece of `landing_`.
std::span<std::byte> copies::piece_at(std::span<std::byte> bytes) const {
  auto offset = static_cast<std::size_t>(bytes.data() - landing_.data());
  auto left = landing_piece - offset % landing_piece;
  return bytes.first(std::min(left, bytes.size()));
}

/// Tells whether the device reaches these bytes. Pins the pieces that are not
/// pinned yet.
bool copies::can_land(std::span<std::byte> bytes) {
  auto* begin = landing_.data();
  if (bytes.data() < begin || bytes.data() >= begin + landing_.size())
    return false;
  while (!bytes.empty()) {
    auto part = piece_at(bytes);
    bytes = bytes.subspan(part.size());
    if (attached(part.data(), part.size()))
      continue;
    if (part.size() < pinned_for)
      return false;
    auto offset = static_cast<std::size_t>(part.data() - begin);
    auto first = offset / landing_piece * landing_piece;
    auto size = std::min(landing_piece, landing_.size() - first);
    if (!attach(reinterpret_cast<std::uintptr_t>(begin + first), size))
      return false;
  }
  return true;
}

status copies::read(stream_id in, std::span<std::byte> bytes,
                    device_address from, CUresult so_far, completion done) {
  if (can_land(bytes))
    return read_landed(in, bytes, from, so_far, std::move(done));
  if (!attached(bytes.data(), bytes.size()))
    return read_staged(in, bytes, from, so_far, std::move(done));
  auto stream = streams_.work_in(in);
  if (!stream)
    return stream.why();
  if (auto ok = from_device(*stream, bytes.data(), from, bytes.size()); !ok)
    return ok;
  streams_.when_done(in, so_far, std::move(done), mode_of_read(bytes));
  return {};
}

/// Reads piece by piece, because the driver does not copy across the border of
/// two pinned pieces.
status copies::read_landed(stream_id in, std::span<std::byte> bytes,
                           device_address from, CUresult so_far,
                           completion done) {
  auto mode = mode_of_read(bytes);
  auto stream = streams_.work_in(in);
  if (!stream)
    return stream.why();
  while (!bytes.empty()) {
    auto part = piece_at(bytes);
    if (auto ok = from_device(*stream, part.data(), from, part.size()); !ok)
      return ok;
    from += part.size();
    bytes = bytes.subspan(part.size());
  }
  streams_.when_done(in, so_far, std::move(done), mode);
  return {};
}

status copies::read_staged(stream_id in, std::span<std::byte> bytes,
                           device_address from, CUresult so_far,
                           completion done) {
  auto mode = mode_of_read(bytes);
  while (!bytes.empty()) {
    auto part = bytes.first(std::min(bytes.size(), staging::large_bytes));
    bytes = bytes.subspan(part.size());
    auto room = buffer(part.size());
    if (!room)
      return room.why();
    auto stream = streams_.work_in(in);
    if (!stream)
      return stream.why();
    if (auto ok = from_device(*stream, room->get(), from, part.size()); !ok)
      return ok;
    from += part.size();
    auto arrive = [held = *room, part,
                   tell = bytes.empty() ? std::move(done)
                                        : completion{}](CUresult outcome) {
      if (outcome == CUDA_SUCCESS)
        std::memcpy(part.data(), held.get(), part.size());
      if (tell)
        tell(outcome);
    };
    streams_.when_done(in, so_far, std::move(arrive), mode);
  }
  return {};
}

// -- arrays -------------------------------------------------------------------

namespace {

void set_from(CUDA_MEMCPY3D& x, const arrays::part& at) {
  x.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  x.srcArray = at.in;
  x.srcXInBytes = at.x;
  x.srcY = at.y;
  x.srcZ = at.z;
}
void set_to(CUDA_MEMCPY3D& x, const arrays::part& at) {
  x.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  x.dstArray = at.in;
  x.dstXInBytes = at.x;
  x.dstY = at.y;
  x.dstZ = at.z;
}
void set_from(CUDA_MEMCPY3D& x, const pitched& at) {
  x.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  x.srcDevice = at.address;
  x.srcPitch = std::max(at.pitch, x.WidthInBytes);
  x.srcHeight = x.Depth > 1 ? at.slice / x.srcPitch : x.Height;
}
void set_to(CUDA_MEMCPY3D& x, const pitched& at) {
  x.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  x.dstDevice = at.address;
  x.dstPitch = std::max(at.pitch, x.WidthInBytes);
  x.dstHeight = x.Depth > 1 ? at.slice / x.dstPitch : x.Height;
}

bool same_box(const arrays::part& a, const arrays::part& b) {
  return a.width == b.width && a.height == b.height && a.depth == b.depth;
}

} // namespace

/// Copies consecutive bytes, from or to an array or both, box by box.
status copies::copy_flat(CUstream in, device_address to, device_address from,
                         std::uint64_t bytes) {
  auto to_array = arrays_.holds(to);
  auto from_array = arrays_.holds(from);
  while (bytes != 0) {
    result<arrays::part> a = arrays::part{};
    result<arrays::part> b = arrays::part{};
    if (to_array)
      a = arrays_.first_part(to, bytes);
    if (from_array)
      b = arrays_.first_part(from, bytes);
    if (a && b && to_array && from_array && !same_box(*a, *b)) {
      a = arrays_.first_run(to, bytes);
      if (a)
        b = arrays_.first_run(from, a->width);
      if (a && b)
        a->width = b->width;
    }
    if (!a || !b)
      return a ? b.why() : a.why();
    auto& box = to_array ? *a : *b;
    CUDA_MEMCPY3D x{};
    x.WidthInBytes = box.width;
    x.Height = box.height;
    x.Depth = box.depth;
    pitched dense{0, box.width, box.width * box.height};
    auto end = [&](device_address at) {
      dense.address = at;
      return dense;
    };
    to_array ? set_to(x, *a) : set_to(x, end(to));
    from_array ? set_from(x, *b) : set_from(x, end(from));
    // Bytes between two levels belong to no array.
    auto gap =
        (to_array && a->in == nullptr) || (from_array && b->in == nullptr);
    if (!gap)
      if (auto code = api_->cuMemcpy3DAsync(&x, in); code != CUDA_SUCCESS)
        return api_->failed(code, "a copy of an array");
    to += box.bytes();
    from += box.bytes();
    bytes -= box.bytes();
  }
  return {};
}

/// Copies a box whose rows and slices match the rows and slices of the arrays
/// that it touches.
status copies::copy_box(CUstream in, const pitched& to, const pitched& from,
                        const extent& size) {
  CUDA_MEMCPY3D x{};
  x.WidthInBytes = size.width;
  x.Height = size.height;
  x.Depth = size.depth;
  for (auto is_to : {true, false}) {
    auto& at = is_to ? to : from;
    if (!arrays_.holds(at.address)) {
      is_to ? set_to(x, at) : set_from(x, at);
      continue;
    }
    auto part = arrays_.first_run(at.address, size.width);
    if (!part)
      return part.why();
    is_to ? set_to(x, *part) : set_from(x, *part);
  }
  return api_->check(api_->cuMemcpy3DAsync(&x, in), "a copy of an array");
}

// -- on the device ------------------------------------------------------------

status copies::copy(stream_id in, const pitched& to, const pitched& from,
                    const extent& size) {
  if (size.width == 0 || size.height == 0 || size.depth == 0)
    return {};
  auto stream = streams_.work_in(in);
  if (!stream)
    return stream.why();
  if (arrays_.holds(to.address) || arrays_.holds(from.address))
    return size.height == 1 && size.depth == 1
               ? copy_flat(*stream, to.address, from.address, size.width)
               : copy_box(*stream, to, from, size);
  if (size.height == 1 && size.depth == 1)
    return api_->check(
        api_->cuMemcpyAsync(to.address, from.address, size.width, *stream),
        "cuMemcpyAsync");
  CUDA_MEMCPY2D x = {};
  x.srcMemoryType = x.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  x.srcPitch = pitch_of(from, size);
  x.dstPitch = pitch_of(to, size);
  x.WidthInBytes = size.width;
  x.Height = size.height;
  auto by_row = x.srcPitch > most_pitch || x.dstPitch > most_pitch;
  for (std::uint64_t z = 0; z < size.depth; ++z) {
    x.srcDevice = from.address + z * from.slice;
    x.dstDevice = to.address + z * to.slice;
    auto code = CUDA_SUCCESS;
    if (!by_row)
      code = api_->cuMemcpy2DAsync(&x, *stream);
    for (std::uint64_t y = 0; by_row && y < size.height && code == CUDA_SUCCESS;
         ++y)
      code = api_->cuMemcpyAsync(x.dstDevice + y * to.pitch,
                                 x.srcDevice + y * from.pitch, size.width,
                                 *stream);
    if (code != CUDA_SUCCESS)
      return api_->failed(code, "a copy on the device");
  }
  return {};
}

CUresult copies::fill_rows(CUstream in, device_address at, std::uint64_t pitch,
                           std::uint32_t value, std::uint32_t element_bytes,
                           std::uint64_t width, std::uint64_t height) {
  auto flat = height == 1 || pitch == width * element_bytes;
  auto count = width * height;
  auto byte = static_cast<unsigned char>(value);
  auto half = static_cast<unsigned short>(value);
  switch (element_bytes) {
  case 1:
    return flat ? api_->cuMemsetD8Async(at, byte, count, in)
                : api_->cuMemsetD2D8Async(at, pitch, byte, width, height, in);
  case 2:
    return flat ? api_->cuMemsetD16Async(at, half, count, in)
                : api_->cuMemsetD2D16Async(at, pitch, half, width, height, in);
  case 4:
    return flat ? api_->cuMemsetD32Async(at, value, count, in)
                : api_->cuMemsetD2D32Async(at, pitch, value, width, height, in);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

status copies::fill(stream_id in, const pitched& to, std::uint32_t value,
                    std::uint32_t element_bytes, const extent& size) {
  if (size.width == 0 || size.height == 0 || size.depth == 0)
    return {};
  auto stream = streams_.work_in(in);
  if (!stream)
    return stream.why();
  for (std::uint64_t z = 0; z < size.depth; ++z)
    if (auto code = fill_rows(*stream, to.address + z * to.slice, to.pitch,
                              value, element_bytes, size.width, size.height);
        code != CUDA_SUCCESS)
      return api_->failed(code, "a fill");
  return {};
}

} // namespace vgpu::device::nvidia
