#include "actors/state_file.hpp"

#include "schema/state.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
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
  std::uint64_t hash = 0; // of what is before

  std::uint64_t right_hash() const {
    return XXH3_64bits(this, offsetof(file_header, hash));
  }
};
static_assert(sizeof(file_header) == 64);

constexpr std::uint64_t largest_index = std::uint64_t{1} << 30;
/// Compressing costs time: only what becomes a quarter smaller at least.
constexpr std::size_t pays(std::size_t bytes) {
  return bytes / 4 * 3;
}
constexpr int compression_level = 1;

fault trouble(const char* what) {
  auto code = errno == ENOSPC || errno == ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY
                                                 : CUDA_ERROR_OPERATING_SYSTEM;
  return {code, std::string{"a vGPU's state: cannot "} + what + ": " +
                    std::strerror(errno)};
}

fault damaged(const std::string& what) {
  return {CUDA_ERROR_INVALID_VALUE,
          "a vGPU's state is damaged: " + what + "; it cannot be used"};
}

status write_at(int fd, std::uint64_t at, std::span<const std::byte> bytes) {
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

status read_at(int fd, std::uint64_t at, std::span<std::byte> into) {
  while (!into.empty()) {
    auto n = ::pread(fd, into.data(), into.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return trouble("read it");
    if (n == 0)
      return damaged("it ends too early");
    into = into.subspan(static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
  }
  return {};
}

bool all_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} &&
          std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// -- the index
// ---------------------------------------------------------------

void put(wire::StateChunk::Builder to, const state_chunk& x) {
  to.setAddress(x.address);
  to.setBytes(x.bytes);
  to.setForm(static_cast<wire::StateChunk::Form>(x.form));
  to.setStored(x.stored);
  to.setOffset(x.offset);
  to.setHash(x.hash);
}

template <class List>
void put_chunks(List to, const std::vector<state_chunk>& from) {
  for (unsigned i = 0; i < from.size(); ++i)
    put(to[i], from[i]);
}

unsigned count(const auto& list) {
  return static_cast<unsigned>(list.size());
}

void put(wire::State::Builder to, const state_index& x) {
  to.setPosition(x.position);
  to.setCalls(x.calls);
  auto consoles = to.initConsoles(count(x.consoles));
  for (unsigned i = 0; i < consoles.size(); ++i)
    consoles.set(i, x.consoles[i]);
  to.setDevices(x.devices);
  auto images = to.initImages(count(x.images));
  for (unsigned i = 0; i < images.size(); ++i) {
    images[i].setDigestLow(x.images[i].digest.low);
    images[i].setDigestHigh(x.images[i].digest.high);
    images[i].setBytes(x.images[i].bytes);
    put_chunks(images[i].initChunks(count(x.images[i].chunks)),
               x.images[i].chunks);
  }
  auto living = to.initLiving(count(x.living));
  for (unsigned i = 0; i < living.size(); ++i) {
    auto& [number, words] = x.living[i];
    living[i].setNumber(number);
    auto bytes = std::as_bytes(std::span{words});
    living[i].setMessage(
        {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()});
  }
  auto globals = to.initGlobals(count(x.globals));
  for (unsigned i = 0; i < globals.size(); ++i) {
    globals[i].setDevice(x.globals[i].device);
    globals[i].setModule(x.globals[i].module.value);
    globals[i].setName(x.globals[i].name.c_str());
    globals[i].setAddress(x.globals[i].address);
    globals[i].setBytes(x.globals[i].bytes);
  }
  put_chunks(to.initMemory(count(x.memory)), x.memory);
  auto placed = to.initPlaced(count(x.placed));
  for (unsigned i = 0; i < placed.size(); ++i) {
    placed[i].setDevice(x.placed[i].device);
    placed[i].setMemory(x.placed[i].memory.value);
    put_chunks(placed[i].initChunks(count(x.placed[i].chunks)),
               x.placed[i].chunks);
  }
  auto lent = to.initLent(count(x.lent));
  for (unsigned i = 0; i < lent.size(); ++i) {
    lent[i].setDevice(x.lent[i].device);
    lent[i].setAddress(x.lent[i].address);
    lent[i].setBytes(x.lent[i].bytes);
  }
  auto events = to.initEvents(count(x.events));
  for (unsigned i = 0; i < events.size(); ++i) {
    auto& [device, time] = x.events[i];
    events[i].setDevice(device);
    events[i].setEvent(time.event.value);
    events[i].setMilliseconds(time.milliseconds);
    events[i].setTimed(time.timed);
  }
}

struct bad_index {
  std::string what;
};

state_chunk get(wire::StateChunk::Reader x, std::uint64_t chunks_end) {
  state_chunk out{.address = x.getAddress(),
                  .bytes = x.getBytes(),
                  .form = static_cast<chunk_form>(x.getForm()),
                  .stored = x.getStored(),
                  .offset = x.getOffset(),
                  .hash = x.getHash()};
  if (out.form > chunk_form::zstd)
    throw bad_index{"a chunk of an unknown form"};
  auto wanted = out.form == chunk_form::zero  ? 0
                : out.form == chunk_form::raw ? out.bytes
                                              : out.stored;
  if (out.bytes == 0 || out.bytes > state_chunk_bytes || out.stored != wanted ||
      out.stored > ZSTD_compressBound(out.bytes) || out.offset > chunks_end ||
      out.stored > chunks_end - out.offset ||
      out.address + out.bytes < out.address)
    throw bad_index{"a chunk whose place is impossible"};
  return out;
}

std::vector<state_chunk> get_chunks(capnp::List<wire::StateChunk>::Reader from,
                                    std::uint64_t end) {
  std::vector<state_chunk> out;
  out.reserve(from.size());
  for (auto x : from)
    out.push_back(get(x, end));
  return out;
}

std::vector<std::uint64_t> get_words(capnp::Data::Reader from) {
  if (from.size() == 0 || from.size() % sizeof(std::uint64_t) != 0)
    throw bad_index{"a call of " + std::to_string(from.size()) + " bytes"};
  std::vector<std::uint64_t> out(from.size() / sizeof(std::uint64_t));
  std::memcpy(out.data(), from.begin(), from.size());
  return out;
}

state_image get_image(wire::StateImage::Reader x, std::uint64_t end) {
  state_image out{.digest = {x.getDigestLow(), x.getDigestHigh()},
                  .bytes = x.getBytes(),
                  .chunks = get_chunks(x.getChunks(), end)};
  std::uint64_t at = 0;
  for (auto& part : out.chunks) {
    if (part.address != at)
      throw bad_index{"an image with a gap"};
    at += part.bytes;
  }
  if (at != out.bytes)
    throw bad_index{"an image that is not whole"};
  return out;
}

state_placed get_placed(wire::PlacedMemory::Reader x, std::uint64_t end) {
  state_placed out{.device = x.getDevice(),
                   .memory = {x.getMemory()},
                   .chunks = get_chunks(x.getChunks(), end)};
  std::uint64_t at = 0;
  for (auto& part : out.chunks) {
    if (part.address < at)
      throw bad_index{"chunks of placed memory that are not in order"};
    at = part.address + part.bytes;
  }
  return out;
}

state_lent get_lent(wire::LentMemory::Reader x) {
  state_lent out{x.getDevice(), x.getAddress(), x.getBytes()};
  if (out.bytes == 0 || out.bytes > window_bytes ||
      out.bytes % granule_bytes != 0 || out.address % granule_bytes != 0 ||
      out.address < first_window)
    throw bad_index{"memory that is lent in no whole granules"};
  return out;
}

state_index get(wire::State::Reader x, std::uint64_t end) {
  state_index out;
  out.position = x.getPosition();
  out.calls = x.getCalls();
  auto consoles = x.getConsoles();
  for (unsigned i = 0;
       i < std::min<std::size_t>(consoles.size(), out.consoles.size()); ++i)
    out.consoles[i] = consoles[i];
  out.devices = x.getDevices();
  if (out.position % sizeof(std::uint64_t) != 0)
    throw bad_index{"it stands where no call begins"};
  for (auto image : x.getImages())
    out.images.push_back(get_image(image, end));
  std::uint64_t last = 0;
  for (auto living : x.getLiving()) {
    auto number = living.getNumber();
    if (number >= out.position || (!out.living.empty() && number <= last))
      throw bad_index{"calls that are not in order"};
    last = number;
    out.living.emplace_back(number, get_words(living.getMessage()));
  }
  for (auto y : x.getGlobals())
    out.globals.push_back({y.getDevice(),
                           {y.getModule()},
                           y.getName().cStr(),
                           y.getAddress(),
                           y.getBytes()});
  out.memory = get_chunks(x.getMemory(), end);
  for (auto y : x.getPlaced())
    out.placed.push_back(get_placed(y, end));
  for (auto y : x.getLent())
    out.lent.push_back(get_lent(y));
  for (auto y : x.getEvents())
    out.events.emplace_back(
        y.getDevice(),
        event_time{{y.getEvent()}, y.getMilliseconds(), y.getTimed()});
  return out;
}

result<file_header> read_header(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0)
    return trouble("tell its size");
  file_header header;
  auto size = static_cast<std::uint64_t>(info.st_size);
  if (size < sizeof(header))
    return damaged("it ends too early");
  if (auto ok = read_at(fd, 0, std::as_writable_bytes(std::span{&header, 1}));
      !ok)
    return ok.why();
  if (header.magic != file_header{}.magic)
    return damaged("it has no header; its writing was not completed");
  if (header.hash != header.right_hash())
    return damaged("its header does not match its checksum");
  if (header.major != state_major)
    return fault{
        CUDA_ERROR_NOT_SUPPORTED,
        "a vGPU's state is of version " + std::to_string(header.major) + "." +
            std::to_string(header.minor) +
            ", and this software "
            "reads version " +
            std::to_string(state_major) + "; use the release that wrote it"};
  if (header.file_bytes != size || header.index_bytes > largest_index ||
      header.index_bytes % sizeof(capnp::word) != 0 ||
      header.index_offset < sizeof(header) || header.index_offset > size ||
      header.index_bytes != size - header.index_offset)
    return damaged("it has " + std::to_string(size) + " bytes instead of " +
                   std::to_string(header.file_bytes));
  return header;
}

} // namespace

