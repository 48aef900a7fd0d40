// Linking at run time, which makes one image of parts that a program compiled
// apart.
#pragma once

#include "interposer/code/jit_options.hpp"
#include "interposer/context/context.hpp"
#include "schema/base/fault.hpp"

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace vgpu::interposer {

/// This is a CUlinkState. It holds the parts so far, as consecutive fatbin
/// containers. The worker links them when it loads the image; completing loads
/// it once, so that the program learns its errors there. Not thread-safe.
class link_state {
public:
  link_state(context& in, const jit_logs& logs);

  /// Adds a part. Returns CUDA_ERROR_INVALID_VALUE for no bytes and for kinds
  /// that do not exist, CUDA_ERROR_INVALID_PTX for text that is no PTX,
  /// CUDA_ERROR_INVALID_IMAGE for bytes of another kind than `type`, and
  /// CUDA_ERROR_NOT_SUPPORTED for code that only a compiler's later stages
  /// read.
  CUresult add(CUjitInputType type, std::span<const std::byte> bytes);

  /// Gives the image, from which modules and libraries can be loaded, and which
  /// lives as long as this. Where a part cannot be linked, it returns the error
  /// and writes its text to the error log.
  CUresult complete(std::span<const std::byte>& image);

private:
  CUresult add_text(std::span<const std::byte> bytes);
  CUresult add_image(std::span<const std::byte> bytes);
  CUresult add_objects(std::span<const std::byte> bytes);
  void append(std::span<const std::byte> container);
  CUresult failed(const fault& why);

  context& owner_;
  jit_logs logs_;
  std::vector<std::byte> image_; // This has the header and the containers.
  std::size_t parts_ = 0;
  bool complete_ = false;
};

/// The table holds all links under way, by handle.
struct link_table {
  std::mutex mutex;
  std::map<CUlinkState, std::unique_ptr<link_state>> all;
};

/// Adds a link to those of the process, and gives its handle. Thread-safe.
CUlinkState add_link(std::unique_ptr<link_state> made);
/// Finds a link, or null when the handle names none. Thread-safe.
link_state* find_link(CUlinkState handle);
/// Removes a link. Returns false when the handle names none. Thread-safe.
bool remove_link(CUlinkState handle);

} // namespace vgpu::interposer
