// Describes a session's state (schema/wire/state.capnp).
#pragma once

#include "actors/state/snapshot_base.hpp"
#include "actors/state/state_file.hpp"
#include "actors/worker/session/session_objects.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace vgpu {

/// Returns a fault unless the driver may checkpoint the session's process. The
/// fault names what is broken, or what other sessions use.
status may_checkpoint_process(const session_objects& session);
/// Returns a fault unless the whole session can be described. The fault names
/// what cannot.
status describable(const session_objects& session);
/// Does the same, and also refuses while a host function is under way.
status describable_now(const session_objects& session);

/// Describes a session in a state's file. Each object writes one state.
class state_capture {
public:
  state_capture(session_objects& session, int file, bool compress)
      : session_(session), to_(file, compress) {}
  /// Writes behind the contents of the base's file. The memory and images there
  /// must be up to date.
  state_capture(session_objects& session, snapshot_base& base)
      : session_(session), to_(base.file(), false, base.end()), base_(&base) {}

  /// Adds memory as descriptors to `lent`, in place of copying it.
  void lend_into(std::vector<device::shared_descriptor>* lent) noexcept {
    lent_ = lent;
  }

  /// Writes the whole state, and returns the file's size. Call it only while
  /// the devices are idle.
  result<std::uint64_t> run();
  /// Does the first part of run(): everything but what the base's file has or
  /// will have. Call it only while the devices are idle.
  status describe();
  /// Does the second part, and returns the file's size. Calls may have been
  /// executed since describe(). The base's file must be up to date now.
  result<std::uint64_t> finish();
  /// Writes what decides where a driver puts variables, without any contents.
  result<std::uint64_t> run_for_dry_run();
  /// Writes a piece of an image ahead of run_for_dry_run(). Returns true when
  /// no image is left. Calls may be executed in between.
  result<bool> images_on();

private:
  struct piece {
    std::uint64_t address;
    std::span<std::byte> bytes;
  };

  struct range {
    std::uint64_t address;
    std::uint64_t bytes;
  };

  void objects();
  status images();
  void allocate_room();
  status device_memory(device_slot& slot);
  status memory_together(device_slot& slot, const memory_ranges& all);
  status read_together(device_slot& slot, const std::vector<range>& what,
                       std::size_t bytes);
  status write_seen();
  status placed_memory(device_slot& slot);
  status host_memory();
  status events(device_slot& slot);
  status memory(device::device& from, std::uint64_t address,
                std::uint64_t bytes);
  status write_batch(device::device& from, std::vector<state_chunk>& into);

  session_objects& session_;
  state_writer to_;
  snapshot_base* base_ = nullptr;
  std::vector<device::shared_descriptor>* lent_ = nullptr;
  state_index index_{};
  /// Hold contents before they are written, and the size of the used part.
  std::unique_ptr<std::byte[]> room_{};
  std::size_t used_ = 0;
  std::vector<piece> batch_{};
  /// Hold what read_together() read last, until it is written.
  std::unique_ptr<std::byte[]> seen_room_{};
  std::vector<device::peeked> seen_{};
  /// Holds the image that images_on() is writing.
  std::optional<state_image> image_{};
  std::set<call::digest> written_images_{};
};

} // namespace vgpu
