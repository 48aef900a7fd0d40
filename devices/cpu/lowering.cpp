#include "devices/cpu/lowering.hpp"

#include "devices/cpu/function_lowering.hpp"
#include "devices/cpu/ptx_parser.hpp"
#include "devices/cpu/system_calls.hpp"

#include <algorithm>
#include <bit>
#include <set>

namespace vgpu::device::cpu {

using ptx::parse_type;

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

// Registers of one function, of a warp.
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
    fail(now_->text() + " wants " + std::to_string(operands) +
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
  // A constant is nobody's to write.
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
    fail(now_->text() + " wants a register of 128 bits");
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
  if (x.is == kind::special && x.name == "%is_explicit_cluster")
    return constant('p', x.negated ? all_lanes : 0);
  if (x.is != kind::reg || width_of(x.number) != 'p' || !x.name.empty())
    fail(now_->text() + " wants a predicate");
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

bool function_lowering::arithmetic_special() {
  auto& n = now_->name;
  using member = void (function_lowering::*)();
  static const auto table = std::map<std::string_view, member>{
      {"mov", &function_lowering::moves},
      {"setp", &function_lowering::compare},
      {"set", &function_lowering::set},
      {"slct", &function_lowering::slct},
      {"cvt", &function_lowering::convert},
      {"bra", &function_lowering::branch},
      {"brx", &function_lowering::branch_indexed},
      {"bar", &function_lowering::barrier},
      {"barrier", &function_lowering::barrier},
      {"shfl", &function_lowering::exchange},
      {"vote", &function_lowering::exchange},
      {"match", &function_lowering::exchange},
      {"redux", &function_lowering::exchange},
      {"ld", &function_lowering::load},
      {"ldu", &function_lowering::load},
      {"st", &function_lowering::store},
      {"cvta", &function_lowering::to_generic},
      {"isspacep", &function_lowering::isspacep},
      {"call", &function_lowering::call},
      {"cp", &function_lowering::copy},
      {"mbarrier", &function_lowering::memory_barrier},
      {"mapa", &function_lowering::map_to_block},
      {"getctarank", &function_lowering::map_to_block},
      {"alloca", &function_lowering::stack},
      {"stacksave", &function_lowering::stack},
      {"stackrestore", &function_lowering::stack},
      {"wmma", &function_lowering::matrix},
      {"mma", &function_lowering::matrix},
      {"ldmatrix", &function_lowering::matrix},
      {"stmatrix", &function_lowering::matrix},
      {"movmatrix", &function_lowering::matrix},
      {"tex", &function_lowering::texture_lookup},
      {"tld4", &function_lowering::texture_lookup},
      {"txq", &function_lowering::texture_query},
      {"suq", &function_lowering::texture_query},
      {"suld", &function_lowering::surface_access},
      {"sust", &function_lowering::surface_access},
      {"sured", &function_lowering::surface_access},
  };
  if (auto found = table.find(n); found != table.end()) {
    (this->*found->second)();
    return true;
  }
  if (n == "atom" || n == "red") {
    atomic(n == "atom");
    return true;
  }
  if (n == "exit" || (n == "ret" && fn_.entry)) {
    emit("exit", {}).ends = true;
    return true;
  }
  if (n == "ret") {
    emit("ret", {}).ends = true;
    return true;
  }
  if (n == "trap" || n == "brkpt") {
    emit("trap", {});
    return true;
  }
  if (n == "membar" || n == "fence") {
    emit("fence", {});
    return true;
  }
  if (n == "prefetch" || n == "prefetchu" || n == "discard" ||
      n == "applypriority" || n == "pmevent" || n == "griddepcontrol" ||
      n == "setmaxnreg")
    return true;
  if (n == "nanosleep") {
    emit("nanosleep", {});
    return true;
  }
  if (n == "activemask") {
    need(1);
    emit("activemask", {destination(arg(0), '4')});
    return true;
  }
  if (n == "elect") {
    need(2);
    auto& d = arg(0);
    if (d.is != kind::pair)
      unsupported();
    emit("elect",
         {d.elements[0].is == kind::sink ? -1 : destination(d.elements[0], '4'),
          source(arg(1), '4'), -1, -1, predicate_destination(d.elements[1])});
    return true;
  }
  if (n == "createpolicy") {
    emit("mov.b64", {destination(arg(0), '8'), constant('8', 0)});
    return true;
  }
  // The common form has a function of its own.
  auto& m = now_->modifiers;
  auto common = n == "vabsdiff4" && m.size() >= 3 && m[0] == m[1] &&
                m[1] == m[2] && !has("sat") &&
                std::all_of(now_->operands.begin(), now_->operands.end(),
                            [](auto& x) { return x.name.empty(); });
  if (n.starts_with('v') && !common && video())
    return true;
  return carry();
}

void function_lowering::move_vector() {
  auto& d = arg(0);
  auto& s = arg(1);
  auto t = parse_type(now_->modifiers.back());
  if (!t)
    unsupported();
  auto whole = width_for(*t);
  auto& parts = d.is == kind::vector ? d : s;
  auto n = parts.elements.size();
  if ((n != 2 && n != 4) || t->bytes % n != 0)
    unsupported();
  auto part = static_cast<char>('0' + t->bytes / n);
  auto bits = std::to_string(8 * t->bytes);
  auto ids = std::vector<int>(4, -1);
  if (d.is == kind::vector) {
    auto a = source(s, whole);
    for (auto i = std::size_t{0}; i < n; ++i)
      ids[i] = destination(d.elements[i], part);
    emit("unpack" + std::to_string(n) + ".b" + bits,
         {ids[0], a, ids[1], ids[2], ids[3]});
    return;
  }
  for (auto i = std::size_t{0}; i < n; ++i)
    ids[i] = source(s.elements[i], part);
  emit("pack" + std::to_string(n) + ".b" + bits,
       {destination(d, whole), ids[0], ids[1], ids[2], ids[3]});
}

void function_lowering::moves() {
  need(2);
  if (arg(0).is == kind::vector || arg(1).is == kind::vector)
    return move_vector();
  auto t = now_->modifiers.empty() ? std::nullopt
                                   : parse_type(now_->modifiers.back());
  if (!t)
    unsupported();
  if (t->kind == 'p') {
    emit("mov.pred", {predicate_destination(arg(0)), predicate(arg(1))});
    return;
  }
  auto w = width_for(*t);
  emit("mov.b" + std::to_string(8 * t->bytes),
       {destination(arg(0), w), source(arg(1), w)});
}

bool function_lowering::carry() {
  auto& n = now_->name;
  auto cc = has("cc");
  auto flags = cc ? mod::cc : 0u;
  auto chained = n == "addc" || n == "subc" || n == "madc";
  if (!chained && !(cc && (n == "add" || n == "sub" || n == "mad")))
    return false;
  auto type = now_->modifiers.back();
  auto t = parse_type(type);
  if (!t || t->bytes < 4)
    unsupported();
  auto w = width_for(*t);
  auto which = std::string{chained ? "1." : "0."};
  if (n.starts_with("mad")) {
    need(4);
    emit("madc" + which + (has("hi") ? "hi." : "lo.") + type,
         {destination(arg(0), w), source(arg(1), w), source(arg(2), w),
          source(arg(3), w)},
         0, flags);
    return true;
  }
  need(3);
  emit(n.substr(0, 3) + "c" + which + "b" + std::to_string(8 * t->bytes),
       {destination(arg(0), w), source(arg(1), w), source(arg(2), w)}, 0,
       flags);
  return true;
}

void function_lowering::approximate_double() {
  need(2);
  emit(now_->text(), {destination(arg(0), '8'), source(arg(1), '8')});
}

/// lop3 with a second result: whether anything is set, combined with a
/// predicate.
void function_lowering::logic_with_predicate() {
  need(6);
  auto both = arg(0).is == kind::pair;
  if (arg(4).is != kind::integer || !both)
    fail(now_->text() + " wants d|p and a table");
  auto& d = arg(0).elements[0];
  auto& p = arg(0).elements[1];
  auto q = predicate(arg(5));
  auto out = destination(d, '4');
  auto a = source(arg(1), '4');
  auto b = source(arg(2), '4');
  auto c = source(arg(3), '4');
  // The predicate may be the one that is read.
  emit("lop3.b32", {out, a, b, c}, std::int64_t(arg(4).bits & 255));
  emit("lop3.pred", {predicate_destination(p), out, q}, has("and") ? 1 : 0);
}

/// Everything that the table holds under the instruction's own name.
void function_lowering::arithmetic() {
  auto& m = now_->modifiers;
  if (m.empty() || now_->operands.empty())
    unsupported();
  auto t = parse_type(m.back());
  // vabsdiff4.u32.u32.u32.add, prmt.b32.f4e: the type is not the last.
  auto imm = std::int64_t{0};
  auto operands = now_->operands.size();
  auto key = now_->name;
  auto flags = std::uint32_t{0};
  if (key == "prmt") {
    static constexpr std::string_view modes[] = {"b32", "f4e", "b4e", "rc8",
                                                 "ecl", "ecr", "rc16"};
    imm = std::find(std::begin(modes), std::end(modes), m.back()) -
          std::begin(modes);
    key = "prmt.b32";
  } else if (key == "vabsdiff4") {
    imm = m.back() == "add" ? 1 : 0;
    key += "." + m.front();
    if (m.size() < 3 || m[1] != m[0] || m[2] != m[0])
      unsupported();
  } else if (key == "dp2a") {
    if (m.size() != 3)
      unsupported();
    imm = m[0] == "hi" ? 1 : 0;
    key += "." + m[1] + "." + m[2];
  } else if (key == "testp") {
    static constexpr std::string_view tests[] = {
        "finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    imm = std::find(std::begin(tests), std::end(tests), m.front()) -
          std::begin(tests);
    key += "." + m.back();
  } else if (key == "lop3" && (has("or") || has("and"))) {
    return logic_with_predicate();
  } else if (key == "lop3") {
    need(5);
    if (arg(4).is != kind::integer)
      fail("lop3 wants a table");
    imm = std::int64_t(arg(4).bits & 255);
    operands = 4;
    key = "lop3.b32";
  } else {
    if (!t)
      unsupported();
    if (key == "mad" && is_float(*t))
      key = "fma";
    // The approximations of double are functions of their own.
    if (has("approx") && t->kind == 'f' && t->bytes == 8 && has("ftz"))
      return approximate_double();
    for (auto& x : m) {
      auto f = rounding_flag(x);
      if (f && is_float(*t))
        flags |= *f;
      else if (x == "sat" && is_float(*t))
        flags |= mod::sat;
      else
        key += "." + x;
    }
  }
  auto entry = find_op(key);
  if (entry == nullptr && t && !t->packed) {
    auto dot = key.rfind('.');
    key = key.substr(0, dot) + ".b" + std::to_string(8 * t->bytes);
    if (!is_float(*t) || now_->name == "selp")
      entry = find_op(key);
  }
  if (entry == nullptr)
    unsupported();
  // The table's signature says how wide each operand is.
  auto ids = std::vector<int>{};
  auto at = std::size_t{0};
  for (auto c : entry->signature) {
    if (c == '\0')
      break;
    if (at >= operands)
      fail(now_->text() + " lacks an operand");
    auto w = read_form(c);
    auto& x = arg(at++);
    if (c >= 'A' && c <= 'Z')
      ids.push_back(destination(x, w));
    else
      ids.push_back(w == 'p' ? predicate(x) : source(x, w));
  }
  if (at != operands)
    fail(now_->text() + " has too many operands");
  ids.resize(field_count, -1);
  emit(key, {ids[0], ids[1], ids[2], ids[3], ids[4], ids[5]}, imm, flags);
}

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
  // .param variables of a function lie in its frame, lane after lane; those of
  // a kernel are its launch parameters.
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
      // Lanes that jump here wait behind the join for those that fall into it.
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
  for (auto i = std::size_t{0}; i < code_.size(); ++i)
    if (code_[i].target >= 0)
      code_[i].what.imm =
          std::int64_t{label_at_[std::size_t(code_[i].target)]} -
          std::int64_t(i);
  place_registers(code_, values_, label_at_, out_);
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
}

} // namespace

std::uint64_t function_address(const ptx::module& in, const std::string& name) {
  for (auto i = std::size_t{0}; i < in.functions.size(); ++i)
    if (in.functions[i].name == name)
      return function_base + i * function_stride;
  return 0;
}

program lower(const ptx::module& from, const symbol_addresses& addresses) {
  auto m = module_lowering{from, addresses, {}, {}, {}};
  m.out.target = from.target;
  for (auto& v : from.variables) {
    if (v.where == ptx::space::shared)
      m.shared[v.name] = &v;
    if (v.where == ptx::space::constant)
      m.out.constant_bytes += v.bytes;
  }
  m.out.functions.resize(from.functions.size());
  // Functions that are called have their shared variables at one place for
  // all kernels; those of a kernel alone come behind.
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
    // Dynamic shared memory begins behind, aligned as the driver does.
    to.static_shared =
        f.entry ? std::uint32_t((layout.bytes + 15) / 16 * 16) : 0;
  }
  return std::move(m.out);
}

} // namespace vgpu::device::cpu
