// Reads of device memory through the reply arena.
#pragma once

#include "interposer/memory/copies.hpp"
#include "interposer/memory/late_copies.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/stream_event.hpp"
#include "schema/base/streaming_copy.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>

namespace vgpu::interposer {

inline call::box box_of(const rows& x) noexcept {
  return {x.address, x.pitch, x.slice};
}

inline void scatter(std::span<const std::byte> bytes, const rows& to,
                    const call::extent& part) noexcept {
  auto* target = reinterpret_cast<std::byte*>(to.address);
  for (std::uint64_t y = 0; y < part.height; ++y)
    streaming_copy(target + y * to.pitch, bytes.data() + y * part.width,
                   part.width);
}

/// Describes a part of a read.
struct read_part {
  rows from, to;
  call::extent size;
};

/// Requests a part, whose bytes come to this offset of the arena.
inline ticket begin_read(stream& in, const read_part& what,
                         std::uint64_t offset) {
  auto bytes = what.size.width * what.size.height;
  auto x = here().begin_read(
      call::read{{in.wire}, box_of(what.from), what.size, {offset, bytes}},
      in.device(), bytes);
  in.worked(x.call);
  return x;
}

/// Reads through the reply arena. It requests as many parts ahead as there is
/// room for, and takes them in order.
class arena_reader {
public:
  explicit arena_reader(stream& in) : in_(in) {}
  arena_reader(const arena_reader&) = delete;
  arena_reader& operator=(const arena_reader&) = delete;
  ~arena_reader() {
    // Requests remain here only after an exception. A late answer must not
    // arrive in a range that another request got meanwhile.
    for (auto& x : asked_)
      x.range.keep_forever();
  }

  CUresult ask(const rows& from, const rows& to, const call::extent& part) {
    // A thread must not wait for room while it holds room that other threads
    // wait for.
    while (!ask_now(from, to, part)) {
      if (asked_.empty()) {
        begin(from, to, part, here().arena().take(part.width * part.height));
        break;
      }
      if (auto code = take_one(); code != CUDA_SUCCESS)
        return code;
    }
    return CUDA_SUCCESS;
  }

  /// Requests a part, unless that would need room that is not free now.
  bool ask_now(const rows& from, const rows& to, const call::extent& part) {
    constexpr std::size_t most_ahead = 8;
    if (asked_.size() >= most_ahead)
      return false;
    auto range = here().arena().try_take(part.width * part.height);
    if (range)
      begin(from, to, part, std::move(*range));
    return range.has_value();
  }

  /// Takes all requested parts, and returns the first error.
  CUresult finish() {
    auto first = first_error_;
    while (!asked_.empty())
      if (auto code = take_one(); first == CUDA_SUCCESS)
        first = code;
    return first;
  }

private:
  struct part_asked {
    ticket asked;
    reply_arena::range range;
    rows to;
    call::extent part;
  };

  void begin(const rows& from, const rows& to, const call::extent& part,
             reply_arena::range range) {
    auto x = begin_read(in_, {from, to, part}, range.offset());
    asked_.push_back({x, std::move(range), to, part});
  }

  CUresult take_one() {
    auto& x = asked_.front();
    auto got = here().finish(x.asked);
    if (got.result == CUDA_SUCCESS)
      scatter(x.range.bytes(), x.to, x.part);
    else if (first_error_ == CUDA_SUCCESS)
      first_error_ = got.result;
    asked_.pop_front();
    return got.result;
  }

  stream& in_;
  std::deque<part_asked> asked_;
  CUresult first_error_ = CUDA_SUCCESS;
};

/// Reads for a copy that the program does not wait for, into the room of its
/// stream. The caller holds the room's lock until the stream's next work lets
/// the program take what was read.
class late_reader {
public:
  late_reader(stream& in, std::shared_ptr<late_room> into)
      : in_(in), into_(std::move(into)) {}
  late_reader(const late_reader&) = delete;
  late_reader& operator=(const late_reader&) = delete;
  ~late_reader() {
    late_copies().was_read(counted_);
    if (!asked_.empty())
      into_->keep_forever();
  }

  /// Requests as many of these parts as the room holds, and returns their
  /// number; 0 where the program has requested too much already.
  std::size_t ask(std::span<const read_part> parts) {
    for (const auto& x : parts) {
      auto bytes = x.size.width * x.size.height;
      if (asked_.size() == into_->pieces() || here().slots().scarce() ||
          !late_copies().may_read(bytes))
        break;
      counted_ += bytes;
      asked_.push_back(
          {begin_read(in_, x, into_->offset(asked_.size())), x.to, x.size});
    }
    return asked_.size();
  }

  /// Copies what was read into the program's memory.
  void take() {
    for (std::size_t piece = 0; !asked_.empty(); ++piece) {
      const auto& x = asked_.front();
      if (here().finish(x.asked).result == CUDA_SUCCESS)
        scatter(into_->bytes(piece), x.to, x.size);
      asked_.pop_front();
    }
  }

private:
  struct part_asked {
    ticket asked;
    rows to;
    call::extent size;
  };

  stream& in_;
  const std::shared_ptr<late_room> into_;
  std::deque<part_asked> asked_; // in the order of the room's pieces
  std::size_t counted_ = 0;      // bytes that may_read() counts
};

} // namespace vgpu::interposer
