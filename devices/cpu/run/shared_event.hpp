// An event that several processes have.
#pragma once

#include "devices/interface/sharing_unit.hpp"
#include "schema/base/fault.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace vgpu::device::cpu {

/// A page of shared memory in which records are numbered and ticked off. The
/// latest number is the event's latest record, whichever process made it.
/// Thread-safe, and among processes that are each other's equals: workers.
class shared_event {
public:
  static result<std::shared_ptr<shared_event>> create();
  /// CUDA_ERROR_INVALID_VALUE where the file is not such a page.
  static result<std::shared_ptr<shared_event>> open(const shared_object& from);

  shared_object object() const { return {{}, {file_}}; }

  /// A new record, the latest from now on; it is to be ticked off by this
  /// process.
  std::uint64_t begin_record() noexcept;
  void reach(std::uint64_t record) noexcept;

  /// The latest; 0 where there was none.
  std::uint64_t recorded() const noexcept;
  /// Whether that record is done, or nobody is there any more to do it. With
  /// more than `places` after it, it counts as done.
  bool reached(std::uint64_t record) const noexcept;

private:
  static constexpr std::size_t places = 64;
  struct place {
    std::atomic<std::uint64_t> done;
    std::atomic<std::int32_t> recorder; // a process
  };
  struct page {
    std::atomic<std::uint64_t> recorded;
    std::array<place, places> all;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  static result<std::shared_ptr<shared_event>> map(shared_descriptor file);
  page& at() const noexcept { return *reinterpret_cast<page*>(memory_.data()); }

  shared_descriptor file_;
  mapping memory_;
};

} // namespace vgpu::device::cpu
