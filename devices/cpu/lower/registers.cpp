#include "devices/cpu/lower/registers.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace vgpu::device::cpu {

namespace {

std::uint32_t bytes_of(char width) {
  switch (width) {
  case 'p':
    return sizeof(lane_mask);
  case '1':
    return lanes;
  case '2':
    return 2 * lanes;
  case '4':
    return 4 * lanes;
  case '@': // 16
    return 16 * lanes;
  default:
    return 8 * lanes;
  }
}

/// Holds a set of values, one bit each.
class bit_set {
public:
  explicit bit_set(std::size_t size) : words_((size + 63) / 64) {}
  bool has(std::size_t i) const { return ((words_[i / 64] >> (i % 64)) & 1); }
  void add(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void remove(std::size_t i) {
    words_[i / 64] &= ~(std::uint64_t{1} << (i % 64));
  }
  /// Adds a set. Returns whether any value was new.
  bool merge(const bit_set& x) {
    auto fresh = std::uint64_t{0};
    for (auto i = std::size_t{0}; i < words_.size(); ++i) {
      fresh |= x.words_[i] & ~words_[i];
      words_[i] |= x.words_[i];
    }
    return fresh != 0;
  }
  template <class F>
  void each(F f) const {
    for (auto i = std::size_t{0}; i < words_.size(); ++i)
      for (auto w = words_[i]; w != 0; w &= w - 1)
        f(i * 64 + static_cast<std::size_t>(__builtin_ctzll(w)));
  }

private:
  std::vector<std::uint64_t> words_;
};

struct basic_block {
  std::size_t begin = 0, end = 0;
  std::vector<std::size_t> next;
  bit_set in, out;
};

/// Describes the range of code over which a value must keep its place.
struct interval {
  std::int32_t id = -1;
  std::size_t begin = 0, end = 0;
};

class allocator {
public:
  allocator(std::vector<pending>& instrs, const std::vector<value>& values,
            const std::vector<std::uint32_t>& label_at, code& of)
      : instrs_{instrs}, values_{values}, label_at_{label_at}, of_{of},
        offsets_(values.size(), -1) {}

  void run() {
    place_constants();
    find_blocks();
    // For larger functions solving for liveness costs more than it saves.
    if (values_.size() * blocks_.size() <= (std::size_t{1} << 28)) {
      solve();
      place_intervals();
    } else {
      place_apart();
    }
    rewrite();
  }

private:
  std::int32_t take(char width) {
    auto bytes = bytes_of(width);
    // Predicates are packed, and everything else is aligned for vectors.
    auto align = bytes < 64 ? (width == 'p' ? 4u : 64u) : 64u;
    of_.frame_bytes = (of_.frame_bytes + align - 1) / align * align;
    auto at = static_cast<std::int32_t>(of_.frame_bytes);
    of_.frame_bytes += bytes;
    return at;
  }

  void place_constants() {
    for (auto i = std::size_t{0}; i < values_.size(); ++i) {
      auto& v = values_[i];
      if (!v.constant)
        continue;
      auto at = take(v.width);
      offsets_[i] = at;
      of_.constants.resize(of_.frame_bytes);
      auto to = of_.constants.data() + at;
      if (v.width == 'p') {
        auto mask = v.bits != 0 ? all_lanes : 0u;
        std::memcpy(to, &mask, sizeof mask);
        continue;
      }
      auto size = bytes_of(v.width) / lanes;
      for (auto l = 0u; l < lanes; ++l)
        std::memcpy(to + l * size, &v.bits, size);
    }
    of_.frame_bytes = (of_.frame_bytes + 63) / 64 * 64;
  }

  void find_blocks() {
    auto starts = std::vector<bool>(instrs_.size() + 1);
    starts[0] = true;
    for (auto at : label_at_)
      starts[std::min<std::size_t>(at, instrs_.size())] = true;
    for (auto i = std::size_t{0}; i < instrs_.size(); ++i)
      if (instrs_[i].target >= 0 || instrs_[i].ends)
        starts[i + 1] = true;
    block_of_.resize(instrs_.size() + 1);
    for (auto i = std::size_t{0}; i < instrs_.size(); ++i) {
      if (starts[i])
        blocks_.push_back(
            {i, i, {}, bit_set{values_.size()}, bit_set{values_.size()}});
      block_of_[i] = blocks_.size() - 1;
      blocks_.back().end = i + 1;
    }
    for (auto& b : blocks_) {
      auto& last = instrs_[b.end - 1];
      if (last.target >= 0)
        b.next.push_back(
            block_of_[label_at_[static_cast<std::size_t>(last.target)]]);
      if (!last.ends && b.end < instrs_.size())
        b.next.push_back(block_of_[b.end]);
    }
  }

