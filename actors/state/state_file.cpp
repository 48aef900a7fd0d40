#include "actors/state/state_file.hpp"

#include "actors/state/state_index.hpp"

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vgpu {

namespace {

struct file_header {
  std::array<char, 8> magic{'V', 'G', 'P', 'U', 'S', 'T', 'A', 'T'};
  std::uint32_t major = state_major;
  std::uint32_t minor = state_minor;
  std::uint64_t index_offset = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t index_hash = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t unused = 0;
  std::uint64_t hash = 0; // covers the members above

  std::uint64_t right_hash() const {
    return XXH3_64bits(this, offsetof(file_header, hash));
  }
};
static_assert(sizeof(file_header) == state_head_bytes);

constexpr std::uint64_t largest_index = std::uint64_t{1} << 30;
/// Returns the largest compressed size that is worth its time: three quarters.
constexpr std::size_t pays(std::size_t bytes) {
  return bytes / 4 * 3;
}
constexpr int compression_level = 1;

fault trouble(const char* what) {
  auto kind = errno == ENOSPC || errno == ENOMEM ? fault_kind::exhausted
                                                 : fault_kind::system;
  return {kind, std::string{"a vGPU's state: cannot "} + what + ": " +
                    std::strerror(errno)};
}

bool all_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} &&
          std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

result<state_head> head_of(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0)
    return trouble("tell its size");
  std::array<std::byte, state_head_bytes> bytes{};
  if (static_cast<std::uint64_t>(info.st_size) < bytes.size())
    return damaged_state("it ends too early");
  if (auto ok = read_state_bytes(fd, 0, bytes); !ok)
    return ok.why();
  return read_head(bytes, static_cast<std::uint64_t>(info.st_size));
}

} // namespace

status write_state_bytes(int fd, std::uint64_t at,
                         std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    auto n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return trouble("write it");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
  }
  return {};
}

