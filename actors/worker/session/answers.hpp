// How a worker's executor answers a program: into the program's own memory
// (mapped), or over the data plane (forwarded).
#pragma once

#include "schema/base/cuda_fault.hpp"
#include "schema/catalogue/calls.hpp"
#include "schema/log/call_log.hpp"
#include "schema/log/session_area.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace vgpu {

/// Names the call to answer, and the slot in which its program waits.
struct waiter {
  slot_index slot = 0;
  call_number call;
};

/// Holds room for bytes on their way from the device to the program. Keep it
/// until they are delivered.
struct landing {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner;

  landing part(std::uint64_t offset, std::uint64_t count) const {
    return {bytes.subspan(offset, count), owner};
  }
};

/// Receives the answers of a worker. Thread-safe: completions answer on the
/// devices' threads.
class answer_sink {
public:
  virtual ~answer_sink() = default;

  /// Returns false where the program certainly does not wait for this call any
  /// more, so that its results need not be read.
  virtual bool wanted(const waiter& who) const = 0;

  virtual void answer(const waiter& who, CUresult result,
                      std::uint64_t value) = 0;

  /// Returns whether delivered bytes are kept as a digest, which a replay
  /// compares with its own.
  virtual bool keeps_digests() const = 0;

  /// Returns room for an answer of `bytes` bytes that belongs into this range
  /// of the arena. Fails where the range does not fit the arena.
  virtual result<landing> land(call::arena_range range,
                               std::uint64_t bytes) = 0;
  /// Returns how much of an answer of so many bytes to deliver at a time. A
  /// part is sent while the rest is read from the device.
  virtual std::uint64_t part_of(std::uint64_t bytes) const { return bytes; }
  /// Delivers a part of an answer, to this offset of the arena. deliver() gets
  /// the last part.
  virtual void deliver_part(const waiter&, const landing&, std::uint64_t) {}
  /// Answers with the bytes that have landed, whatever the result is: a refused
  /// module brings its error text. A call that failed before it wrote the bytes
  /// passes an empty landing. `digest` covers all of them (answer_digest.hpp).
  virtual void deliver(const waiter& who, CUresult result, std::uint64_t value,
                       const landing& what, std::uint64_t arena_offset,
                       std::uint32_t digest) = 0;

  /// Returns room for bytes that belong to this place in the host window, which
  /// the executor has checked.
  virtual landing land_host(device_address address, std::uint64_t bytes) = 0;
  /// Delivers landed bytes. A `who` with slot 0 says that more rows or parts
  /// follow. The last one has the digest of all.
  virtual void deliver_host(const waiter& who, CUresult result,
                            device_address address, const landing& what,
                            std::uint32_t digest) = 0;

  /// Reports that a host function's turn has come.
  virtual void call_host(const waiter& who) = 0;
  /// Prints text of printf. `position` counts all bytes of the console before
  /// it.
  virtual void print(console where, std::uint64_t position,
                     std::string_view text) = 0;
  /// Reports that a device of the session failed for good.
  virtual void sticky(CUresult error) = 0;
};

/// Drops all answers, for calls that are executed again during a restore.
class unheard : public answer_sink {
public:
  bool wanted(const waiter&) const override { return false; }
  void answer(const waiter&, CUresult, std::uint64_t) override {}
  bool keeps_digests() const override { return false; }
  result<landing> land(call::arena_range, std::uint64_t) override {
    return cuda_fault(CUDA_ERROR_INVALID_VALUE, "nobody waits for this");
  }
  void deliver(const waiter&, CUresult, std::uint64_t, const landing&,
               std::uint64_t, std::uint32_t) override {}
  landing land_host(device_address, std::uint64_t) override { return {}; }
  void deliver_host(const waiter&, CUresult, device_address, const landing&,
                    std::uint32_t) override {}
  void call_host(const waiter&) override {}
  void print(console, std::uint64_t, std::string_view) override {}
  void sticky(CUresult) override {}
};

/// Answers a program on the same host.
class mapped_answers final : public answer_sink {
public:
  /// Calls `first`, on any thread, after the first answer.
  mapped_answers(std::shared_ptr<const session_area> area,
                 std::function<void()> first)
      : area_(std::move(area)), first_(std::move(first)) {}

  /// Returns the number of answers so far.
  std::uint64_t count() const noexcept { return count_.load(); }

  bool wanted(const waiter& who) const override;
  void answer(const waiter& who, CUresult result, std::uint64_t value) override;
  result<landing> land(call::arena_range range, std::uint64_t bytes) override;
  bool keeps_digests() const override;
  void deliver(const waiter& who, CUresult result, std::uint64_t value,
               const landing& what, std::uint64_t arena_offset,
               std::uint32_t digest) override;
  landing land_host(device_address address, std::uint64_t bytes) override;
  void deliver_host(const waiter& who, CUresult result, device_address address,
                    const landing& what, std::uint32_t digest) override;
  void call_host(const waiter& who) override;
  void print(console where, std::uint64_t position,
             std::string_view text) override;
  void sticky(CUresult error) override;

private:
  std::shared_ptr<const session_area> area_;
  std::function<void()> first_;
  std::atomic<std::uint64_t> count_{0};
};

} // namespace vgpu
