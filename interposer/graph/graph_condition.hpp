// Conditions of graphs (CUDA Driver API, "Graph Management",
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
/// given back is taken again when the work that was in the log before is known
/// to be done. The members are for device_word alone, which holds the lock.
struct word_store {
  struct freed {
    device_address word = 0;
    std::uint64_t position = 0;
  };

  std::mutex mutex;
  device_address base = 0;  ///< where the program's side has them
  device_address place = 0; ///< where kernels do
  CUmemGenericAllocationHandle memory = 0;
  std::uint64_t used = 0;  ///< bytes that were taken ever
  std::uint64_t taken = 0; ///< words
  std::deque<freed> given_back;

  /// Makes the memory where there is none: of the program's own kind, so that
  /// it moves and comes back like that.
  CUresult open(std::uint8_t device);
  /// Waits for the device, as any unmapping does.
  void close();
  /// Takes a word; 0 when there are no more. Precondition: it is open.
  device_address next(std::uint8_t device);
};

/// A word of device memory that this library has for itself, of the 2 MiB that
/// kernels can set words of (schema/base/condition_handles.hpp). It holds
/// anything.
class device_word {
public:
  /// CUDA_ERROR_NOT_SUPPORTED on a device whose kernels set no conditions,
  /// CUDA_ERROR_OUT_OF_MEMORY by the quota, or when there are no more.
  static CUresult take(std::uint8_t device, device_word& out);
  /// A context of the device ends: the memory goes if nobody has a word of it.
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
  device_address address_ = 0; // 0: none
};

/// The value by which a conditional node chooses. Belongs to a graph, and lives
/// as long as one that can be launched uses it.
class condition {
public:
  struct settings {
    unsigned value = 0;
    /// Whether the word gets it at each launch; else it is 0 until something is
    /// set, and then as it was left.
    bool assigned = false;
  };

  static CUresult make(context& in, CUgraph of, settings what,
                       std::shared_ptr<condition>& out);
  condition(context& in, CUgraph of, settings what, device_word word);

  CUgraphConditionalHandle handle() const noexcept { return word_.handle(); }
  device_address word() const noexcept { return word_.address(); }
  context& owner() const noexcept { return owner_; }

  /// The outermost graph around the one that it was made for: conditional nodes
  /// of it, and of bodies in it, may have it.
  const CUgraph graph;
  /// A node has it: no other may.
  bool has_node = false;

  /// What a launch does with it first.
  CUresult begin_launch(stream& in) const;

private:
  context& owner_;
  const settings default_;
  const device_word word_;
  mutable std::atomic<bool> launched_{false};
};

/// The table holds all conditions, by handle. One that nothing uses any more is
/// forgotten when the next is made.
struct condition_table {
  std::mutex mutex;
  std::map<CUgraphConditionalHandle, std::weak_ptr<condition>> all;
};

/// Null when the handle names nothing.
std::shared_ptr<condition> find_condition(CUgraphConditionalHandle handle);

} // namespace vgpu::interposer
