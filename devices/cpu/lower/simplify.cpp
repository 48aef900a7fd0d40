#include "devices/cpu/lower/simplify.hpp"

#include "devices/cpu/lower/op_table.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace vgpu::device::cpu {

namespace {

// At most this many 32-bit registers hold results. More would displace the
// kernel's other registers from the first-level cache.
constexpr std::uint32_t most_kept = 24;
// The branch around the results costs about as much as one result.
constexpr std::size_t fewest = 3;

/// The bytes that "ld.param.a4.BYTES.COUNT" reads, or 0 for operations on
/// registers.
using bytes_read = std::uint32_t;

std::unordered_map<handler, bytes_read> find_hoistable() {
  static constexpr std::string_view beginnings[] = {
      "special.tid.",   "special.ntid.", "special.nctaid.",
      "special.laneid", "mov.b",         "add.b",
      "sub.b",          "shl.b",         "shr.",
      "and.b",          "or.b",          "mul.wide.",
      "mul.lo.",        "mad.lo.",       "cvt.u64.u32",
      "cvt.s64.s32"};
  static constexpr auto loads = std::string_view{"ld.param.a4."};
  auto out = std::unordered_map<handler, bytes_read>{};
  for (auto key : op_keys()) {
    auto entry = find_op(key);
    if (std::any_of(std::begin(beginnings), std::end(beginnings),
                    [&](auto x) { return key.starts_with(x); }))
      out.emplace(entry->fn, 0);
    else if (key.starts_with(loads))
      out.emplace(entry->fn, static_cast<bytes_read>(key[loads.size()] - '0') *
                                 static_cast<bytes_read>(key.back() - '0'));
  }
  return out;
}

/// Finds the operations whose first field is written or absent.
std::unordered_set<handler> find_optional_results() {
  auto out = std::unordered_set<handler>{};
  for (auto key : op_keys()) {
    auto entry = find_op(key);
    auto& s = entry->signature;
    if (s.size() > 1 && s[0] == '?' && s[1] >= 'A' && s[1] <= 'Z')
      out.insert(entry->fn);
  }
  return out;
}

std::unordered_set<handler> find_specials() {
  auto out = std::unordered_set<handler>{};
  for (auto key : op_keys())
    if (key.starts_with("special."))
      out.insert(find_op(key)->fn);
  return out;
}

std::uint32_t registers_of(const value& x) {
  return x.width == '@' ? 4 : x.width == '8' ? 2 : 1;
}

class hoisting {
public:
  hoisting(std::vector<pending>& instrs, std::vector<value>& values,
           std::vector<std::uint32_t>& label_at, const code& of)
      : instrs_{instrs}, values_{values}, label_at_{label_at}, of_{of},
        writes_(values.size()), same_(values.size()) {}

  std::uint32_t run() {
    count_writes();
    auto chosen = choose();
    if (std::count(chosen.begin(), chosen.end(), true) <
        static_cast<std::ptrdiff_t>(fewest))
      return 0;
    rearrange(chosen);
    return kept_;
  }

private:
  void count_writes() {
    for (auto& x : instrs_)
      each_operand(x, [&](std::size_t id, bool written) {
        writes_[id] += written ? 1u : 0u;
      });
  }

  /// Tells whether the load of a parameter cannot fail.
  bool within_parameters(const pending& x, bytes_read bytes) const {
    auto base = values_[static_cast<std::size_t>(x.what.o[fa])];
    return base.constant && base.bits == 0 && x.what.imm >= 0 &&
           x.what.imm % bytes == 0 &&
           x.what.imm + bytes <= of_.kernel_parameter_bytes;
  }

  bool is_same_for_all_blocks(const pending& x) const {
    static const auto hoistable = find_hoistable();
    auto known = hoistable.find(x.what.fn);
    if (known == hoistable.end() || x.guarded || x.target >= 0 ||
        (x.what.flags & mod::cc) != 0 ||
        (known->second != 0 && !within_parameters(x, known->second)))
      return false;
    auto yes = true;
    each_operand(x, [&](std::size_t id, bool written) {
      yes = yes &&
            (written ? writes_[id] == 1 : values_[id].constant || same_[id]);
    });
    return yes;
  }

  std::vector<bool> choose() {
    auto out = std::vector<bool>(instrs_.size());
    for (auto i = std::size_t{0}; i < instrs_.size(); ++i) {
      auto& x = instrs_[i];
      if (!is_same_for_all_blocks(x))
        continue;
      auto more = 0u;
      each_operand(x, [&](std::size_t id, bool written) {
        more += written ? registers_of(values_[id]) : 0u;
      });
      if (kept_ + more > most_kept)
        continue;
      kept_ += more;
      out[i] = true;
      each_operand(x, [&](std::size_t id, bool written) {
        if (written)
          same_[id] = true;
      });
    }
    return out;
  }

  pending operation(std::string_view key, std::uint8_t written) const {
    auto out = pending{};
    out.what.fn = find_op(key)->fn;
    out.written = written;
    out.line = instrs_.front().line;
    return out;
  }

