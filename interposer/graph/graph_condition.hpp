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

/// The store has the words of one device that graphs choose by. A word that is
/// given back can be taken again once the work that the log held before is
/// known to be done. The members are for device_word alone, which holds the
/// lock.
struct word_store {
  struct freed {
    device_address word = 0;
    std::uint64_t position = 0;
  };

  std::mutex mutex;
  device_address base = 0;  ///< The program's side has the words here.
  device_address place = 0; ///< Kernels have them here.
  CUmemGenericAllocationHandle memory = 0;
  std::uint64_t used = 0;  ///< This counts all bytes that were ever taken.
  std::uint64_t taken = 0; ///< This counts words.
  std::deque<freed> given_back;

  /// Makes the memory where there is none. It is of the kind that programs
  /// place themselves, so that migrations and recoveries treat it like that.
  CUresult open(std::uint8_t device);
  /// Gives the memory back. Waits for the device, as any unmapping does.
  void close();
  /// Takes a word, or returns 0 when there are no more. Precondition: the
  /// memory exists.
  device_address next(std::uint8_t device);
};

/// This owns a word of device memory, one of the 2 MiB whose words kernels can
/// set (schema/base/condition_handles.hpp). Its initial value is arbitrary.
class device_word {
public:
  /// Takes a word. Returns CUDA_ERROR_NOT_SUPPORTED on a device whose kernels
  /// set no conditions, and CUDA_ERROR_OUT_OF_MEMORY beyond the quota, or when
  /// there are no more.
  static CUresult take(std::uint8_t device, device_word& out);
  /// Gives the device's memory back if nothing uses a word of it, as a context
  /// of the device ends.
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
  device_address address_ = 0; // This is 0 where it owns no word.
};

/// A conditional node chooses by this value. A graph owns it, and it lives as
/// long as an executable graph uses it.
class condition {
public:
  struct settings {
    unsigned value = 0;
    /// This tells whether each launch sets the word to `value`. Otherwise the
    /// word is 0 until something sets it, and keeps its value between launches.
    bool assigned = false;
  };

  static CUresult make(context& in, CUgraph of, settings what,
                       std::shared_ptr<condition>& out);
  condition(context& in, CUgraph of, settings what, device_word word);

  CUgraphConditionalHandle handle() const noexcept { return word_.handle(); }
  device_address word() const noexcept { return word_.address(); }
  context& owner() const noexcept { return owner_; }

  /// This is the outermost graph around the one that it was made for.
  /// Conditional nodes there, and in its bodies, may use the condition.
  const CUgraph graph;
  /// This tells whether a node has the condition; no other node may have it
  /// then.
  bool has_node = false;

  /// Appends what a launch does with the condition first.
  CUresult begin_launch(stream& in) const;

private:
  context& owner_;
  const settings default_;
  const device_word word_;
  mutable std::atomic<bool> launched_{false};
};

/// The table holds all conditions, by handle. Making a condition removes those
/// that nothing uses any more.
struct condition_table {
  std::mutex mutex;
  std::map<CUgraphConditionalHandle, std::weak_ptr<condition>> all;
};

/// Finds a condition, or null when the handle names none.
std::shared_ptr<condition> find_condition(CUgraphConditionalHandle handle);

} // namespace vgpu::interposer