  /// Computes which values are live before an instruction from those live after
  /// it.
  void step_back(bit_set& alive, const pending& x) const {
    if (!x.guarded)
      each_operand(x, [&](std::int32_t id, bool written) {
        if (written)
          alive.remove(static_cast<std::size_t>(id));
      });
    each_operand(x, [&](std::int32_t id, bool written) {
      if (!written && !values_[static_cast<std::size_t>(id)].constant)
        alive.add(static_cast<std::size_t>(id));
    });
  }

  void solve() {
    auto changed = true;
    while (changed) {
      changed = false;
      for (auto b = blocks_.rbegin(); b != blocks_.rend(); ++b) {
        for (auto n : b->next)
          b->out.merge(blocks_[n].in);
        auto alive = b->out;
        for (auto i = b->end; i > b->begin; --i)
          step_back(alive, instrs_[i - 1]);
        changed = b->in.merge(alive) || changed;
      }
    }
  }

  void place_intervals() {
    auto spans = std::vector<interval>(values_.size());
    auto touch = [&](std::size_t id, std::size_t at) {
      if (values_[id].constant)
        return;
      auto& s = spans[id];
      if (s.id < 0)
        s = {static_cast<std::int32_t>(id), at, at};
      s.begin = std::min(s.begin, at);
      s.end = std::max(s.end, at);
    };
    for (auto& b : blocks_) {
      b.in.each([&](std::size_t id) { touch(id, b.begin); });
      b.out.each([&](std::size_t id) { touch(id, b.end); });
      for (auto i = b.begin; i < b.end; ++i)
        each_operand(instrs_[i], [&](std::int32_t id, bool) {
          touch(static_cast<std::size_t>(id), i);
        });
    }
    std::erase_if(spans, [](const interval& x) { return x.id < 0; });
    std::sort(
        spans.begin(), spans.end(),
        [](const interval& a, const interval& b) { return a.begin < b.begin; });
    assign(spans);
  }

  void assign(const std::vector<interval>& spans) {
    static constexpr auto widths = std::string_view{"p1248@"};
    std::array<std::vector<std::int32_t>, 6> free;
    auto active = std::vector<interval>{};
    auto later = [](const interval& a, const interval& b) {
      return a.end > b.end;
    };
    auto live = 0u;
    auto weight = [&](std::int32_t id) {
      auto width = values_[static_cast<std::size_t>(id)].width;
      return width == '@' ? 4u : width == '8' ? 2u : 1u;
    };
    for (auto& s : spans) {
      while (!active.empty() && active.front().end < s.begin) {
        std::pop_heap(active.begin(), active.end(), later);
        auto id = active.back().id;
        active.pop_back();
        live -= weight(id);
        auto& v = values_[static_cast<std::size_t>(id)];
        free[widths.find(v.width)].push_back(
            offsets_[static_cast<std::size_t>(id)]);
      }
      auto width = values_[static_cast<std::size_t>(s.id)].width;
      auto& pool = free[widths.find(width)];
      auto& to = offsets_[static_cast<std::size_t>(s.id)];
      if (pool.empty()) {
        to = take(width);
      } else {
        to = pool.back();
        pool.pop_back();
      }
      active.push_back(s);
      std::push_heap(active.begin(), active.end(), later);
      live += weight(s.id);
      of_.max_live = std::max(of_.max_live, live);
    }
  }

  void place_apart() {
    for (auto& x : instrs_)
      each_operand(x, [&](std::int32_t id, bool) {
        auto& to = offsets_[static_cast<std::size_t>(id)];
        if (to < 0)
          to = take(values_[static_cast<std::size_t>(id)].width);
      });
    of_.max_live = 255;
  }

  void rewrite() {
    for (auto& x : instrs_)
      for (auto& o : x.what.o)
        if (o >= 0)
          o = offsets_[static_cast<std::size_t>(o)];
    of_.frame_bytes = (of_.frame_bytes + 63) / 64 * 64;
  }

  std::vector<pending>& instrs_;
  const std::vector<value>& values_;
  const std::vector<std::uint32_t>& label_at_;
  code& of_;
  std::vector<std::int32_t> offsets_;
  std::vector<basic_block> blocks_;
  std::vector<std::size_t> block_of_;
};

} // namespace

void place_registers(std::vector<pending>& instrs,
                     const std::vector<value>& values,
                     const std::vector<std::uint32_t>& label_at, code& of) {
  allocator{instrs, values, label_at, of}.run();
}

} // namespace vgpu::device::cpu
