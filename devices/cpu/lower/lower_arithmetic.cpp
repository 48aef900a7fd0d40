// Arithmetic, logic and moves.
#include "devices/cpu/lower/function_lowering.hpp"
#include "devices/cpu/ptx/ptx_parser.hpp"

#include <algorithm>
#include <bit>

namespace vgpu::device::cpu {

using ptx::parse_type;

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
    // On the host's processors only a later load can overtake an earlier store,
    // and no acquire or release forbids that.
    auto free = has("acq_rel") || has("acquire") || has("release");
    emit(free ? "nop" : "fence", {});
    return true;
  }
  if (n == "prefetch" || n == "prefetchu" || n == "discard" ||
      n == "applypriority" || n == "pmevent" || n == "griddepcontrol" ||
      n == "setmaxnreg")
    return true;
  if (n == "nanosleep") {
    need(1);
    emit("nanosleep", {-1, source(arg(0), '4')});
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
  // The common form has an operation of its own.
  auto& m = now_->modifiers;
  auto common = n == "vabsdiff4" && m.size() >= 3 && m[0] == m[1] &&
                m[1] == m[2] && !has("sat") &&
                std::all_of(now_->operands.begin(), now_->operands.end(),
                            [](auto& x) { return x.name.empty(); });
  if (n.starts_with('v') && !common && video())
    return true;
  return carry();
}

/// Lowers mov.v2.u32 a, b element by element, as if all were read before any is
/// written.
void function_lowering::move_elements(const ptx::type& t) {
  auto& d = arg(0).elements;
  auto& s = arg(1).elements;
  if (d.size() != s.size() || !has("v" + std::to_string(d.size())))
    unsupported();
  auto w = width_for(t);
  auto key = "mov.b" + std::to_string(8 * t.bytes);
  auto read = std::vector<int>{};
  for (auto& x : s) {
    read.push_back(temp(w));
    emit(key, {read.back(), source(x, w)});
  }
  for (auto i = std::size_t{0}; i < d.size(); ++i)
    emit(key, {destination(d[i], w), read[i]});
}

void function_lowering::move_vector() {
  auto& d = arg(0);
  auto& s = arg(1);
  auto t = parse_type(now_->modifiers.back());
  if (!t)
    unsupported();
  if (d.is == s.is)
    return move_elements(*t);
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

/// Lowers lop3 with a second result: whether any bit is set, combined with a
/// predicate.
void function_lowering::logic_with_predicate() {
  need(6);
  auto both = arg(0).is == kind::pair;
  if (arg(4).is != kind::integer || !both)
    fail(now_->text() + " needs d|p and a table");
  auto& d = arg(0).elements[0];
  auto& p = arg(0).elements[1];
  auto q = predicate(arg(5));
  auto out = destination(d, '4');
  auto a = source(arg(1), '4');
  auto b = source(arg(2), '4');
  auto c = source(arg(3), '4');
  // The predicate that is written may be the one that is read.
  emit("lop3.b32", {out, a, b, c}, std::int64_t(arg(4).bits & 255));
  emit("lop3.pred", {predicate_destination(p), out, q}, has("and") ? 1 : 0);
}

namespace {

/// Returns the modifiers with the type at the end. Assemblers accept rounding
/// modifiers behind the type too, and cuRAND's header writes
/// lg2.approx.f32.ftz.
std::vector<std::string> with_type_last(std::vector<std::string> m) {
  auto type = std::find_if(m.rbegin(), m.rend(), [](auto& x) {
    return x != "sat" && !rounding_flag(x);
  });
  if (type != m.rend())
    std::rotate(type.base() - 1, type.base(), m.end());
  return m;
}

} // namespace

/// Lowers every instruction that the table has under its own name.
void function_lowering::arithmetic() {
  auto& given = now_->modifiers;
  if (given.empty() || now_->operands.empty())
    unsupported();
  auto reordered = std::vector<std::string>{};
  if (given.back() == "sat" || rounding_flag(given.back()))
    reordered = with_type_last(given);
  auto& m = reordered.empty() ? given : reordered;
  auto t = parse_type(m.back());
  // In vabsdiff4.u32.u32.u32.add and prmt.b32.f4e the type is not the last
  // modifier.
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
      fail("lop3 needs a table");
    imm = std::int64_t(arg(4).bits & 255);
    operands = 4;
    key = "lop3.b32";
  } else {
    if (!t)
      unsupported();
    if (key == "mad" && is_float(*t))
      key = "fma";
    // The approximations of double have operations of their own.
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

} // namespace vgpu::device::cpu