// -- writing
// -----------------------------------------------------------------

result<unique_fd> make_state_memory() {
  unique_fd fd{static_cast<int>(::memfd_create("vgpu-state", MFD_CLOEXEC))};
  if (!fd)
    return trouble("make memory for it");
  return fd;
}

bool lies_in_memory(int fd) {
  // Others have no seals.
  return ::fcntl(fd, F_GET_SEALS) >= 0;
}

status begin_state(int fd, std::uint64_t bytes) {
  constexpr std::array<std::byte, sizeof(file_header)> none{};
  if (auto ok = write_at(fd, 0, none); !ok)
    return ok;
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return trouble("begin it anew");
  return {};
}

status store_contents(int fd, state_chunk& what,
                      std::span<const std::byte> bytes) {
  auto before = what.form;
  what.hash = XXH3_64bits(bytes.data(), bytes.size());
  what.form = all_zero(bytes) ? chunk_form::zero : chunk_form::raw;
  what.stored = what.form == chunk_form::zero ? 0 : what.bytes;
  if (what.form == chunk_form::raw)
    return write_at(fd, what.offset, bytes);
  // A disk that knows of no holes keeps the bytes: nobody reads them.
  if (before == chunk_form::raw)
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
  if (auto ok = write_at(fd_, end_, stored); !ok)
    return ok.why();
  end_ += stored.size();
  return out;
}