status read_state_bytes(int fd, std::uint64_t at, std::span<std::byte> into) {
  while (!into.empty()) {
    auto n = ::pread(fd, into.data(), into.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return trouble("read it");
    if (n == 0)
      return damaged_state("it ends too early");
    into = into.subspan(static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
  }
  return {};
}

// -- writing ------------------------------------------------------------------

result<unique_fd> make_state_memory() {
  unique_fd fd{static_cast<int>(::memfd_create("vgpu-state", MFD_CLOEXEC))};
  if (!fd)
    return trouble("make memory for it");
  return fd;
}

bool lies_in_memory(int fd) {
  // Only such files have seals.
  return ::fcntl(fd, F_GET_SEALS) >= 0;
}

status begin_state(int fd) {
  constexpr std::array<std::byte, sizeof(file_header)> none{};
  return write_state_bytes(fd, 0, none);
}

status begin_state(int fd, std::uint64_t bytes) {
  if (auto ok = begin_state(fd); !ok)
    return ok;
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return trouble("begin it anew");
  return {};
}

status grow_state(int fd, std::uint64_t bytes) {
  struct stat info {};
  if (::fstat(fd, &info) != 0)
    return trouble("tell its size");
  if (static_cast<std::uint64_t>(info.st_size) < bytes &&
      ::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return trouble("make it longer");
  return {};
}

status store_contents(int fd, state_chunk& what,
                      std::span<const std::byte> bytes,
                      const place_of_chunk& place_of) {
  what.hash = XXH3_64bits(bytes.data(), bytes.size());
  what.form = all_zero(bytes) ? chunk_form::zero : chunk_form::raw;
  what.stored = what.form == chunk_form::zero ? 0 : what.bytes;
  if (what.form == chunk_form::raw) {
    auto place = place_of ? place_of(what) : std::span<std::byte>{};
    if (place.size() != bytes.size())
      return write_state_bytes(fd, what.offset, bytes);
    std::memcpy(place.data(), bytes.data(), bytes.size());
    return {};
  }
  // An earlier state may have left bytes there. A file system without holes
  // keeps them, but nothing reads them.
  (void)::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(what.offset),
                    static_cast<off_t>(bytes.size()));
  return {};
}

state_writer::state_writer(int fd, bool compress, std::uint64_t from)
    : fd_(fd), compressor_(compress ? ZSTD_createCCtx() : nullptr),
      end_(std::max<std::uint64_t>(from, sizeof(file_header))) {
  if (compress)
    scratch_.resize(ZSTD_compressBound(state_chunk_bytes));
}

state_writer::~state_writer() {
  ZSTD_freeCCtx(static_cast<ZSTD_CCtx*>(compressor_));
}

result<state_chunk> state_writer::add(std::uint64_t address,
                                      std::span<const std::byte> bytes) {
  state_chunk out{.address = address,
                  .bytes = static_cast<std::uint32_t>(bytes.size()),
                  .form = chunk_form::raw,
                  .stored = static_cast<std::uint32_t>(bytes.size()),
                  .offset = end_,
                  .hash = XXH3_64bits(bytes.data(), bytes.size())};
  if (all_zero(bytes)) {
    out.form = chunk_form::zero;
    out.stored = 0;
    return out;
  }
  auto stored = bytes;
  if (compressor_ != nullptr) {
    auto size = ZSTD_compressCCtx(
        static_cast<ZSTD_CCtx*>(compressor_), scratch_.data(), scratch_.size(),
        bytes.data(), bytes.size(), compression_level);
    if (!ZSTD_isError(size) && size < pays(bytes.size())) {
      out.form = chunk_form::zstd;
      out.stored = static_cast<std::uint32_t>(size);
      stored = std::span{scratch_}.first(size);
    }
  }
  if (auto ok = write_state_bytes(fd_, end_, stored); !ok)
    return ok.why();
  end_ += stored.size();
  return out;
}

result<std::uint64_t> state_writer::finish(const state_index& index) {
  auto words = encode_index(index);
  auto bytes = std::as_bytes(std::span{words});
  if (bytes.size() > largest_index)
    return fault{fault_kind::exhausted,
                 "a vGPU's state has an index of " +
                     std::to_string(bytes.size()) + " bytes, and " +
                     std::to_string(largest_index) + " are the most"};
  file_header header;
  header.index_offset = (end_ + 7) / 8 * 8;
  header.index_bytes = bytes.size();
  header.index_hash = XXH3_64bits(bytes.data(), bytes.size());
  header.file_bytes = header.index_offset + bytes.size();
  header.hash = header.right_hash();
  if (auto ok = write_state_bytes(fd_, header.index_offset, bytes); !ok)
    return ok.why();
  // The file may have been longer before.
  if (::ftruncate(fd_, static_cast<off_t>(header.file_bytes)) != 0)
    return trouble("end it");
  if (auto ok = write_state_bytes(fd_, 0, std::as_bytes(std::span{&header, 1}));
      !ok)
    return ok.why();
  return header.file_bytes;
}

// -- reading ------------------------------------------------------------------

result<state_head> read_head(std::span<const std::byte> bytes,
                             std::uint64_t file_bytes) {
  file_header header;
  if (bytes.size() != sizeof(header))
    return damaged_state("it ends too early");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != file_header{}.magic)
    return damaged_state("it has no header; its writing was not completed");
  if (header.hash != header.right_hash())
    return damaged_state("its header does not match its checksum");
  if (header.major != state_major)
    return fault{
        fault_kind::unsupported,
        "a vGPU's state is of version " + std::to_string(header.major) + "." +
            std::to_string(header.minor) +
            ", and this software reads version " + std::to_string(state_major) +
            "; use the release that wrote it"};
  if (header.file_bytes != file_bytes || header.index_bytes > largest_index ||
      header.index_bytes % sizeof(std::uint64_t) != 0 ||
      header.index_offset < sizeof(header) ||
      header.index_offset > file_bytes ||
      header.index_bytes != file_bytes - header.index_offset)
    return damaged_state("it has " + std::to_string(file_bytes) +
                         " bytes instead of " +
                         std::to_string(header.file_bytes));
  state_head out{{}, header.index_offset, header.index_hash, file_bytes};
  std::copy(bytes.begin(), bytes.end(), out.bytes.begin());
  return out;
}

status complete_state(int fd, const state_head& head) {
  return write_state_bytes(fd, 0, head.bytes);
}

result<state_reader> state_reader::open(int fd) {
  auto head = head_of(fd);
  if (!head)
    return head.why();
  return open(fd, *head);
}

result<state_reader> state_reader::open(int fd, const state_head& head) {
  std::vector<std::uint64_t> words((head.file_bytes - head.index_offset) /
                                   sizeof(std::uint64_t));
  auto bytes = std::as_writable_bytes(std::span{words});
  if (auto ok = read_state_bytes(fd, head.index_offset, bytes); !ok)
    return ok.why();
  if (XXH3_64bits(bytes.data(), bytes.size()) != head.index_hash)
    return damaged_state("its index does not match its checksum");
  auto index = decode_index(words, head.index_offset);
  if (!index)
    return index.why();
  state_reader out;
  out.fd_ = fd;
  out.bytes_ = head.file_bytes;
  out.index_ = std::move(*index);
  return out;
}

status state_reader::read(const state_chunk& what,
                          std::span<std::byte> into) const {
  if (into.size() != what.bytes)
    return damaged_state("a chunk of another size");
  if (what.form == chunk_form::zero) {
    std::fill(into.begin(), into.end(), std::byte{0});
  } else if (what.form == chunk_form::raw) {
    if (auto ok = read_state_bytes(fd_, what.offset, into); !ok)
      return ok;
  } else {
    std::vector<std::byte> stored(what.stored);
    if (auto ok = read_state_bytes(fd_, what.offset, stored); !ok)
      return ok;
    auto size =
        ZSTD_decompress(into.data(), into.size(), stored.data(), stored.size());
    if (ZSTD_isError(size) || size != into.size())
      return damaged_state("a chunk that cannot be decompressed");
  }
  if (XXH3_64bits(into.data(), into.size()) != what.hash)
    return damaged_state("contents at address " + std::to_string(what.address) +
                         " do not match their checksum");
  return {};
}

status save_state(int from, std::uint64_t bytes, const std::string& path) {
  auto fresh = path + ".new";
  unique_fd to{
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
  if (!to)
    return trouble("create its file");
  std::vector<std::byte> part(
      std::min<std::uint64_t>(bytes, state_chunk_bytes));
  for (std::uint64_t at = 0; at < bytes;) {
    auto piece =
        std::span{part}.first(std::min<std::uint64_t>(bytes - at, part.size()));
    auto ok = read_state_bytes(from, at, piece);
    if (ok)
      ok = write_state_bytes(to.get(), at, piece);
    if (!ok) {
      ::unlink(fresh.c_str());
      return ok;
    }
    at += piece.size();
  }
  if (::fdatasync(to.get()) != 0 ||
      ::rename(fresh.c_str(), path.c_str()) != 0) {
    auto why = trouble("complete its file");
    ::unlink(fresh.c_str());
    return why;
  }
  return {};
}

} // namespace vgpu
