#include "devices/cpu/lower/op_table.hpp"
#include "devices/cpu/lower/simplify.hpp"

#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>

namespace vgpu::device::cpu {

namespace {

enum class index_kind : std::uint8_t { s32, u32 };

/// Says what part an operation has in computing addresses.
struct address_role {
  enum {
    none,
    same,   // same for all lanes, if its operands are
    sum,    // base + offset
    scaled, // index * constant, at twice the width
    access, // accesses global memory
  } is = none;
  index_kind kind = index_kind::s32;          // for scaled
  handler with_index[2] = {nullptr, nullptr}; // for access, by kind
};

handler find_handler(const std::string& key) {
  auto entry = find_op(key);
  return entry == nullptr ? nullptr : entry->fn;
}

std::unordered_map<handler, address_role> find_roles() {
  auto out = std::unordered_map<handler, address_role>{};
  auto role = [&](std::string_view key) -> address_role& {
    return out[find_op(key)->fn];
  };
  role("mov.b64").is = address_role::same;
  role("add.b64").is = address_role::sum;
  role("mul.wide.s32").is = address_role::scaled;
  role("mul.wide.u32").is = address_role::scaled;
  role("mul.wide.u32").kind = index_kind::u32;
  for (auto key : op_keys()) {
    if (key.starts_with("ld.param.a4.8.1"))
      role(key).is = address_role::same;
    for (auto kind : {"ld", "st"}) {
      auto beginning = std::string{kind} + ".global.a8.";
      if (!key.starts_with(beginning))
        continue;
      auto size = std::string{key.substr(beginning.size())};
      auto by_s32 = find_handler(std::string{kind} + ".index.s32." + size);
      auto by_u32 = find_handler(std::string{kind} + ".index.u32." + size);
      if (by_s32 != nullptr && by_u32 != nullptr)
        role(key) = {address_role::access, {}, {by_s32, by_u32}};
    }
  }
  return out;
}

/// Goes through a function from beginning to end, and remembers how values were
/// computed until one of their operands is written again.
class indexing {
public:
  indexing(std::vector<pending>& instrs, const std::vector<value>& values,
           std::vector<std::uint32_t>& label_at)
      : instrs_{instrs}, values_{values}, label_at_{label_at},
        facts_(values.size()), reads_(values.size()) {}

  void run() {
    count_writes();
    const auto is_label = labelled(instrs_, label_at_);
    auto changed = false;
    for (auto i = std::size_t{0}; i < instrs_.size(); ++i) {
      stretch_ += is_label[i] ? 1 : 0;
      changed = visit(instrs_[i]) || changed;
    }
    if (changed)
      drop_unread();
  }

private:
  /// Holds the known facts about a value after its latest write.
  struct fact {
    std::uint32_t writes = 0;  // number in the whole function
    std::uint32_t version = 0; // writes so far
    bool same = false;         // same for all lanes, wherever it is written
    // A scaled index or, with a base, an address. It holds in this stretch
    // only.
    std::uint32_t stretch = 0;
    std::int32_t index = -1, base = -1;
    std::uint32_t index_version = 0;
    std::int32_t scale = 0;
    index_kind kind = index_kind::s32;
  };

  fact& of(std::int32_t id) { return facts_[static_cast<std::size_t>(id)]; }
  bool is_constant(std::int32_t id) const {
    return values_[static_cast<std::size_t>(id)].constant;
  }
  bool is_same(std::int32_t id) { return is_constant(id) || of(id).same; }

  void count_writes() {
    for (auto& x : instrs_)
      each_operand(x, [&](std::size_t id, bool written) {
        if (written)
          ++facts_[id].writes;
        else
          ++reads_[id];
      });
  }

  bool is_known(std::int32_t id) {
    auto& x = of(id);
    return x.stretch == stretch_ && x.index >= 0 &&
           of(x.index).version == x.index_version;
  }

