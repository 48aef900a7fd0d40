// A vGPU's state (schema/wire/state.capnp) as a file: written once, read
// anywhere.
#pragma once

#include "actors/state/event_times.hpp"
#include "schema/base/console.hpp"
#include "schema/base/fault.hpp"
#include "schema/catalogue/calls.hpp"
#include "schema/log/session_area.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// What a reader of this version reads.
inline constexpr std::uint32_t state_major = 3;
inline constexpr std::uint32_t state_minor = 0;

/// Contents are cut into pieces of at most this size.
inline constexpr std::uint64_t state_chunk_bytes = std::uint64_t{2} << 20;

enum class chunk_form : std::uint16_t { zero, raw, zstd };

struct state_chunk {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  chunk_form form = chunk_form::zero;
  std::uint32_t stored = 0;
  std::uint64_t offset = 0;
  std::uint64_t hash = 0;
};

struct state_image {
  call::digest digest;
  std::uint64_t bytes = 0;
  std::vector<state_chunk> chunks; // addresses are offsets
};

struct state_global {
  std::uint32_t device = 0;
  module_id module;
  std::string name;
  device_address address = 0;
  std::uint64_t bytes = 0;
};

struct state_placed {
  std::uint32_t device = 0;
  memory_id memory;
  std::vector<state_chunk> chunks; // addresses are offsets, and grow
};

/// Memory that comes along as it is.
struct state_lent {
  std::uint32_t device = 0;
  device_address address = 0; // where its first byte was
  std::uint64_t bytes = 0;
};

struct state_index {
  std::uint64_t position = 0;
  std::uint64_t calls = 0;
  std::array<std::uint64_t, console_count> consoles{};
  std::uint32_t devices = 1;
  std::vector<state_image> images;
  /// Number and message, in order.
  std::vector<std::pair<std::uint64_t, std::vector<std::uint64_t>>> living;
  std::vector<state_global> globals;
  std::vector<state_chunk> memory;
  std::vector<std::pair<std::uint32_t, event_time>> events; // with device
  std::vector<state_placed> placed;
  std::vector<state_lent> lent;
};

/// Every piece of contents that a state names, whatever it is of.
template <class F>
void each_chunk(const state_index& x, F f) {
  for (auto& image : x.images)
    for (auto& chunk : image.chunks)
      f(chunk);
  for (auto& chunk : x.memory)
    f(chunk);
  for (auto& placed : x.placed)
    for (auto& chunk : placed.chunks)
      f(chunk);
}

/// An anonymous file in memory, for a state.
result<unique_fd> make_state_memory();
/// Whether a file is one in memory, whose pages can be mapped for good.
bool lies_in_memory(int fd);

/// Bytes of a state's file: all of them, or a fault.
status write_state_bytes(int fd, std::uint64_t at,
                         std::span<const std::byte> bytes);
status read_state_bytes(int fd, std::uint64_t at, std::span<std::byte> into);

/// Makes a file one that is no state. What is behind the header stays.
status begin_state(int fd);
/// The same, and it has `bytes` bytes then.
status begin_state(int fd, std::uint64_t bytes);

/// Writes contents to the place in the file that `what` names; where they are
/// zero, the file gives its pages there back. What else it says of them (form,
/// hash) becomes theirs.
status store_contents(int fd, state_chunk& what,
                      std::span<const std::byte> bytes);

/// Writes a state into a file that is none, over what it holds, or behind its
/// contents up to a place. One thread.
class state_writer {
public:
  /// The file must outlive it. `compress`: chunks are stored compressed where
  /// that makes them a good deal smaller. `from`: what is written goes behind.
  state_writer(int fd, bool compress, std::uint64_t from = 0);
  ~state_writer();
  state_writer(const state_writer&) = delete;
  state_writer& operator=(const state_writer&) = delete;

  /// Stores contents of at most state_chunk_bytes.
  result<state_chunk> add(std::uint64_t address,
                          std::span<const std::byte> bytes);

  /// Completes the file, and cuts what it held behind: its size.
  result<std::uint64_t> finish(const state_index& index);

private:
  int fd_;
  void* compressor_ = nullptr; // ZSTD_CCtx
  std::vector<std::byte> scratch_;
  std::uint64_t end_;
};

inline constexpr std::size_t state_head_bytes = 64;

/// What a state's file begins with, last written and first read.
struct state_head {
  std::array<std::byte, state_head_bytes> bytes{};
  /// Where the index lies: from here to the end.
  std::uint64_t index_offset = 0;
  std::uint64_t index_hash = 0;
  std::uint64_t file_bytes = 0;
};

/// Of a file of so many bytes; a fault where it is no state of this version.
result<state_head> read_head(std::span<const std::byte> bytes,
                             std::uint64_t file_bytes);
/// Makes a state of a file that has all but its head.
status complete_state(int fd, const state_head& head);

/// Reads a state. Every number in it is checked before it is used; what is
/// damaged, unfinished or of another major version is refused. One thread.
class state_reader {
public:
  /// The file must outlive it, and stay as it is.
  static result<state_reader> open(int fd);
  /// One that is not complete, but has its index.
  static result<state_reader> open(int fd, const state_head& head);

  const state_index& index() const noexcept { return index_; }
  /// Of the file.
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// The contents of a chunk of the index, into `bytes` bytes.
  status read(const state_chunk& what, std::span<std::byte> into);

private:
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
  state_index index_;
  std::vector<std::byte> scratch_;
};

/// Copies a state to `path`, which appears with all of it or not at all.
status save_state(int from, std::uint64_t bytes, const std::string& path);

} // namespace vgpu
