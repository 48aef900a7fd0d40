// How much memory of its host a session may make its worker use, beside the
// quota of device memory.
#pragma once

#include "actors/link/credit.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace vgpu {

/// Holds the bounds. A program that uses vGPU's own libraries meets none of
/// them but where it says so. The worker keeps them against a program that does
/// not.
struct worker_bounds {
  /// Limits the bytes of calls that a client elsewhere may send ahead of
  /// execution. Beyond it the worker drops them, as if a connection had lost
  /// them, and says from where it wants them again.
  static constexpr std::uint64_t backlog = call_window + longest_call_range;
  /// Limit what is received while a call is executed: a client's whole credit,
  /// and the parts of a state that may be under way. The rest is dropped too.
  static constexpr std::uint64_t postponed =
      backlog + (std::uint64_t{24} << 20);
  static constexpr std::size_t postponed_messages = std::size_t{1} << 16;

  /// Limits how many of them come from peers that have shown no token.
  static constexpr std::size_t postponed_of_strangers = 256;
  /// Gives the messages of clients elsewhere that are read before others get
  /// their turn.
  static constexpr int read_at_once = 1024;
  /// Gives those that are read every 50 ms while a call is executed.
  static constexpr int read_in_call = 16'384;

  /// Limits the bytes of all images: as many as a large library has, and what
  /// the session may load into device memory. A module of an image beyond it is
  /// refused with CUDA_ERROR_OUT_OF_MEMORY. Images of unloaded modules count
  /// too, so a program may meet this bound that generates code for days.
  static constexpr std::uint64_t images(std::uint64_t quota) {
    return one_gib_more_than(quota);
  }
  /// Gives the bytes of images of which no module is loaded, from which on
  /// further images are refused.
  static constexpr std::uint64_t idle_images = std::uint64_t{512} << 20;
  /// Limits the images whose refusal is remembered.
  static constexpr std::size_t refused_images = 4096;

  /// Limit the host memory of a program elsewhere that kernels use in place, of
  /// which the worker keeps two copies: its bytes, and its pieces. More of it
  /// is refused with CUDA_ERROR_OUT_OF_MEMORY.
  static constexpr std::uint64_t used_in_place(std::uint64_t quota) {
    return one_gib_more_than(quota);
  }
  static constexpr std::size_t pieces_in_place = 4096;

  /// Limits the pieces of work that are pending in one stream, as a GPU's
  /// driver does. Beyond it the worker executes no call until there is room,
  /// unless a later call may be what the stream waits for.
  static constexpr std::uint64_t pending_in_stream = 1024;
  /// Limits those of all streams of a session, in any case.
  static constexpr std::uint64_t pending = 16'384;

private:
  static constexpr std::uint64_t one_gib_more_than(std::uint64_t quota) {
    return (std::uint64_t{1} << 30) +
           std::min(quota, std::numeric_limits<std::uint64_t>::max() / 2);
  }
};

} // namespace vgpu