  /// Gives the kernel a new beginning:
  ///       bra over, if `there`
  ///       the chosen instructions
  ///       there = true
  /// over: the rest
  void rearrange(const std::vector<bool>& chosen) {
    // A new frame is zeroed.
    auto there = static_cast<std::int32_t>(values_.size());
    values_.push_back({'p', false, 0});
    auto truth = there + 1;
    values_.push_back({'p', true, 1});
    auto begin = static_cast<std::int32_t>(label_at_.size());
    auto over = begin + 1;

    auto out = std::vector<pending>{operation("bra.if", 0)};
    out.front().what.o[fa] = there;
    out.front().target = over;
    for (auto i = std::size_t{0}; i < instrs_.size(); ++i)
      if (chosen[i])
        out.push_back(instrs_[i]);
    out.push_back(operation("mov.pred", 1u << fd));
    out.back().what.o[fd] = there;
    out.back().what.o[fa] = truth;
    out.push_back(operation("join", 0));

    leave_out(chosen, instrs_, label_at_);
    auto beginning = static_cast<std::uint32_t>(out.size());
    for (auto& at : label_at_)
      at += beginning;
    label_at_.push_back(0);
    label_at_.push_back(beginning);
    out.insert(out.end(), instrs_.begin(), instrs_.end());
    // For liveness, leaving the kernel leads back to its beginning, with the
    // next block. So the results, and no other values, keep their places.
    for (auto& x : out)
      if (x.ends && x.target < 0)
        x.target = begin;
    instrs_ = std::move(out);
  }

  std::vector<pending>& instrs_;
  std::vector<value>& values_;
  std::vector<std::uint32_t>& label_at_;
  const code& of_;
  std::vector<std::uint32_t> writes_;
  std::vector<bool> same_; // same for all blocks
  std::uint32_t kept_ = 1; // including the predicate `there`
};

} // namespace

std::vector<bool> labelled(const std::vector<pending>& instrs,
                           const std::vector<std::uint32_t>& label_at) {
  auto out = std::vector<bool>(instrs.size() + 1);
  for (auto at : label_at)
    out[at] = true;
  return out;
}

void leave_out(const std::vector<bool>& which, std::vector<pending>& instrs,
               std::vector<std::uint32_t>& label_at) {
  auto moved = std::vector<std::uint32_t>(instrs.size() + 1);
  auto out = std::vector<pending>{};
  for (auto i = std::size_t{0}; i < instrs.size(); ++i) {
    moved[i] = static_cast<std::uint32_t>(out.size());
    if (!which[i])
      out.push_back(instrs[i]);
  }
  moved.back() = static_cast<std::uint32_t>(out.size());
  for (auto& at : label_at)
    at = moved[at];
  instrs = std::move(out);
}

void write_specials_in_place(std::vector<pending>& instrs,
                             const std::vector<value>& values,
                             std::vector<std::uint32_t>& label_at) {
  static const auto specials = find_specials();
  static const handler moves[] = {find_op("mov.b32")->fn,
                                  find_op("mov.b64")->fn};
  auto uses = std::vector<std::uint32_t>(values.size());
  for (auto& x : instrs)
    each_operand(x, [&](std::size_t id, bool) { ++uses[id]; });
  const auto is_label = labelled(instrs, label_at);
  auto gone = std::vector<bool>(instrs.size());
  for (auto i = std::size_t{0}; i + 1 < instrs.size(); ++i) {
    auto& to = instrs[i].what.o[fd];
    auto& next = instrs[i + 1];
    if (!specials.contains(instrs[i].what.fn) || is_label[i + 1] ||
        std::find(std::begin(moves), std::end(moves), next.what.fn) ==
            std::end(moves) ||
        instrs[i].guarded || next.guarded || next.what.o[fa] != to)
      continue;
    auto from = static_cast<std::size_t>(to);
    auto wanted = next.what.o[fd];
    // The register is used only by these two instructions.
    if (uses[from] != 2 ||
        values[from].width != values[static_cast<std::size_t>(wanted)].width)
      continue;
    to = wanted;
    gone[i + 1] = true;
  }
  leave_out(gone, instrs, label_at);
}

void drop_unread_results(std::vector<pending>& instrs,
                         const std::vector<value>& values) {
  static const auto optional = find_optional_results();
  auto read = std::vector<bool>(values.size());
  for (auto& x : instrs)
    each_operand(x, [&](std::size_t id, bool written) {
      if (!written)
        read[id] = true;
    });
  for (auto& x : instrs) {
    auto& d = x.what.o[fd];
    if (d < 0 || read[static_cast<std::size_t>(d)] ||
        !optional.contains(x.what.fn))
      continue;
    d = -1;
    x.written &= static_cast<std::uint8_t>(~(1u << fd));
  }
}

std::uint32_t hoist_launch_constants(std::vector<pending>& instrs,
                                     std::vector<value>& values,
                                     std::vector<std::uint32_t>& label_at,
                                     const code& of) {
  // A called function may leave the kernel too, which is not visible here.
  if (!of.entry || of.calls || instrs.empty())
    return 0;
  return hoisting{instrs, values, label_at, of}.run();
}

} // namespace vgpu::device::cpu
