// Loads, stores, atomics and address conversions.
#include "devices/cpu/lower/function_lowering.hpp"
#include "devices/cpu/ptx/ptx_parser.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace vgpu::device::cpu {

using ptx::space;

std::optional<space> space_named(std::string_view x) {
  if (auto at = x.find("::"); at != x.npos) {
    auto part = x.substr(at + 2);
    // The address says which block of the cluster it is.
    if (part != "cta" && part != "entry" && part != "func" &&
        (part != "cluster" || x.substr(0, at) != "shared"))
      return std::nullopt;
    x = x.substr(0, at);
  }
  if (x == "global")
    return space::global;
  if (x == "shared")
    return space::shared;
  if (x == "local")
    return space::local;
  if (x == "param")
    return space::param;
  if (x == "const")
    return space::constant;
  return std::nullopt;
}

namespace {

constexpr auto reporting = std::string_view{"mbarrier::complete_tx::bytes"};

/// Tells whether a modifier says how other threads see an access, which holds
/// for every access here, or how caches treat it.
bool is_hint(std::string_view x) {
  static constexpr std::string_view known[] = {
      "weak", "ca", "cg",  "cs",  "lu",  "cv",      "wb",
      "wt",   "nc", "cta", "gpu", "sys", "cluster", "unified"};
  return std::find(std::begin(known), std::end(known), x) != std::end(known) ||
         x.starts_with("L1::") || x.starts_with("L2::") ||
         x.starts_with("level::");
}

/// Tells whether a modifier belongs to st.async and red.async, which are done
/// at once. The caller asks reports() whether the instruction may have it.
bool is_reported(std::string_view x) {
  return x == "async" || x == reporting;
}

bool is_order(std::string_view x) {
  return x == "volatile" || x == "relaxed" || x == "acquire" ||
         x == "release" || x == "acq_rel" || x == "seq_cst" || x == "mmio";
}

} // namespace

function_lowering::access function_lowering::parse_access() {
  auto& m = now_->modifiers;
  if (m.empty())
    unsupported();
  auto out = access{};
  auto t = ptx::parse_type(m.back());
  if (!t || t->kind == 'p')
    unsupported();
  out.t = *t;
  for (auto i = std::size_t{0}; i + 1 < m.size(); ++i) {
    if (auto s = space_named(m[i]))
      out.where = *s;
    else if (m[i] == "v2" || m[i] == "v4" || m[i] == "v8")
      out.count = unsigned(m[i][1] - '0');
    else if (is_order(m[i]))
      out.watched = true;
    else if (!is_hint(m[i]) && !is_reported(m[i]))
      unsupported();
  }
  // Only global memory has vectors of 256 bits (PTX ISA, "Vectors").
  if (out.count == 8 && (out.t.bytes != 4 || out.where != space::global))
    unsupported();
  return out;
}

function_lowering::place function_lowering::param_place(const op& base,
                                                        std::int64_t offset) {
  auto index = std::size_t(base.number);
  auto& v = fn_.variables[index];
  if (v.where != space::param)
    fail("'" + v.name + "' is no parameter");
  auto out = place{};
  out.offset = offset;
  auto kernel_params =
      fn_.entry ? fn_.results.size() + fn_.parameters.size() : 0;
  if (index < kernel_params) {
    out.space = "param.a4.";
    out.offset += out_.kernel_parameters[index].offset;
    out.base = constant('4', 0);
    return out;
  }
  out.frame = true;
  out.stride = param_slots_[index].bytes;
  return out;
}

