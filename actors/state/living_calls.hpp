// The calls of a session that a state must keep: those that made an object that
// still exists, or set a property of one.
#pragma once

#include "schema/catalogue/calls.hpp"

#include <cuda.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace vgpu {

/// Keeps the living calls of all of a session's devices. Calls that leave
/// nothing behind (call::lasts) cost nothing. Not thread-safe.
class living_calls {
public:
  /// Returns whether such a call may be kept.
  template <class Call>
  static constexpr bool keeps() noexcept {
    using call::lasts;
    return Call::lasting == lasts::begins || Call::lasting == lasts::alters ||
           Call::lasting == lasts::retires;
  }

  /// Records an executed call and its message.
  template <class Call>
  void note(const Call& x, std::uint8_t device, call_number at,
            std::span<const std::uint64_t> message) {
    using call::lasts;
    if constexpr (Call::lasting == lasts::begins)
      keep(object_of(x, device), at, message, false);
    else if constexpr (Call::id == call::number::limits_reset)
      reset_limits(device, at, message);
    else if constexpr (requires { setting_of(x, device); })
      settle(setting_of(x, device), at, message);
    else if constexpr (Call::lasting == lasts::alters)
      keep(object_of(x, device), at, message, true);
    else if constexpr (Call::lasting == lasts::ends)
      end(x, device);
    else if constexpr (Call::lasting == lasts::retires)
      retire(object_of(x, device), at, message);
    else if constexpr (Call::lasting == lasts::shared)
      shares_ = true;
  }

  /// Returns the messages by call number, in the order of the log.
  const std::map<std::uint64_t, std::vector<std::uint64_t>>& calls() const {
    return calls_;
  }
  /// Returns whether calls of another session depend on this session, or its
  /// calls on another's.
  bool shares() const noexcept { return shares_; }

private:
  enum class kind : std::uint8_t {
    memory,
    host_memory,
    module,
    stream,
    event,
    array,
    texture,
    placed_memory,
    mapping,
    limit,
    window,
    timing
  };
  using object = std::tuple<kind, std::uint8_t, std::uint64_t>;

  static constexpr kind kind_of(module_id) { return kind::module; }
  static constexpr kind kind_of(stream_id) { return kind::stream; }
  static constexpr kind kind_of(event_id) { return kind::event; }
  static constexpr kind kind_of(array_id) { return kind::array; }
  static constexpr kind kind_of(texture_id) { return kind::texture; }
  static constexpr kind kind_of(memory_id) { return kind::placed_memory; }

  /// Returns the object of a call. The first argument names it, except that a
  /// mapping begins with the mapped memory and is named by its address.
  template <class Call>
  static object object_of(const Call& x, std::uint8_t device) {
    using call::number;
    [[maybe_unused]] auto& first = std::get<0>(Call::fields(x));
    if constexpr (Call::id == number::mem_alloc || Call::id == number::mem_free)
      return {kind::memory, device, first};
    else if constexpr (Call::id == number::host_alloc ||
                       Call::id == number::zero_copy ||
                       Call::id == number::host_free)
      return {kind::host_memory, device, first};
    else if constexpr (Call::id == number::memory_map ||
                       Call::id == number::host_map)
      return {kind::mapping, device, x.address};
    else if constexpr (Call::id == number::memory_unmap ||
                       Call::id == number::memory_access)
      return {kind::mapping, device, first};
    else
      return {kind_of(first.id), device, first.id.value};
  }

  /// Returns the setting that a call makes, of which only the latest counts. It
  /// is an object of its own, because the limits of a device and the window of
  /// its default stream have no call that begins them.
  static object setting_of(const call::limit_set& x, std::uint8_t device) {
    return {kind::limit, device, x.limit};
  }
  static object setting_of(const call::stream_window& x, std::uint8_t device) {
    return {kind::window, device, x.stream.id.value};
  }
  static object setting_of(const call::time_work&, std::uint8_t) {
    return {kind::timing, 0, 0};
  }

  template <class Call>
  void end(const Call& x, std::uint8_t device) {
    drop(object_of(x, device));
    if constexpr (Call::id == call::number::stream_destroy)
      drop({kind::window, device, x.stream.id.value});
  }

  void settle(const object& of, call_number at,
              std::span<const std::uint64_t> message) {
    drop(of);
    keep(of, at, message, false);
  }
  /// Keeps the latest reset, which decides where a heap lies after it, in place
  /// of all limits before.
  void reset_limits(std::uint8_t device, call_number at,
                    std::span<const std::uint64_t> message) {
    for (std::uint64_t limit = 0; limit != CU_LIMIT_MAX; ++limit)
      drop({kind::limit, device, limit});
    settle({kind::limit, device, CU_LIMIT_MAX}, at, message);
  }
  void keep(const object& of, call_number at,
            std::span<const std::uint64_t> message, bool replaces);
  void drop(const object& of);
  void retire(const object& of, call_number at,
              std::span<const std::uint64_t> message);

  std::map<std::uint64_t, std::vector<std::uint64_t>> calls_;
  /// Holds the call numbers of each object, in order.
  std::map<object, std::vector<std::uint64_t>> of_;
  bool shares_ = false;
};

} // namespace vgpu