  /// Visits an instruction. Returns whether it changed.
  bool visit(pending& x) {
    static const auto roles = find_roles();
    auto known = roles.find(x.what.fn);
    if (known != roles.end() && known->second.is == address_role::access)
      return use_index(x, known->second);
    auto made = fact{};
    if (known != roles.end() && !x.guarded && (x.what.flags & mod::cc) == 0)
      made = result_of(x.what, known->second);
    each_operand(x, [&](std::size_t id, bool written) {
      if (!written)
        return;
      auto& to = facts_[id];
      made.writes = to.writes;
      made.version = to.version + 1;
      made.same = made.same && to.writes == 1;
      to = made;
    });
    return false;
  }

  fact result_of(const instr& x, const address_role& role) {
    auto out = fact{};
    switch (role.is) {
    case address_role::same:
      out.same = is_same(x.o[fa]);
      break;
    case address_role::sum:
      out.same = is_same(x.o[fa]) && is_same(x.o[fb]);
      if (is_offset(x.o[fb]) && is_base(x.o[fa]))
        out = address_of(x.o[fa], x.o[fb]);
      else if (is_offset(x.o[fa]) && is_base(x.o[fb]))
        out = address_of(x.o[fb], x.o[fa]);
      break;
    case address_role::scaled:
      out = scaled_by(x, role.kind);
      break;
    default:
      break;
    }
    return out;
  }

  bool is_offset(std::int32_t id) { return is_known(id) && of(id).base < 0; }
  bool is_base(std::int32_t id) { return !is_constant(id) && of(id).same; }

  fact address_of(std::int32_t base, std::int32_t offset) {
    auto out = of(offset);
    out.same = false;
    out.base = base;
    return out;
  }

  fact scaled_by(const instr& x, index_kind kind) {
    auto out = fact{};
    auto index = x.o[fa];
    auto by = x.o[fb];
    if (is_constant(index))
      std::swap(index, by);
    if (is_constant(index) || !is_constant(by))
      return out;
    auto scale = values_[static_cast<std::size_t>(by)].bits & 0xffff'ffff;
    if (scale > std::numeric_limits<std::int32_t>::max())
      return out;
    out.stretch = stretch_;
    out.index = index;
    out.index_version = of(index).version;
    out.scale = static_cast<std::int32_t>(scale);
    out.kind = kind;
    return out;
  }

  bool use_index(pending& x, const address_role& role) {
    auto from = x.what.o[fa];
    auto changed = is_known(from) && of(from).base >= 0;
    if (changed) {
      auto& a = of(from);
      x.what.fn = role.with_index[static_cast<std::size_t>(a.kind)];
      x.what.o[fa] = a.index;
      x.what.o[ff] = a.base;
      x.what.extra = static_cast<std::uint32_t>(a.scale);
      --reads_[static_cast<std::size_t>(from)];
      ++reads_[static_cast<std::size_t>(a.index)];
      ++reads_[static_cast<std::size_t>(a.base)];
    }
    each_operand(x, [&](std::size_t id, bool written) {
      if (written)
        facts_[id] = {facts_[id].writes, facts_[id].version + 1};
    });
    return changed;
  }

  /// Drops the operations that computed addresses which nothing reads any more.
  void drop_unread() {
    static const auto roles = find_roles();
    auto gone = std::vector<bool>(instrs_.size());
    for (auto i = instrs_.size(); i-- > 0;) {
      auto& x = instrs_[i];
      auto known = roles.find(x.what.fn);
      if (known == roles.end() || x.guarded ||
          (known->second.is != address_role::sum &&
           known->second.is != address_role::scaled) ||
          (x.what.flags & mod::cc) != 0 ||
          reads_[static_cast<std::size_t>(x.what.o[fd])] != 0)
        continue;
      gone[i] = true;
      each_operand(x, [&](std::size_t id, bool written) {
        if (!written)
          --reads_[id];
      });
    }
    leave_out(gone, instrs_, label_at_);
  }

  std::vector<pending>& instrs_;
  const std::vector<value>& values_;
  std::vector<std::uint32_t>& label_at_;
  std::vector<fact> facts_;
  std::vector<std::uint32_t> reads_;
  std::uint32_t stretch_ = 1; // the stretch since the last label
};

} // namespace

void use_indices(std::vector<pending>& instrs, const std::vector<value>& values,
                 std::vector<std::uint32_t>& label_at) {
  indexing{instrs, values, label_at}.run();
}

} // namespace vgpu::device::cpu
