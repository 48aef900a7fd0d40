// Names of objects that one process shares with another: the bytes of a handle,
// and the message of a descriptor.
#pragma once

#include "schema/base/shared_resource.hpp"
#include "schema/log/session_area.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace vgpu::interposer {

/// Lays out the 64 bytes of a CUipcMemHandle, CUipcEventHandle or
/// CUmemPoolPtrExportData.
struct share_handle {
  static constexpr std::uint64_t of_memory = 0x3130'4d45'4d50'4756;
  static constexpr std::uint64_t of_event = 0x3130'5456'4550'4756;
  static constexpr std::uint64_t of_pooled = 0x3130'4c4f'4f50'4756;

  std::uint64_t kind = 0;
  share_name what{};
  // For memory, the size that the program asked for
  std::uint64_t bytes = 0;
  std::uint64_t layout = 0;
  // A digest, by which other bytes are recognised as no handle
  std::uint64_t check = 0;

  /// Writes a handle. `pool` is the key of the pool that opens it.
  template <class Handle>
  void write(Handle& out, std::uint64_t pool = 0) {
    static_assert(sizeof(share_handle) == sizeof(Handle));
    check = digest(pool);
    std::memcpy(&out, this, sizeof(out));
  }

  /// Reads a handle. Returns nothing where no process wrote the bytes as a
  /// handle of that kind and pool.
  template <class Handle>
  static std::optional<share_handle> read(const Handle& in, std::uint64_t kind,
                                          std::uint64_t pool = 0) {
    static_assert(sizeof(share_handle) == sizeof(Handle));
    share_handle out;
    std::memcpy(static_cast<void*>(&out), &in, sizeof(out));
    if (out.kind != kind || out.check != out.digest(pool))
      return std::nullopt;
    return out;
  }

  /// Returns where the memory begins in its granules, or nothing where it does
  /// not fit.
  std::optional<std::uint64_t> offset() const noexcept;

private:
  std::uint64_t digest(std::uint64_t pool) const noexcept;
};
static_assert(std::is_trivially_copyable_v<share_handle>);

/// Holds the message in a descriptor that a program hands to another process.
/// The descriptor itself gives access: its serial is random, so that one
/// descriptor reveals nothing about others.
struct share_descriptor {
  static constexpr std::uint64_t of_memory = 0x3130'4346'4d50'4756;
  static constexpr std::uint64_t of_pool = 0x3130'4346'5050'4756;

  std::uint64_t kind = 0;
  share_name what{};
  std::uint64_t layout = 0;              // of memory in its granules
  std::array<std::uint8_t, 16> device{}; // UUID
  std::uint64_t check = 0;
};
static_assert(std::has_unique_object_representations_v<share_descriptor>);

/// Holds a socket with one message that is never received, and the socket's
/// other end, by which this process learns whether any process still has the
/// socket.
struct descriptor_pair {
  unique_fd given; // owned by the program; exec closes it
  unique_fd kept;
};

/// Makes a descriptor. Returns CUDA_ERROR_OPERATING_SYSTEM where the process
/// has no descriptors left.
result<descriptor_pair> make_descriptor(share_descriptor says);

/// Reads the message of a descriptor. Returns nothing for a descriptor of
/// another kind or one that this library did not make, and changes neither.
std::optional<share_descriptor> read_descriptor(int file, std::uint64_t kind);

/// Converts the pointer by which CUDA passes a descriptor to its number.
inline int descriptor_of(const void* handle) noexcept {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
}

/// Tells whether a process has the other end, or a message with it is on its
/// way to one.
bool is_given(const unique_fd& kept) noexcept;

/// Returns a number that cannot be guessed, and that is never 0.
std::uint64_t random_serial();

} // namespace vgpu::interposer