function_lowering::place function_lowering::parse_place(const op& x,
                                                        space where) {
  if (x.is != kind::address || x.elements.size() != 1)
    fail(now_->text() + " needs an address");
  auto& base = x.elements[0];
  auto out = place{};
  out.offset = x.offset + base.offset;
  auto plain = base;
  plain.offset = 0;
  if (base.is == kind::local &&
      fn_.variables[std::size_t(base.number)].where == space::param) {
    if (where != space::param)
      fail(now_->text() + " reads a parameter through another state space");
    return param_place(base, out.offset);
  }
  if (base.is == kind::reg) {
    out.base = base.number;
  } else if (base.is == kind::integer) {
    out.base = constant('8', base.bits);
  } else {
    auto is_shared = where == space::shared;
    out.base = address_of(plain, is_shared ? '4' : '8');
  }
  auto w = width_of(out.base);
  if (w != '4' && w != '8')
    fail(now_->text() + " has an address of the wrong size");
  auto suffix = std::string{w == '4' ? ".a4." : ".a8."};
  switch (where) {
  case space::generic:
    out.space = "generic" + suffix;
    break;
  case space::global:
  case space::constant:
    out.space = "global" + suffix;
    break;
  case space::shared:
    out.space = "shared" + suffix;
    break;
  case space::local:
    out.space = "local" + suffix;
    break;
  case space::param:
    out.space = fn_.entry ? "param" + suffix : "frame.at.";
    break;
  }
  return out;
}

void function_lowering::load() {
  if (reports())
    unsupported(); // no load is asynchronous
  if (now_->operands.size() != 2 &&
      !(now_->operands.size() == 3 && has("L2::cache_hint")))
    fail(now_->text() + " needs 2 operands");
  auto x = parse_access();
  if (x.t.bytes == 16) {
    if (x.count != 1 || x.where == space::param)
      unsupported();
    if (x.watched)
      emit("may.spin", {});
    auto from = generic_address(arg(1), x.where);
    emit("ld.b128", {destination(arg(0), '@'), from});
    return;
  }
  auto& d = arg(0);
  auto parts = d.is == kind::vector ? d.elements : std::vector<op>{d};
  if (parts.size() != x.count)
    fail(now_->text() + " needs " + std::to_string(x.count) + " destinations");
  auto from = parse_place(arg(1), x.where);
  auto w = static_cast<char>('0' + x.t.bytes);
  auto ids = std::vector<int>(std::max(x.count, 4u), -1);
  auto direct = [&](std::size_t i) {
    return parts[i].is != kind::reg || width_of(parts[i].number) == w;
  };
  for (auto i = std::size_t{0}; i < x.count; ++i)
    ids[i] = direct(i) ? destination(parts[i], w) : temp(w);
  auto size = std::to_string(x.t.bytes);
  auto count = std::to_string(std::min(x.count, 4u));
  if (from.frame) {
    auto bytes = std::int64_t{x.t.bytes} * x.count;
    if (from.offset < 0 || from.offset + bytes > from.stride)
      fail(now_->text() + " reads past its parameter");
    auto index = std::size_t(arg(1).elements[0].number);
    emit("ld.frame." + size + "." + count, {ids[0], -1, ids[1], ids[2], ids[3]},
         std::int64_t{param_slots_[index].offset} + from.offset)
        .what.extra = from.stride;
  } else if (from.space == "frame.at.") {
    if (x.count != 1 || from.offset < 0 || from.offset > 0xffff)
      unsupported();
    emit("ld.frame.at." + size, {ids[0], from.base}, from.offset);
  } else {
    if (x.watched)
      emit("may.spin", {});
    for (auto i = 0u; i < x.count; i += 4)
      emit("ld." + from.space + size + "." + count,
           {ids[i], from.base, ids[i + 1], ids[i + 2], ids[i + 3]},
           from.offset + std::int64_t{i} * x.t.bytes);
  }
  for (auto i = std::size_t{0}; i < x.count; ++i) {
    if (direct(i))
      continue;
    auto reg = parts[i].number;
    if (width_of(reg) == 'p' || width_of(reg) < w)
      fail(now_->text() + " writes a register that is too small");
    auto sign = std::string{x.t.kind == 's' ? "s" : "u"};
    emit("cvt." + sign + std::to_string(8 * (width_of(reg) - '0')) + "." +
             sign + std::to_string(8 * x.t.bytes),
         {reg, ids[i]});
  }
}

