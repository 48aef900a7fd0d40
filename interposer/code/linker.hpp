// Linking at run time, which joins separately compiled parts into one image.
#pragma once

#include "interposer/code/jit_options.hpp"
#include "interposer/context/context.hpp"
#include "schema/base/fault.hpp"

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vgpu::interposer {

/// Represents a CUlinkState: the parts so far, as consecutive fatbin
/// containers. The worker links them when it loads the image. complete() loads
/// the image once, so that it can return the linker's errors. Not thread-safe.
class link_state {
public:
  link_state(context& in, const jit_request& how);

  /// Adds a part, which messages call by its name, unless that is null. Text is
  /// compiled at once. `own` has the options for this part
  /// alone. Errors go to its log, or else to that of the link. Returns
  /// CUDA_ERROR_INVALID_VALUE for no bytes and for kinds that do not exist,
  /// CUDA_ERROR_INVALID_PTX for text that is no PTX or cannot be compiled,
  /// CUDA_ERROR_INVALID_IMAGE for bytes of another kind than `type`,
  /// CUDA_ERROR_INVALID_SOURCE for text that defines a symbol of earlier text
  /// again, and CUDA_ERROR_NOT_SUPPORTED for code that only a compiler's later
  /// stages read.
  CUresult add(CUjitInputType type, std::span<const std::byte> bytes,
               const char* name, jit_request& own);

  /// Returns the image in `image`. Modules and libraries can be loaded from it,
  /// and it lives as long as this object. Where a part cannot be linked,
  /// returns the error and writes its text to the error log. Returns
  /// CUDA_ERROR_INVALID_HANDLE once there is an image.
  CUresult complete(std::span<const std::byte>& image);

private:
  status add_part(CUjitInputType type, std::span<const std::byte> bytes,
                  const char* name, jit_request& own);
  status add_text(std::span<const std::byte> bytes, const char* name,
                  jit_request& own);
  void append_text(std::string text, const char* name);
  status check_definitions(std::string_view text);
  status add_image(std::span<const std::byte> bytes, const char* name);
  status add_objects(std::span<const std::byte> bytes);
  status link();
  void append(std::span<const std::byte> container);
  CUresult failed(const fault& why, jit_request& tell);

  context& owner_;
  jit_request how_;
  jit_settings settings_; // for the linked image
  std::vector<std::byte> containers_;
  std::vector<std::byte> image_; // the header, the options and the containers
  std::size_t parts_ = 0;
  std::set<std::string> words_; // of what the texts define
  CUresult broken_ = CUDA_SUCCESS;
  bool complete_ = false;
};

/// The table holds all links under way, by handle.
struct link_table {
  std::mutex mutex;
  std::map<CUlinkState, std::unique_ptr<link_state>> all;
};

/// Adds a link to the table, and returns its handle. Thread-safe.
CUlinkState add_link(std::unique_ptr<link_state> made);
/// Finds a link, or null when the handle names none. Thread-safe.
link_state* find_link(CUlinkState handle);
/// Removes a link. Returns false when the handle names none. Thread-safe.
bool remove_link(CUlinkState handle);

} // namespace vgpu::interposer
