// Linking at run time: parts that a program compiled apart become one image.
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

/// A CUlinkState: the parts so far, as fatbin containers one behind the other.
/// The linking itself is the worker's when the image is loaded; completing
/// loads it once, so that what is wrong with it is told here. One thread at a
/// time.
class link_state {
public:
  link_state(context& in, const jit_logs& logs);

  /// CUDA_ERROR_INVALID_VALUE for no bytes and kinds that do not exist,
  /// CUDA_ERROR_INVALID_PTX for text that is no PTX, CUDA_ERROR_INVALID_IMAGE
  /// for what is not what it is said to be, CUDA_ERROR_NOT_SUPPORTED for code
  /// that only a compiler's later stages read.
  CUresult add(CUjitInputType type, std::span<const std::byte> bytes);

  /// The image, which modules and libraries are loaded from, and which lives as
  /// long as this. The error of a part that cannot be linked, and its text in
  /// the error log.
  CUresult complete(std::span<const std::byte>& image);

private:
  CUresult add_text(std::span<const std::byte> bytes);
  CUresult add_image(std::span<const std::byte> bytes);
  CUresult add_objects(std::span<const std::byte> bytes);
  void append(std::span<const std::byte> container);
  CUresult failed(const fault& why);

  context& owner_;
  jit_logs logs_;
  std::vector<std::byte> image_; // with its header and the containers
  std::size_t parts_ = 0;
  bool complete_ = false;
};

/// The table holds all links under way, by handle.
struct link_table {
  std::mutex mutex;
  std::map<CUlinkState, std::unique_ptr<link_state>> all;
};

/// Adds a link to those of the process, and gives its handle. Thread-safe, as
/// are those that follow.
CUlinkState add_link(std::unique_ptr<link_state> made);
/// Null when the handle names none.
link_state* find_link(CUlinkState handle);
bool remove_link(CUlinkState handle);

} // namespace vgpu::interposer
