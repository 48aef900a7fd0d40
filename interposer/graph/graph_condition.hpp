// Conditions of graphs (CUDA driver API, "Graph Management",
// cuGraphConditionalHandleCreate).
#pragma once

#include "schema/base/ids.hpp"

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

namespace vgpu::interposer {

struct context;
struct stream;

/// Holds the words of one device that conditions use. A word that was given
/// back can be taken again once all work that the log held by then is known to
/// be done. Only device_word uses the members, with the lock held.
struct word_store {
  struct freed {
    device_address word = 0;
    std::uint64_t position = 0;
  };

  std::mutex mutex;
  device_address base = 0;  ///< address for the interposer
  device_address place = 0; ///< address for kernels
  CUmemGenericAllocationHandle memory = 0;
  std::uint64_t used = 0;  ///< bytes that were ever taken
  std::uint64_t taken = 0; ///< number of words in use
  std::deque<freed> given_back;

  /// Makes the memory where it does not exist. The memory is of the kind that
  /// programs map themselves (virtual_memory.hpp), so that migrations and
  /// recoveries handle it as such.
  CUresult open(std::uint8_t device);
  /// Releases the memory. Waits for the device, as any unmapping does.
  void close();
  /// Takes a word, or returns 0 when there are no more. Precondition: the
  /// memory exists.
  device_address next(std::uint8_t device);
};

/// Owns a word of the 2 MiB of device memory whose words kernels can set
/// (schema/base/condition_handles.hpp). Its initial value is arbitrary.
class device_word {
public:
  /// Takes a word. Returns CUDA_ERROR_NOT_SUPPORTED on a device whose kernels
  /// set no conditions, and CUDA_ERROR_OUT_OF_MEMORY beyond the quota, or when
  /// there are no more.
  static CUresult take(std::uint8_t device, device_word& out);
  /// Releases the device's memory if none of its words is in use. Called when a
  /// context of the device ends.
  static void give_up_memory(std::uint8_t device);
  device_word() = default;
  device_word(device_word&& other) noexcept;
  device_word& operator=(device_word&& other) noexcept;
  ~device_word();

  device_address address() const noexcept { return address_; }
  CUgraphConditionalHandle handle() const noexcept;
  CUresult fill(stream& in, std::uint32_t value) const;

private:
  std::uint8_t device_ = 0;
  device_address address_ = 0; // 0 where it owns no word
};

/// Holds the value by which a conditional node chooses. A graph owns the
/// condition, which lives as long as an executable graph uses it.
class condition {
public:
  struct settings {
    unsigned value = 0;
    /// Tells whether each launch sets the word to `value`. Otherwise the word
    /// is 0 until it is first set, and keeps its value between launches.
    bool assigned = false;
  };

  static CUresult make(context& in, CUgraph of, settings what,
                       std::shared_ptr<condition>& out);
  condition(context& in, CUgraph of, settings what, device_word word);

  CUgraphConditionalHandle handle() const noexcept { return word_.handle(); }
  device_address word() const noexcept { return word_.address(); }
  context& owner() const noexcept { return owner_; }

  /// Names the outermost graph around the one for which the condition was made.
  /// Conditional nodes of this graph, and of its bodies, may use the condition.
  const CUgraph graph;
  /// Tells whether a node uses the condition. Then no other node may use it.
  bool has_node = false;

  /// Appends the first step of a launch: setting the condition's initial value.
  CUresult begin_launch(stream& in) const;

private:
  context& owner_;
  const settings default_;
  const device_word word_;
  mutable std::atomic<bool> launched_{false};
};

/// Holds all conditions, by handle. Making a condition removes the unused ones.
struct condition_table {
  std::mutex mutex;
  std::map<CUgraphConditionalHandle, std::weak_ptr<condition>> all;
};

/// Finds a condition, or null when the handle names none.
std::shared_ptr<condition> find_condition(CUgraphConditionalHandle handle);

} // namespace vgpu::interposer
