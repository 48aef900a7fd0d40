// A vGPU's state (schema/state.capnp) as a file: written once, read anywhere.
#pragma once

#include "actors/event_times.hpp"
#include "schema/calls.hpp"
#include "schema/console.hpp"
#include "schema/fault.hpp"
#include "schema/session_area.hpp"

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

/// An anonymous file in memory, for a state.
result<unique_fd> make_state_memory();
/// Whether a file is one in memory, whose pages can be mapped for good.
bool lies_in_memory(int fd);

/// Makes a file one that is no state, and that has `bytes` bytes, of which
/// those behind the header stay as they are.
status begin_state(int fd, std::uint64_t bytes);

/// Writes contents to the place in the file that `what` names; where they are
/// zero, the file gives its pages there back. What else it says of them (form,
/// hash) becomes theirs.
status store_contents(int fd, state_chunk& what,
                      std::span<const std::byte> bytes);

/// Writes a state into an empty file, or into one with contents up to a place.
/// One thread.
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

  /// Completes the file: its size.
  result<std::uint64_t> finish(const state_index& index);

private:
  int fd_;
  void* compressor_ = nullptr; // ZSTD_CCtx
  std::vector<std::byte> scratch_;
  std::uint64_t end_;
};

/// Reads a state. Every number in it is checked before it is used; what is
/// damaged, unfinished or of another major version is refused. One thread.
class state_reader {
public:
  /// The file must outlive it, and stay as it is.
  static result<state_reader> open(int fd);

  const state_index& index() const noexcept { return index_; }
  /// Of the file.
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// The contents of a chunk of the index, into `bytes` bytes.
  status read(const state_chunk& what, std::span<std::byte> into);

private:
  int fd_ = -1;
  std::uint64_t chunks_end_ = 0;
  std::uint64_t bytes_ = 0;
  state_index index_;
  std::vector<std::byte> scratch_;
};

/// Copies a state to `path`, which appears with all of it or not at all.
status save_state(int from, std::uint64_t bytes, const std::string& path);

} // namespace vgpu
