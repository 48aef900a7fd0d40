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
    auto x =
        here().begin(call::read{{in_.wire},
                                box_of(from),
                                part,
                                {range.offset(), part.width * part.height}},
                     in_.device());
    in_.worked(x.call);
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

/// Describes a part of a read.
struct read_part {
  rows from, to;
  call::extent size;
};

/// Reads for a copy that the program does not wait for. The program may make
/// many of them at once, so together they occupy a part of the arena only.
class late_reader {
public:
  explicit late_reader(stream& in) : reader_(in) {}
  late_reader(const late_reader&) = delete;
  late_reader& operator=(const late_reader&) = delete;
  ~late_reader() { late_copies().give_room(held_); }

  /// Requests as many of these parts as there is room for, and returns their
  /// number.
  std::size_t ask(std::span<const read_part> parts) {
    std::size_t out = 0;
    for (; out < parts.size() && !here().slots().scarce(); ++out) {
      const auto& x = parts[out];
      auto bytes = x.size.width * x.size.height;
      if (!late_copies().take_room(bytes))
        break;
      held_ += bytes;
      if (!reader_.ask_now(x.from, x.to, x.size))
        break;
    }
    return out;
  }
  /// Copies what was read into the program's memory.
  void take() { (void)reader_.finish(); }

private:
  arena_reader reader_;
  std::size_t held_ = 0;
};

} // namespace vgpu::interposer
