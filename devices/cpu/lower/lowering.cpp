#include "devices/cpu/lower/lowering.hpp"

#include "devices/cpu/lower/function_lowering.hpp"
#include "devices/cpu/lower/simplify.hpp"

#include <algorithm>
#include <bit>
#include <set>

namespace vgpu::device::cpu {

char width_for(const ptx::type& t) {
  if (t.kind == 'p')
    return 'p';
  return static_cast<char>('0' + t.bytes);
}

char read_form(char signature) {
  switch (signature) {
  case 'A':
    return '1';
  case 'B':
    return '2';
  case 'D':
    return '4';
  case 'H':
    return '8';
  case 'Q':
    return '@';
  case 'P':
    return 'p';
  default:
    return signature;
  }
}

std::optional<std::uint32_t> rounding_flag(std::string_view m) {
  static const auto table = std::map<std::string_view, std::uint32_t>{
      {"rn", mod::rn},
      {"rz", mod::rz},
      {"rm", mod::rm},
      {"rp", mod::rp},
      {"rni", mod::rn | mod::integral},
      {"rzi", mod::rz | mod::integral},
      {"rmi", mod::rm | mod::integral},
      {"rpi", mod::rp | mod::integral},
      {"ftz", mod::ftz},
      {"approx", mod::approx},
      {"full", mod::approx},
      {"NaN", mod::nan},
      {"relu", mod::relu},
      {"noftz", 0},
  };
  auto found = table.find(m);
  if (found == table.end())
    return std::nullopt;
  return found->second;
}

bool is_float(const ptx::type& t) {
  return t.kind == 'f' || t.kind == 'h';
}

namespace {

// The bytes of a function's registers for one warp may not exceed this.
constexpr std::uint32_t max_frame_bytes = 4 << 20;

} // namespace

// -- building blocks ----------------------------------------------------------

void function_lowering::fail(const std::string& what) const {
  throw ptx::syntax_error{now_ != nullptr ? now_->line : fn_.line,
                          fn_.name + ": " + what};
}

void function_lowering::unsupported() const {
  fail("instruction '" + now_->text() + "' is not supported by the cpu device");
}

bool function_lowering::has(std::string_view modifier) const {
  auto& m = now_->modifiers;
  return std::find(m.begin(), m.end(), modifier) != m.end();
}

void function_lowering::need(std::size_t operands) const {
  if (now_->operands.size() != operands)
    fail(now_->text() + " needs " + std::to_string(operands) +
         " operands, not " + std::to_string(now_->operands.size()));
}

int function_lowering::temp(char width) {
  values_.push_back({width, false, 0});
  return static_cast<int>(values_.size()) - 1;
}

int function_lowering::constant(char width, std::uint64_t bits) {
  if (width == '1' || width == '2' || width == '4')
    bits &= (std::uint64_t{1} << (8 * (width - '0'))) - 1;
  auto [at, fresh] = constants_.try_emplace({width, bits}, 0);
  if (fresh) {
    values_.push_back({width, true, bits});
    at->second = static_cast<int>(values_.size()) - 1;
  }
  return at->second;
}

void function_lowering::check(const op_entry& entry, const pending& x) const {
  auto optional = false;
  auto at = 0u;
  for (auto c : entry.signature) {
    if (c == '\0')
      break;
    if (c == '?') {
      optional = true;
      continue;
    }
    auto id = x.what.o[at++];
    if (c != '.' && id < 0 && !optional)
      fail(now_->text() + " lacks an operand");
    if (c != '.' && id >= 0 && width_of(id) != read_form(c))
      fail(now_->text() + ": operand " + std::to_string(at) +
           " has the wrong size");
    if (c == '.' && id >= 0)
      fail(now_->text() + " has one operand too many");
    optional = false;
  }
  for (; at < field_count; ++at)
    if (x.what.o[at] >= 0)
      fail(now_->text() + " has one operand too many");
}

bool function_lowering::try_emit(std::string_view key,
                                 std::initializer_list<int> operands,
                                 std::int64_t imm, std::uint32_t flags) {
  auto entry = find_op(key);
  if (entry == nullptr)
    return false;
  auto x = pending{};
  x.what.fn = entry->fn;
  x.what.imm = imm;
  x.what.flags = flags;
  x.line = now_ != nullptr ? now_->line : fn_.line;
  x.guarded = guarded_;
  if (operands.size() > field_count)
    fail(now_->text() + " has too many operands");
  std::copy(operands.begin(), operands.end(), x.what.o);
  check(*entry, x);
  auto at = 0;
  for (auto c : entry->signature) {
    if (c == '\0')
      break;
    if (c == '?')
      continue;
    if (c >= 'A' && c <= 'Z')
      x.written |= static_cast<std::uint8_t>(1 << at);
    ++at;
  }
  // No instruction may write a constant.
  for (auto i = 0; i < field_count; ++i)
    if (((x.written >> i) & 1) != 0 && x.what.o[i] >= 0 &&
        values_[std::size_t(x.what.o[i])].constant)
      fail(now_->text() + " writes a constant");
  if (code_.size() > (1u << 22))
    fail("the function is too long");
  code_.push_back(x);
  return true;
}

pending& function_lowering::emit(std::string_view key,
                                 std::initializer_list<int> operands,
                                 std::int64_t imm, std::uint32_t flags) {
  if (!try_emit(key, operands, imm, flags))
    unsupported();
  return code_.back();
}

// -- operands -----------------------------------------------------------------

int function_lowering::resize(int id, char to, bool is_signed) {
  auto from = width_of(id);
  if (from == to)
    return id;
  if (from == 'p' || to == 'p')
    fail(now_->text() + " mixes predicates and numbers");
  auto name = [&](char w) {
    return std::string{is_signed ? 's' : 'u'} + std::to_string(8 * (w - '0'));
  };
  auto out = temp(to);
  emit("cvt." + name(to) + "." + name(from), {out, id});
  return out;
}

int function_lowering::special(const op& x, char width) {
  auto name = std::string_view{x.name}.substr(1);
  if (name.starts_with("envreg") && name != "envreg1" && name != "envreg2")
    return constant(width, 0);
  auto wide = name == "clock64" || name == "globaltimer" || name == "gridid";
  if (name == "is_explicit_cluster")
    fail("%is_explicit_cluster is a predicate");
  if (name.starts_with("reserved_smem"))
    module_.out.reserved_shared = reserved_shared_bytes;
  auto out = temp(wide ? '8' : '4');
  if (!try_emit("special." + std::string{name}, {out}))
    fail("unknown register " + x.name);
  return resize(out, width, false);
}

int function_lowering::address_of(const op& x, char width) {
  if (x.is == kind::local) {
    auto& v = fn_.variables[std::size_t(x.number)];
    auto index = std::size_t(x.number);
    switch (v.where) {
    case ptx::space::local: {
      auto out = temp('8');
      emit("local.address", {out},
           std::int64_t{local_offsets_[index]} + x.offset);
      return resize(out, width, false);
    }
    case ptx::space::shared:
      return constant(width, layout_.offsets.at(fn_.name + "$" + v.name) +
                                 std::uint64_t(x.offset));
    default: {
      auto p = param_place(x, x.offset);
      if (!p.frame)
        return constant(width, std::uint64_t(p.offset));
      auto lane = param_slots_[index];
      if (lane.bytes > 0xffff)
        fail("parameter '" + v.name + "' is too large to take its address");
      return constant(width, (std::uint64_t{lane.offset} << 32) +
                                 (std::uint64_t{lane.bytes} << 16) +
                                 std::uint64_t(x.offset));
    }
    }
  }
  if (auto s = module_.shared.find(x.name); s != module_.shared.end()) {
    if (s->second->unsized || s->second->bytes == 0) {
      auto out = temp('4');
      emit("special.dynamic_shared_base", {out});
      if (x.offset != 0) {
        auto moved = temp('4');
        emit("add.b32", {moved, out, constant('4', std::uint64_t(x.offset))});
        out = moved;
      }
      return resize(out, width, false);
    }
    return constant(width,
                    layout_.offsets.at(x.name) + std::uint64_t(x.offset));
  }
  if (auto g = module_.addresses.find(x.name); g != module_.addresses.end())
    return constant(width, g->second + std::uint64_t(x.offset));
  if (auto f = module_.functions.find(x.name); f != module_.functions.end())
    return constant(width,
                    function_base + std::uint64_t(f->second) * function_stride);
  fail("unknown name '" + x.name + "'");
}

int function_lowering::source(const op& x, char width) {
  if (width > '8' && x.is != kind::reg && width != 'p')
    fail(now_->text() + " needs a register of 128 bits");
  switch (x.is) {
  case kind::reg:
    if (x.negated)
      fail(now_->text() + ": '!' must stand before a predicate");
    if (!x.name.empty())
      fail(now_->text() + " cannot take a part of a register");
    if (width_of(x.number) != width)
      fail(now_->text() + " reads a register of the wrong size");
    return x.number;
  case kind::integer:
    return constant(width, x.bits);
  case kind::f32:
    if (width == '8')
      return constant(width, std::bit_cast<std::uint64_t>(double{
                                 std::bit_cast<float>(std::uint32_t(x.bits))}));
    return constant(width, x.bits);
  case kind::f64:
    if (width == '4')
      return constant(width, std::bit_cast<std::uint32_t>(static_cast<float>(
                                 std::bit_cast<double>(x.bits))));
    return constant(width, x.bits);
  case kind::special:
    return special(x, width);
  case kind::symbol:
  case kind::local:
    return address_of(x, width);
  default:
    fail(now_->text() + " has an operand of the wrong kind");
  }
}

int function_lowering::destination(const op& x, char width) {
  if (x.is == kind::sink)
    return temp(width);
  if (x.is != kind::reg)
    fail(now_->text() + " must write a register");
  if (!x.name.empty())
    fail(now_->text() + " cannot write a part of a register");
  if (width_of(x.number) != width)
    fail(now_->text() + " writes a register of the wrong size");
  return x.number;
}

int function_lowering::predicate(const op& x) {
  // A constant predicate is a mask of all lanes.
  if (x.is == kind::integer)
    return constant('p', (x.bits != 0) != x.negated ? all_lanes : 0);
  if (x.is == kind::special && x.name == "%is_explicit_cluster") {
    auto asked = temp('p');
    emit("is.explicit.cluster", {asked});
    if (!x.negated)
      return asked;
    auto out = temp('p');
    emit("not.pred", {out, asked});
    return out;
  }
  if (x.is != kind::reg || width_of(x.number) != 'p' || !x.name.empty())
    fail(now_->text() + " needs a predicate");
  if (!x.negated)
    return x.number;
  auto out = temp('p');
  emit("not.pred", {out, x.number});
  return out;
}

int function_lowering::predicate_destination(const op& x) {
  return destination(x, 'p');
}

// -- instructions -------------------------------------------------------------

void function_lowering::instruction() {
  if (!arithmetic_special())
    arithmetic();
}

void function_lowering::statement(const ptx::instruction& x) {
  now_ = &x;
  if (x.guard < 0 || x.name == "bra") {
    if (x.guard >= 0 && width_of(x.guard) != 'p')
      fail("a guard must be a predicate");
    instruction();
    return;
  }
  if (width_of(x.guard) != 'p')
    fail("a guard must be a predicate");
  if (control()) {
    auto skip = static_cast<int>(label_at_.size());
    label_at_.push_back(0);
    auto& over =
        emit("bra.if", {-1, x.guard}, 0, x.guard_negated ? 0u : mod::negated);
    over.target = skip;
    instruction();
    emit("join", {});
    label_at_[std::size_t(skip)] = std::uint32_t(code_.size());
    return;
  }
  auto begin = code_.size();
  emit("guard", {-1, x.guard}, 0, x.guard_negated ? mod::negated : 0u);
  guarded_ = true;
  instruction();
  guarded_ = false;
  emit("guard.end", {});
  code_[begin].what.imm = std::int64_t(code_.size() - begin);
}

function_lowering::function_lowering(module_lowering& in, int index,
                                     shared_layout& layout)
    : module_{in}, fn_{in.from.functions[std::size_t(index)]},
      out_{in.out.functions[std::size_t(index)]}, layout_{layout} {
  for (auto& t : fn_.registers)
    values_.push_back({width_for(t), false, 0});
  for (auto& x : fn_.labels) {
    auto fresh = labels_.try_emplace({x.scope, x.name},
                                     static_cast<int>(label_at_.size()));
    if (!fresh.second)
      fail("label '" + x.name + "' is defined twice");
    label_at_.push_back(0);
  }
  // The .param variables of a function lie in its frame, lane after lane. The
  // .param variables of a kernel are its launch parameters.
  auto params = fn_.results.size() + fn_.parameters.size();
  param_slots_.resize(fn_.variables.size());
  local_offsets_.resize(fn_.variables.size());
  auto local = std::uint64_t{0};
  auto frame = std::uint64_t{0};
  for (auto i = std::size_t{0}; i < fn_.variables.size(); ++i) {
    auto& v = fn_.variables[i];
    if (v.where == ptx::space::local) {
      local = (local + v.align - 1) / v.align * v.align;
      local_offsets_[i] = std::uint32_t(local);
      local += v.bytes;
    } else if (v.where == ptx::space::param && !(fn_.entry && i < params)) {
      auto stride = (std::max<std::uint64_t>(v.bytes, 1) + 7) / 8 * 8;
      param_slots_[i] = {std::uint32_t(frame), std::uint32_t(stride)};
      frame += stride * lanes;
    }
    if (local > (1u << 20) || frame > (1u << 24))
      fail("variable '" + v.name + "' is too large");
  }
  out_.local_bytes = std::uint32_t(local);
  out_.param_bytes = std::uint32_t(frame);
  for (auto i = std::size_t{0}; i < params && !fn_.entry; ++i)
    (i < fn_.results.size() ? out_.results : out_.parameters)
        .push_back(param_slots_[i]);
}

void function_lowering::run() {
  auto next_label = std::size_t{0};
  auto place_labels = [&](std::size_t body_index) {
    while (next_label < fn_.labels.size() &&
           fn_.labels[next_label].at == body_index) {
      // Lanes that jump here wait behind the join for lanes that fall into it.
      emit("join", {});
      label_at_[next_label] = std::uint32_t(code_.size());
      ++next_label;
    }
  };
  for (auto i = std::size_t{0}; i < fn_.body.size(); ++i) {
    now_ = nullptr;
    place_labels(i);
    statement(fn_.body[i]);
  }
  now_ = nullptr;
  place_labels(fn_.body.size());
  emit(fn_.entry ? "exit" : "ret", {}).ends = true;
  drop_unread_results(code_, values_);
  write_specials_in_place(code_, values_, label_at_);
  use_indices(code_, values_, label_at_);
  auto kept = hoist_launch_constants(code_, values_, label_at_, out_);
  for (auto i = std::size_t{0}; i < code_.size(); ++i)
    if (code_[i].target >= 0)
      code_[i].what.imm =
          std::int64_t{label_at_[std::size_t(code_[i].target)]} -
          std::int64_t(i);
  place_registers(code_, values_, label_at_, out_);
  out_.max_live -= std::min(out_.max_live, kept);
  if (out_.frame_bytes > max_frame_bytes)
    fail("it has too many registers alive at once");
  out_.first = std::uint32_t(module_.out.instrs.size());
  out_.count = std::uint32_t(code_.size());
  for (auto& x : code_) {
    module_.out.instrs.push_back(x.what);
    module_.out.lines.push_back(x.line);
  }
}

// -- the module ---------------------------------------------------------------

namespace {

void collect_names(const ptx::operand& x, std::set<std::string>& into) {
  if (x.is == ptx::operand::kind::symbol)
    into.insert(x.name);
  for (auto& e : x.elements)
    collect_names(e, into);
}

std::set<std::string> names_in(const ptx::function& f) {
  auto out = std::set<std::string>{};
  for (auto& i : f.body)
    for (auto& x : i.operands)
      collect_names(x, out);
  return out;
}

void place_shared(shared_layout& to, const std::string& name,
                  const ptx::variable& v) {
  if (v.unsized || v.bytes == 0 || to.offsets.contains(name))
    return;
  to.bytes = (to.bytes + v.align - 1) / v.align * v.align;
  to.offsets[name] = to.bytes;
  to.bytes += v.bytes;
}

void place_shared_of(shared_layout& to, const module_lowering& in,
                     const ptx::function& f) {
  for (auto& name : names_in(f))
    if (auto s = in.shared.find(name); s != in.shared.end())
      place_shared(to, name, *s->second);
  for (auto& v : f.variables)
    if (v.where == ptx::space::shared)
      place_shared(to, f.name + "$" + v.name, v);
}

void describe_entry(const ptx::function& f, code& to) {
  auto offset = std::uint64_t{0};
  for (auto& p : f.parameters) {
    offset = (offset + p.align - 1) / p.align * p.align;
    to.kernel_parameters.push_back(
        {std::uint32_t(offset), std::uint32_t(p.bytes)});
    offset += p.bytes;
    if (offset > 32764)
      throw ptx::syntax_error{f.line, f.name +
                                          ": its parameters take more than "
                                          "32764 bytes"};
  }
  to.kernel_parameter_bytes = std::uint32_t(offset);
  auto& limit = f.required_threads[0] != 0 ? f.required_threads : f.max_threads;
  std::copy(std::begin(limit), std::end(limit), to.block_limit);
  to.block_exact = f.required_threads[0] != 0;
  std::copy(std::begin(f.cluster_blocks), std::end(f.cluster_blocks),
            to.cluster_blocks);
  to.max_cluster_rank = f.max_cluster_rank;
  to.explicit_cluster = f.explicit_cluster;
}

} // namespace

std::uint64_t function_address(const ptx::module& in, const std::string& name) {
  for (auto i = std::size_t{0}; i < in.functions.size(); ++i)
    if (in.functions[i].name == name)
      return function_base + i * function_stride;
  return 0;
}

program lower(const ptx::module& from, const symbol_addresses& addresses,
              extent_of_text whole) {
  auto m = module_lowering{from, addresses, {}, {}, {}, false};
  m.is_part = whole == extent_of_text::part;
  m.out.target = from.target;
  for (auto& v : from.variables) {
    if (v.where == ptx::space::shared)
      m.shared[v.name] = &v;
    if (v.where == ptx::space::constant)
      m.out.constant_bytes += v.bytes;
  }
  m.out.functions.resize(from.functions.size());
  // Functions that are called have their shared variables at the same place in
  // all kernels. The variables of one kernel alone come after them.
  auto common = shared_layout{};
  for (auto i = std::size_t{0}; i < from.functions.size(); ++i) {
    auto& f = from.functions[i];
    m.functions[f.name] = int(i);
    m.out.functions[i].name = f.name;
    m.out.functions[i].entry = f.entry;
    if (!f.entry)
      place_shared_of(common, m, f);
    else
      describe_entry(f, m.out.functions[i]);
  }
  for (auto i = std::size_t{0}; i < from.functions.size(); ++i) {
    auto& f = from.functions[i];
    auto& to = m.out.functions[i];
    if (!f.defined) {
      to.first = std::uint32_t(m.out.instrs.size());
      continue;
    }
    auto calls = std::any_of(f.body.begin(), f.body.end(), [](auto& x) {
      return x.name == "call" || x.name == "alloca";
    });
    auto layout = f.entry && !calls ? shared_layout{} : common;
    if (f.entry)
      place_shared_of(layout, m, f);
    if (layout.bytes > (1u << 24))
      throw ptx::syntax_error{f.line,
                              f.name + ": its shared variables are too large"};
    to.calls = calls;
    function_lowering{m, int(i), layout}.run();
    // Dynamic shared memory begins after them, aligned as in the driver.
    to.static_shared =
        f.entry ? std::uint32_t((layout.bytes + 15) / 16 * 16) : 0;
  }
  return std::move(m.out);
}

} // namespace vgpu::device::cpu
