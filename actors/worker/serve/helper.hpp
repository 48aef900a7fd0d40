// What a worker has another process do for it.
#pragma once

#include "schema/base/fault.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace vgpu {

/// Something that is under way in another process, which ends with this.
class helper {
public:
  helper() = default;
  helper(const helper&) = delete;
  helper& operator=(const helper&) = delete;
  virtual ~helper() = default;

  /// Nothing while it goes on. Of the thread that began it.
  virtual std::optional<status> outcome() = 0;
};

/// Whether this process's memory on its GPUs is to be taken to the host, with
/// all else that the driver has of it there, or brought back.
enum class aside { out, back };

/// Begins that, of the process that asks; `ring` is called, from any thread,
/// when there is an outcome. While it goes on, and until it was brought back,
/// whoever of this process calls the driver waits. Where `out` is not
/// possible, and nothing has changed, that is CUDA_ERROR_NOT_SUPPORTED; any
/// other fault leaves the process as nobody knows, and it has to be brought
/// back. `back` works from whatever a helper left that died: afterwards it is
/// as before.
using begin_aside = std::function<result<std::unique_ptr<helper>>(
    aside where, std::function<void()> ring)>;

} // namespace vgpu
