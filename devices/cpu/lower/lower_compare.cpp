// Comparisons: setp, set, slct.
#include "devices/cpu/lower/function_lowering.hpp"
#include "devices/cpu/ptx/ptx_parser.hpp"

#include <algorithm>

namespace vgpu::device::cpu {

using ptx::parse_type;

void function_lowering::compare() {
  auto& m = now_->modifiers;
  if (m.size() < 2 || now_->operands.size() < 3)
    unsupported();
  auto t = parse_type(m.back());
  if (!t || t->kind == 'p')
    unsupported();
  if (t->packed)
    return compare_halves();
  auto combine = std::string{};
  auto flags = std::uint32_t{0};
  for (auto i = std::size_t{1}; i + 1 < m.size(); ++i) {
    if (m[i] == "ftz")
      flags |= mod::ftz;
    else if (m[i] == "and" || m[i] == "or" || m[i] == "xor")
      combine = m[i];
    else
      unsupported();
  }
  need(combine.empty() ? 3 : 4);
  auto test = m[0];
  if (t->kind == 'u' || t->kind == 'b' || t->kind == 's') {
    if (test == "lo")
      test = "lt";
    else if (test == "ls")
      test = "le";
    else if (test == "hi")
      test = "gt";
    else if (test == "hs")
      test = "ge";
  }
  auto w = width_for(*t);
  auto a = source(arg(1), w);
  auto b = source(arg(2), w);
  auto& d = arg(0);
  auto two = d.is == kind::pair;
  auto plain = !two && combine.empty();
  auto p = plain ? predicate_destination(d) : temp('p');
  auto exact = "setp." + test + "." + m.back();
  if (!try_emit(exact, {p, a, b}, 0, flags) &&
      !try_emit("setp." + test + ".b" + std::to_string(8 * t->bytes), {p, a, b},
                0, flags))
    unsupported();
  if (plain)
    return;
  auto inverse = -1;
  if (two) {
    inverse = temp('p');
    emit("not.pred", {inverse, p});
  }
  auto with = combine.empty() ? -1 : predicate(arg(3));
  auto finish = [&](const op& to, int value) {
    if (to.is == kind::sink)
      return;
    auto out = predicate_destination(to);
    if (combine.empty())
      emit("mov.pred", {out, value});
    else
      emit(combine + ".pred", {out, value, with});
  };
  if (!two)
    return finish(d, p);
  // The first result may be an operand of the second.
  auto first = temp('p');
  if (combine.empty())
    emit("mov.pred", {first, p});
  else
    emit(combine + ".pred", {first, p, with});
  finish(d.elements[1], inverse);
  if (d.elements[0].is != kind::sink)
    emit("mov.pred", {predicate_destination(d.elements[0]), first});
}

/// Returns the comparisons of both halves of a pair of 16-bit floats.
std::pair<int, int> function_lowering::halves_compared() {
  auto& m = now_->modifiers;
  auto t = parse_type(m.back());
  if (!is_float(*t))
    unsupported();
  auto key = "setp." + m.front() + (t->kind == 'h' ? ".bf16" : ".f16");
  int parts[2][2];
  for (auto i = 0; i < 2; ++i) {
    for (auto& x : parts[i])
      x = temp('2');
    emit("unpack2.b32",
         {parts[i][0], source(arg(std::size_t(1 + i)), '4'), parts[i][1]});
  }
  auto low = temp('p');
  auto high = temp('p');
  emit(key, {low, parts[0][0], parts[1][0]});
  emit(key, {high, parts[0][1], parts[1][1]});
  for (auto& x : m)
    if (x == "and" || x == "or" || x == "xor") {
      need(4);
      auto with = predicate(arg(3));
      emit(x + ".pred", {low, low, with});
      emit(x + ".pred", {high, high, with});
      return {low, high};
    }
  need(3);
  return {low, high};
}

void function_lowering::compare_halves() {
  if (arg(0).is != kind::pair)
    fail(now_->text() + " needs two predicates");
  auto [low, high] = halves_compared();
  auto give = [&](const op& to, int p) {
    if (to.is != kind::sink)
      emit("mov.pred", {predicate_destination(to), p});
  };
  give(arg(0).elements[0], low);
  give(arg(0).elements[1], high);
}

void function_lowering::set() {
  // set.cmp.dtype.stype is a comparison whose result is a number.
  auto& m = now_->modifiers;
  if (m.size() < 3 || now_->operands.size() < 3)
    unsupported();
  auto d = parse_type(m[m.size() - 2]);
  if (!d || (d->bytes != 4 && d->bytes != 2) || (d->kind == 'b'))
    unsupported();
  auto one = d->kind == 'h'                                  ? 0x3f80u
             : d->kind == 'f' && d->bytes == 4 && !d->packed ? 0x3f800000u
             : d->kind == 'f'                                ? 0x3c00u
                                                             : 0xffffffffu;
  auto source_type = parse_type(m.back());
  if (d->packed || (source_type && source_type->packed)) {
    if (!source_type || !source_type->packed || d->bytes != 4)
      unsupported();
    auto [low, high] = halves_compared();
    auto choose = [&](int p) {
      auto out = temp('2');
      emit("selp.b16", {out, constant('2', one), constant('2', 0), p});
      return out;
    };
    auto low_bits = choose(low);
    auto high_bits = choose(high);
    emit("pack2.b32", {destination(arg(0), '4'), low_bits, high_bits});
    return;
  }
  auto saved = *now_;
  auto as_setp = saved;
  as_setp.name = "setp";
  as_setp.modifiers.erase(as_setp.modifiers.end() - 2);
  auto p = temp('p');
  as_setp.operands[0] = op{};
  as_setp.operands[0].is = kind::reg;
  as_setp.operands[0].number = p;
  auto old = now_;
  now_ = &as_setp;
  compare();
  now_ = old;
  auto w = width_for(*d);
  emit("selp.b" + std::to_string(8 * d->bytes),
       {destination(arg(0), w), constant(w, one), constant(w, 0), p});
}

void function_lowering::slct() {
  need(4);
  auto& m = now_->modifiers;
  if (m.size() < 2)
    unsupported();
  auto t = parse_type(m[m.size() - 2]);
  auto c = m.back();
  if (!t || (c != "s32" && c != "f32"))
    unsupported();
  auto p = temp('p');
  emit("setp.ge." + c, {p, source(arg(3), '4'), constant('4', 0)}, 0,
       has("ftz") ? mod::ftz : 0u);
  auto w = width_for(*t);
  emit("selp.b" + std::to_string(8 * t->bytes),
       {destination(arg(0), w), source(arg(1), w), source(arg(2), w), p});
}

} // namespace vgpu::device::cpu
