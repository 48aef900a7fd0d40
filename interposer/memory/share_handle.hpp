// What names a thing of one process to another: the bytes of a handle, and what
// a descriptor says.
#pragma once

#include "schema/base/shared_resource.hpp"
#include "schema/log/session_area.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace vgpu::interposer {

/// The 64 bytes of a CUipcMemHandle, CUipcEventHandle or
/// CUmemPoolPtrExportData.
struct share_handle {
  static constexpr std::uint64_t of_memory = 0x3130'4d45'4d50'4756;
  static constexpr std::uint64_t of_event = 0x3130'5456'4550'4756;
  static constexpr std::uint64_t of_pooled = 0x3130'4c4f'4f50'4756;

  std::uint64_t kind = 0;
  share_name what{};
  std::uint64_t bytes = 0; // as asked for; of memory
  std::uint64_t layout = 0;
  std::uint64_t check = 0; // against bytes that are something else

  /// `pool`: the key of the pool that it is to be opened by.
  template <class Handle>
  void write(Handle& out, std::uint64_t pool = 0) {
    static_assert(sizeof(share_handle) == sizeof(Handle));
    check = digest(pool);
    std::memcpy(&out, this, sizeof(out));
  }

  /// Nothing for what no process wrote as a handle of that kind and pool.
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

  /// Where the memory begins in its granules; nothing where it does not fit.
  std::optional<std::uint64_t> offset() const noexcept;

private:
  std::uint64_t digest(std::uint64_t pool) const noexcept;
};
static_assert(std::is_trivially_copyable_v<share_handle>);

/// What a descriptor that a program hands on says. Who has the descriptor may
/// have the thing: a serial is chosen at random, so that one descriptor tells
/// nothing of others.
struct share_descriptor {
  static constexpr std::uint64_t of_memory = 0x3130'4346'4d50'4756;
  static constexpr std::uint64_t of_pool = 0x3130'4346'5050'4756;

  std::uint64_t kind = 0;
  share_name what{};
  std::uint64_t layout = 0;              // of memory
  std::array<std::uint8_t, 16> device{}; // UUID
  std::uint64_t check = 0;
};
static_assert(std::has_unique_object_representations_v<share_descriptor>);

/// A socket in which one message lies that nobody takes out, and its other end,
/// which tells whether any process still has the first.
struct descriptor_pair {
  unique_fd given; // the program's; closed at exec
  unique_fd kept;
};

/// CUDA_ERROR_OPERATING_SYSTEM where the process has no descriptors left.
result<descriptor_pair> make_descriptor(share_descriptor says);

/// Nothing for a descriptor that is none of ours, or of another kind. Whatever
/// it is, it is left as it was.
std::optional<share_descriptor> read_descriptor(int file, std::uint64_t kind);

/// CUDA passes the number of a descriptor as if it were a pointer.
inline int descriptor_of(const void* handle) noexcept {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
}

/// Whether some process has the other end, or it is on its way to one.
bool is_given(const unique_fd& kept) noexcept;

/// A number that nobody guesses; never 0.
std::uint64_t random_serial();

} // namespace vgpu::interposer