result<std::uint64_t> state_writer::finish(const state_index& index) {
  capnp::MallocMessageBuilder message;
  put(message.initRoot<wire::State>(), index);
  auto flat = capnp::messageToFlatArray(message);
  auto bytes =
      std::as_bytes(std::span{reinterpret_cast<const std::byte*>(flat.begin()),
                              flat.size() * sizeof(capnp::word)});
  if (bytes.size() > largest_index)
    return fault{CUDA_ERROR_OUT_OF_MEMORY,
                 "a vGPU's state has an index of " +
                     std::to_string(bytes.size()) + " bytes, and " +
                     std::to_string(largest_index) + " are the most"};
  file_header header;
  header.index_offset = (end_ + 7) / 8 * 8;
  header.index_bytes = bytes.size();
  header.index_hash = XXH3_64bits(bytes.data(), bytes.size());
  header.file_bytes = header.index_offset + bytes.size();
  header.hash = header.right_hash();
  if (auto ok = write_at(fd_, header.index_offset, bytes); !ok)
    return ok.why();
  if (auto ok = write_at(fd_, 0, std::as_bytes(std::span{&header, 1})); !ok)
    return ok.why();
  return header.file_bytes;
}

// -- reading
// -----------------------------------------------------------------

result<state_reader> state_reader::open(int fd) {
  auto header = read_header(fd);
  if (!header)
    return header.why();
  std::vector<capnp::word> words(header->index_bytes / sizeof(capnp::word));
  auto bytes = std::as_writable_bytes(std::span{words});
  if (auto ok = read_at(fd, header->index_offset, bytes); !ok)
    return ok.why();
  if (XXH3_64bits(bytes.data(), bytes.size()) != header->index_hash)
    return damaged("its index does not match its checksum");
  state_reader out;
  out.fd_ = fd;
  out.chunks_end_ = header->index_offset;
  out.bytes_ = header->file_bytes;
  try {
    capnp::ReaderOptions limits;
    limits.traversalLimitInWords = 4 * words.size() + 64;
    limits.nestingLimit = 8;
    capnp::FlatArrayMessageReader message{{words.data(), words.size()}, limits};
    out.index_ = get(message.getRoot<wire::State>(), out.chunks_end_);
  } catch (const bad_index& x) {
    return damaged(x.what);
  } catch (const kj::Exception& x) {
    return damaged(x.getDescription().cStr());
  }
  return out;
}

status state_reader::read(const state_chunk& what, std::span<std::byte> into) {
  if (into.size() != what.bytes)
    return damaged("a chunk of another size");
  if (what.form == chunk_form::zero) {
    std::fill(into.begin(), into.end(), std::byte{0});
  } else if (what.form == chunk_form::raw) {
    if (auto ok = read_at(fd_, what.offset, into); !ok)
      return ok;
  } else {
    scratch_.resize(what.stored);
    if (auto ok = read_at(fd_, what.offset, scratch_); !ok)
      return ok;
    auto size = ZSTD_decompress(into.data(), into.size(), scratch_.data(),
                                scratch_.size());
    if (ZSTD_isError(size) || size != into.size())
      return damaged("a chunk that cannot be decompressed");
  }
  if (XXH3_64bits(into.data(), into.size()) != what.hash)
    return damaged("contents at address " + std::to_string(what.address) +
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
    auto ok = read_at(from, at, piece);
    if (ok)
      ok = write_at(to.get(), at, piece);
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
