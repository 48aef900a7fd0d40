// The file of a vGPU's state (schema/wire/state.capnp). It is written once and
// can be read on any host.
#pragma once

#include "actors/state/event_times.hpp"
#include "schema/base/console.hpp"
#include "schema/base/fault.hpp"
#include "schema/catalogue/calls.hpp"
#include "schema/log/session_area.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Gives the version of the format that this code writes. A reader accepts
/// every minor version of its own major version.
inline constexpr std::uint32_t state_major = 3;
inline constexpr std::uint32_t state_minor = 0;

/// Gives the largest size of a piece of contents, in bytes.
inline constexpr std::uint64_t state_chunk_bytes = std::uint64_t{2} << 20;

/// Says how a chunk's bytes are stored.
enum class chunk_form : std::uint16_t { zero, raw, zstd };

/// Describes a piece of contents and its place in the file.
struct state_chunk {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  chunk_form form = chunk_form::zero;
  std::uint32_t stored = 0;
  std::uint64_t offset = 0;
  std::uint64_t hash = 0;
};

/// Describes an image that the program loaded.
struct state_image {
  call::digest digest;
  std::uint64_t bytes = 0;
  /// Holds the chunks, whose addresses are offsets.
  std::vector<state_chunk> chunks;
};

/// Describes a module's variable and its contents.
struct state_global {
  std::uint32_t device = 0;
  module_id module;
  std::string name;
  device_address address = 0;
  std::uint64_t bytes = 0;
};

/// Describes memory that the program places by itself.
struct state_placed {
  std::uint32_t device = 0;
  memory_id memory;
  /// Holds the chunks, whose addresses are ascending offsets.
  std::vector<state_chunk> chunks;
};

/// Describes memory that is handed over to the next worker in place of being
/// copied into the file.
struct state_lent {
  std::uint32_t device = 0;
  /// Holds the address of the first byte.
  device_address address = 0;
  std::uint64_t bytes = 0;
};

/// Describes everything that a state holds, with contents by their places in
/// the file.
struct state_index {
  std::uint64_t position = 0;
  std::uint64_t calls = 0;
  std::array<std::uint64_t, text_console_count> consoles{};
  std::uint32_t devices = 1;
  std::vector<state_image> images;
  /// Holds the number and the message of each living call, in order.
  std::vector<std::pair<std::uint64_t, std::vector<std::uint64_t>>> living;
  std::vector<state_global> globals;
  std::vector<state_chunk> memory;
  /// Holds the device and the time of each event.
  std::vector<std::pair<std::uint32_t, event_time>> events;
  std::vector<state_placed> placed;
  std::vector<state_lent> lent;
};

/// Calls `f` with each chunk of a state, whatever it belongs to.
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

/// Makes an anonymous file in memory for a state.
result<unique_fd> make_state_memory();
/// Returns whether the file is an anonymous one in memory, whose pages can stay
/// mapped.
bool lies_in_memory(int fd);

/// Writes all of these bytes at offset `at`, or fails.
status write_state_bytes(int fd, std::uint64_t at,
                         std::span<const std::byte> bytes);
/// Reads exactly as many bytes from offset `at`, or fails.
status read_state_bytes(int fd, std::uint64_t at, std::span<std::byte> into);

/// Overwrites the header, so that the file is not a state. The rest stays.
status begin_state(int fd);
/// Overwrites the header and sets the file's size to `bytes`.
status begin_state(int fd, std::uint64_t bytes);

/// Makes the file at least so long. Its new part has no pages.
status grow_state(int fd, std::uint64_t bytes);

/// Returns the place of a chunk in the file as memory, or nothing.
using place_of_chunk = std::function<std::span<std::byte>(const state_chunk&)>;

/// Writes contents to the place in the file that `what` names, and sets its
/// form and hash. Where the contents are zero, it punches a hole into the file
/// instead. `place_of` may be empty.
status store_contents(int fd, state_chunk& what,
                      std::span<const std::byte> bytes,
                      const place_of_chunk& place_of = {});

/// Writes a state into a file that is not one, either over its contents or
/// behind the contents that end at `from`. Not thread-safe.
class state_writer {
public:
  /// `fd` must outlive the writer. `compress` stores a chunk compressed where
  /// that makes it at least a quarter smaller. The writer writes behind `from`.
  state_writer(int fd, bool compress, std::uint64_t from = 0);
  ~state_writer();
  state_writer(const state_writer&) = delete;
  state_writer& operator=(const state_writer&) = delete;

  /// Stores contents of at most state_chunk_bytes.
  result<state_chunk> add(std::uint64_t address,
                          std::span<const std::byte> bytes);

  /// Completes the file, truncates what it held behind, and returns its size.
  result<std::uint64_t> finish(const state_index& index);

private:
  int fd_;
  /// Points to a ZSTD_CCtx.
  void* compressor_ = nullptr;
  std::vector<std::byte> scratch_;
  std::uint64_t end_;
};

/// Gives the size of the head, in bytes.
inline constexpr std::size_t state_head_bytes = 64;

/// Describes the head of a state's file, which is written last and read first.
struct state_head {
  std::array<std::byte, state_head_bytes> bytes{};
  /// Holds the offset of the index, which ends with the file.
  std::uint64_t index_offset = 0;
  std::uint64_t index_hash = 0;
  std::uint64_t file_bytes = 0;
};

/// Parses the head of a file of `file_bytes` bytes. Fails where it is not a
/// state of this version.
result<state_head> read_head(std::span<const std::byte> bytes,
                             std::uint64_t file_bytes);
/// Writes the head, which turns a file that has everything else into a state.
status complete_state(int fd, const state_head& head);

/// Reads a state, and checks every number in it before use. It refuses a file
/// that is damaged, unfinished or of another major version. Not thread-safe.
class state_reader {
public:
  /// Opens a state. The file must outlive the reader and must not change.
  static result<state_reader> open(int fd);
  /// Opens a file that has its index but not all of its contents.
  static result<state_reader> open(int fd, const state_head& head);

  const state_index& index() const noexcept { return index_; }
  /// Returns the size of the file.
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Reads the contents of a chunk of the index. `into` has the chunk's
  /// `bytes`. Any number of threads may read.
  status read(const state_chunk& what, std::span<std::byte> into) const;

private:
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
  state_index index_;
};

/// Copies a state to `path`, where it appears completely or not at all.
status save_state(int from, std::uint64_t bytes, const std::string& path);

} // namespace vgpu