/// Tells whether the instruction has a further operand, an mbarrier to which
/// st.async and red.async report the bytes they wrote. The forms that write
/// global memory have no such operand, and are not supported.
bool function_lowering::reports() {
  if (has("async") != has(reporting))
    unsupported();
  return has("async");
}

/// Checks that the instruction writes words to shared memory, as the PTX ISA
/// asks.
void function_lowering::check_reported(const ptx::type& t, space where) {
  if ((where != space::shared && where != space::generic) ||
      (t.bytes != 4 && t.bytes != 8))
    unsupported();
}

/// Reports written bytes to the mbarrier of the last operand, which is in the
/// same state space as the access.
void function_lowering::report(std::uint64_t bytes, space where) {
  emit("mbarrier.complete", {-1, generic_address(now_->operands.back(), where),
                             constant('4', bytes)});
}

void function_lowering::store() {
  if (has("bulk"))
    unsupported();
  auto reported = reports();
  if (now_->operands.size() != (reported ? 3 : 2) &&
      !(now_->operands.size() == 3 && has("L2::cache_hint")))
    fail(now_->text() + " needs 2 operands");
  auto x = parse_access();
  if (reported)
    check_reported(x.t, x.where);
  if (x.t.bytes == 16) {
    if (x.count != 1 || x.where == space::param || x.where == space::constant)
      unsupported();
    auto to = generic_address(arg(0), x.where);
    emit("st.b128", {-1, to, source(arg(1), '@')});
    return;
  }
  auto& s = arg(1);
  auto parts = s.is == kind::vector ? s.elements : std::vector<op>{s};
  if (parts.size() != x.count)
    fail(now_->text() + " needs " + std::to_string(x.count) + " sources");
  auto to = parse_place(arg(0), x.where);
  auto w = static_cast<char>('0' + x.t.bytes);
  auto ids = std::vector<int>(std::max(x.count, 4u), -1);
  for (auto i = std::size_t{0}; i < x.count; ++i) {
    auto& p = parts[i];
    if (p.is == kind::reg && width_of(p.number) != 'p' &&
        width_of(p.number) > w)
      ids[i] = resize(p.number, w, false);
    else
      ids[i] = source(p, w);
  }
  auto size = std::to_string(x.t.bytes);
  auto count = std::to_string(std::min(x.count, 4u));
  if (to.frame) {
    auto bytes = std::int64_t{x.t.bytes} * x.count;
    if (to.offset < 0 || to.offset + bytes > to.stride)
      fail(now_->text() + " writes past its parameter");
    auto index = std::size_t(arg(0).elements[0].number);
    emit("st.frame." + size + "." + count,
         {-1, -1, ids[0], ids[1], ids[2], ids[3]},
         std::int64_t{param_slots_[index].offset} + to.offset)
        .what.extra = to.stride;
    return;
  }
  if (x.where == space::param || x.where == space::constant)
    fail(now_->text() + " writes constant memory");
  for (auto i = 0u; i < x.count; i += 4)
    emit("st." + to.space + size + "." + count,
         {-1, to.base, ids[i], ids[i + 1], ids[i + 2], ids[i + 3]},
         to.offset + std::int64_t{i} * x.t.bytes);
  if (reported)
    report(std::uint64_t{x.t.bytes} * x.count, x.where);
}

