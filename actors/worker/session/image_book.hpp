// How many bytes of images a session's worker holds, and of which nothing is
// loaded.
#pragma once

#include "schema/base/ids.hpp"
#include "schema/catalogue/call_fields.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace vgpu {

/// Counts the images that a program has sent, within worker_bounds. An image
/// stays after its modules are unloaded, because the program sends it once, and
/// a replay loads it again. Not thread-safe.
class image_book {
public:
  explicit image_book(std::uint64_t quota) : quota_(quota) {}

  /// Raises the session's quota on all devices together.
  void allow(std::uint64_t quota) noexcept { quota_ = quota; }

  /// Counts an image of so many bytes, unless it is known. Returns false where
  /// it exceeds the bounds, or is known with another size: drop it.
  bool admit(const call::digest& image, std::uint64_t bytes);
  /// Counts an image of a state, of which modules are loaded next. Returns
  /// false where it exceeds the bound of all images.
  bool restore(const call::digest& image, std::uint64_t bytes);
  /// Forgets an image that was damaged on its way.
  void forget(const call::digest& image);
  /// Returns whether the image was sent and exceeded the bounds.
  bool was_refused(const call::digest& image) const {
    return refused_.contains(image);
  }

  /// Records that a device loaded a module of the image.
  void loaded(std::size_t device, module_id module, const call::digest& image);
  /// Records that a device unloaded a module.
  void unloaded(std::size_t device, module_id module);

  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Returns the bytes of images of which no module is loaded.
  std::uint64_t idle_bytes() const noexcept { return idle_; }

private:
  struct entry {
    std::uint64_t bytes = 0;
    std::uint64_t modules = 0;
  };

  std::uint64_t quota_;
  std::uint64_t bytes_ = 0;
  std::uint64_t idle_ = 0;
  std::map<call::digest, entry> images_;
  std::map<std::pair<std::size_t, module_id>, call::digest> loaded_;
  std::set<call::digest> refused_;
};

} // namespace vgpu
