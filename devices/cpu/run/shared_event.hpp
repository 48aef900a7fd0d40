// An event that several processes share.
#pragma once

#include "devices/interface/sharing_unit.hpp"
#include "schema/base/fault.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace vgpu::device::cpu {

/// Represents an event by a page of shared memory, in which records are
/// numbered and marked as done. The latest number is the event's latest record,
/// of any process. Thread-safe, also between worker processes.
class shared_event {
public:
  /// Makes an event that was never recorded.
  static result<std::shared_ptr<shared_event>> create();
  /// Opens an event of another process. Returns CUDA_ERROR_INVALID_VALUE where
  /// the file is no such page.
  static result<std::shared_ptr<shared_event>> open(const shared_object& from);

  /// Returns the object by which another process opens the event.
  shared_object object() const { return {{}, {file_}}; }

  /// Begins a new record, which becomes the latest. This process has to call
  /// reach() for it.
  std::uint64_t begin_record() noexcept;
  /// Marks a record as done.
  void reach(std::uint64_t record) noexcept;

  /// Returns the number of the latest record, or 0 where there is none.
  std::uint64_t recorded() const noexcept;
  /// Tells whether the record is done, or the process that made it has ended. A
  /// record with more than `places` later ones counts as done.
  bool reached(std::uint64_t record) const noexcept;

private:
  static constexpr std::size_t places = 64;
  struct place {
    std::atomic<std::uint64_t> done;
    std::atomic<std::int32_t> recorder; // a process id
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