void function_lowering::atomic(bool returns) {
  auto& m = now_->modifiers;
  auto where = space::generic;
  auto what = std::string{};
  auto type = m.empty() ? std::string{} : m.back();
  auto t = ptx::parse_type(type);
  if (!t)
    unsupported();
  auto count = 0u; // elements of a vector
  for (auto i = std::size_t{0}; i + 1 < m.size(); ++i) {
    if (auto s = space_named(m[i]))
      where = *s;
    else if (m[i] == "v2" || m[i] == "v4" || m[i] == "v8")
      count = unsigned(m[i][1] - '0');
    else if (is_order(m[i]) || is_hint(m[i]) || is_reported(m[i]) ||
             m[i] == "noftz")
      continue;
    else if (what.empty())
      what = m[i];
    else
      unsupported();
  }
  auto two = what == "cas";
  auto first = returns ? 1u : 0u;
  auto reported = reports();
  // Only sums, extremes and logic of single integers can report.
  if (reported && (returns || count != 0 || is_float(*t)))
    unsupported();
  if (reported)
    check_reported(*t, where);
  auto operands = first + (two ? 3u : 2u) + (reported ? 1u : 0u);
  if (now_->operands.size() != operands &&
      !(now_->operands.size() == operands + 1 && has("L2::cache_hint")))
    fail(now_->text() + " needs " + std::to_string(operands) + " operands");
  if (where != space::generic && where != space::global &&
      where != space::shared)
    unsupported();
  auto parts = [&](const op& x) {
    return count != 0 && x.is == kind::vector ? x.elements : std::vector<op>{x};
  };
  auto results = returns ? parts(arg(0)) : std::vector<op>{};
  auto values = parts(arg(first + 1));
  // A vector is atomic element by element. Only sums, and extremes of the
  // 16-bit formats, have vectors.
  auto n = std::max(count, 1u);
  if (values.size() != n || (returns && results.size() != n) ||
      (count != 0 &&
       (!is_float(*t) || t->bytes == 8 || two || n * t->bytes > 16)))
    unsupported();
  for (auto i = 0u; i < n; ++i)
    atomic_element(what, type, *t, where, returns ? &results[i] : nullptr,
                   arg(first), values[i], two ? &arg(first + 2) : nullptr,
                   std::int64_t{i} * t->bytes);
  if (reported)
    report(t->bytes, where);
}

void function_lowering::atomic_element(const std::string& what,
                                       const std::string& type,
                                       const ptx::type& t, space where,
                                       const op* result, const op& address,
                                       const op& value, const op* other,
                                       std::int64_t offset) {
  if (t.bytes == 16) {
    auto d = result != nullptr && result->is != kind::sink
                 ? destination(*result, '@')
                 : -1;
    auto at = generic_address(address, where);
    emit("atom." + what + ".b128",
         {d, at, source(value, '@'),
          other != nullptr ? source(*other, '@') : -1});
    return;
  }
  auto at = parse_place(address, where);
  auto w = static_cast<char>('0' + t.bytes);
  auto d = -1;
  if (result != nullptr && result->is != kind::sink)
    d = destination(*result, w);
  auto b = source(value, w);
  auto c = other != nullptr ? source(*other, w) : -1;
  auto bits = std::to_string(8 * t.bytes);
  auto key = "atom." + at.space + what + ".";
  for (auto& name : {type, "u" + bits, "b" + bits})
    if ((name == type || !is_float(t)) &&
        try_emit(key + name, {d, at.base, b, c}, at.offset + offset))
      return;
  unsupported();
}

void function_lowering::to_generic() {
  need(2);
  auto to = has("to");
  auto where = std::optional<space>{};
  for (auto& x : now_->modifiers)
    if (auto s = space_named(x))
      where = s;
  if (!where || now_->modifiers.back() != "u64")
    unsupported();
  auto d = destination(arg(0), '8');
  auto a = source(arg(1), '8');
  if (*where == space::shared) {
    emit(to ? "cvta.to.shared" : "cvta.shared", {d, a});
    return;
  }
  auto base = std::uint64_t{0};
  if (*where == space::local)
    base = local_aperture;
  else if (*where == space::param)
    base = param_aperture;
  if (base == 0)
    emit("mov.b64", {d, a});
  else
    emit(to ? "sub.b64" : "add.b64", {d, a, constant('8', base)});
}

void function_lowering::isspacep() {
  need(2);
  auto where = now_->modifiers.empty() ? std::nullopt
                                       : space_named(now_->modifiers.back());
  auto p = predicate_destination(arg(0));
  auto a = source(arg(1), '8');
  if (!where)
    unsupported();
  // .const variables are in global memory.
  if (*where == space::constant) {
    emit("mov.pred", {p, constant('p', 0)});
    return;
  }
  auto name = *where == space::shared
                  ? (has("shared::cluster") ? "cluster" : "shared")
              : *where == space::local ? "local"
              : *where == space::param ? "param"
                                       : "global";
  emit(std::string{"isspacep."} + name, {p, a});
}

void function_lowering::copy_async() {
  if (has("mbarrier"))
    return copy_arrives();
  if (has("commit_group") || has("wait_group") || has("wait_all"))
    return; // copies are done when they are issued
  auto& ops = now_->operands;
  if (ops.size() < 3 || ops[2].is != kind::integer)
    unsupported();
  auto to = parse_place(arg(0), space::shared);
  auto from = parse_place(arg(1), space::global);
  auto bytes = ops[2].bits;
  if (bytes != 4 && bytes != 8 && bytes != 16)
    fail("cp.async copies 4, 8 or 16 bytes");
  auto limit = -1;
  if (ops.size() >= 4 && !has("L2::cache_hint")) {
    if (ops[3].is == kind::reg && width_of(ops[3].number) == 'p') {
      limit = temp('4'); // ignore-src
      emit("selp.b32",
           {limit, constant('4', 0), constant('4', bytes), predicate(ops[3])});
    } else {
      limit = source(ops[3], '4');
    }
  }
  // The offsets are added beforehand, because the operation has no field for
  // them.
  auto fold = [&](place& p) {
    if (p.offset == 0)
      return;
    auto w = width_of(p.base);
    auto out = temp(w);
    emit(w == '4' ? "add.b32" : "add.b64",
         {out, p.base, constant(w, std::uint64_t(p.offset))});
    p.base = out;
  };
  fold(to);
  fold(from);
  if (width_of(from.base) != '8')
    fail("cp.async wants a 64-bit global address");
  emit(width_of(to.base) == '4' ? "cp.async.a4" : "cp.async.a8",
       {-1, to.base, from.base, limit}, std::int64_t(bytes));
}

void function_lowering::copy() {
  if (has("bulk"))
    copy_bulk();
  else
    copy_async();
}

/// Lowers mapa and getctarank, for generic addresses and for those in shared
/// memory.
void function_lowering::map_to_block() {
  auto finds = now_->name == "getctarank";
  if (now_->modifiers.empty() || (!has("u32") && !has("u64")))
    unsupported();
  auto w = has("u64") ? '8' : '4';
  auto generic = !has("shared::cluster");
  if (generic && w == '4')
    unsupported();
  need(finds ? 2 : 3);
  auto a = source(arg(1), w);
  auto base = std::int64_t{generic ? std::int64_t(shared_aperture) : 0};
  auto size = std::string{w};
  if (finds)
    emit("getctarank." + size, {destination(arg(0), '4'), a}, base);
  else
    emit("mapa." + size, {destination(arg(0), w), a, source(arg(2), '4')},
         base);
}

void function_lowering::stack() {
  auto& n = now_->name;
  if (now_->modifiers.size() != 1 || (!has("u64") && !has("b64")))
    unsupported();
  if (n == "alloca") {
    if (now_->operands.size() < 2 || now_->operands.size() > 3)
      fail("alloca needs 2 or 3 operands");
    auto align = std::uint64_t{8};
    if (now_->operands.size() == 3) {
      if (arg(2).is != kind::integer)
        fail("alloca needs an alignment that is a number");
      align = arg(2).bits;
    }
    if (!std::has_single_bit(align) || align > 1024)
      fail("alloca needs an alignment that is a power of two up to 1024");
    emit("alloca", {destination(arg(0), '8'), source(arg(1), '8')},
         std::int64_t(align));
    return;
  }
  need(1);
  if (n == "stacksave")
    emit("stack.save", {destination(arg(0), '8')});
  else
    emit("stack.restore", {-1, source(arg(0), '8')});
}

} // namespace vgpu::device::cpu
