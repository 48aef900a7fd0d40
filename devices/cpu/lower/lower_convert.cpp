// Conversions between formats: cvt.
#include "devices/cpu/lower/function_lowering.hpp"
#include "devices/cpu/ptx/ptx_parser.hpp"

#include <algorithm>

namespace vgpu::device::cpu {

using ptx::parse_type;

void function_lowering::convert() {
  auto& m = now_->modifiers;
  if (m.size() < 2)
    unsupported();
  if (has("pack"))
    return convert_packed();
  auto d = parse_type(m[m.size() - 2]);
  auto s = parse_type(m.back());
  if (!d || !s)
    return convert_short();
  auto flags = std::uint32_t{0};
  for (auto i = std::size_t{0}; i + 2 < m.size(); ++i) {
    if (auto f = rounding_flag(m[i]))
      flags |= *f;
    else if (m[i] == "sat")
      flags |= mod::sat;
    else if (m[i] == "satfinite")
      unsupported();
    else
      unsupported();
  }
  if (d->packed) {
    need(3);
    emit("cvt." + m[m.size() - 2] + "." + m.back(),
         {destination(arg(0), '4'), source(arg(1), '4'), source(arg(2), '4')},
         0, flags);
    return;
  }
  need(2);
  auto from = width_for(*s);
  auto to = width_for(*d);
  // Registers may be wider than the types.
  auto a = -1;
  if (arg(1).is == kind::reg && width_of(arg(1).number) > from &&
      width_of(arg(1).number) <= '8')
    a = resize(arg(1).number, from, false);
  else
    a = source(arg(1), from);
  auto out = -1;
  auto wide = arg(0).is == kind::reg && width_of(arg(0).number) > to &&
              width_of(arg(0).number) <= '8' && !is_float(*d);
  out = wide ? temp(to) : destination(arg(0), to);
  auto name = [](const std::string& x, const ptx::type& t) {
    return t.kind == 'b' ? "u" + x.substr(1) : x;
  };
  // Conversions from floating point to integers saturate without a flag.
  emit("cvt." + name(m[m.size() - 2], *d) + "." + name(m.back(), *s), {out, a},
       0, is_float(*s) && !is_float(*d) ? flags & ~mod::sat : flags);
  if (!wide)
    return;
  auto reg = arg(0).number;
  auto sign = std::string{d->kind == 's' ? "s" : "u"};
  emit("cvt." + sign + std::to_string(8 * (width_of(reg) - '0')) + "." + sign +
           std::to_string(8 * d->bytes),
       {reg, out});
}

/// Lowers conversions of formats with 8 and 19 bits.
void function_lowering::convert_short() {
  auto& m = now_->modifiers;
  auto flags = std::uint32_t{0};
  auto to = m[m.size() - 2];
  auto rounded = false;
  auto finite = false;
  for (auto i = std::size_t{0}; i + 2 < m.size(); ++i) {
    if (m[i] == "rna" && to == "tf32")
      flags |= mod::integral;
    else if (m[i] == "rz" && to == "tf32")
      flags |= mod::rz;
    else if (m[i] == "relu")
      flags |= mod::relu;
    else if (m[i] == "satfinite")
      finite = true;
    else if (m[i] != "rn")
      unsupported();
    rounded = rounded || m[i].starts_with("r");
  }
  if (finite && to == "tf32")
    flags |= mod::sat;
  auto from_bytes = m.back() == "e4m3x2" || m.back() == "e5m2x2";
  if (!rounded || (to != "tf32" && finite == from_bytes))
    unsupported();
  auto key = "cvt." + to + "." + m.back();
  auto entry = find_op(key);
  if (entry == nullptr)
    unsupported();
  need(entry->signature.size());
  auto width = [&](std::size_t i) { return read_form(entry->signature[i]); };
  emit(key,
       {destination(arg(0), width(0)), source(arg(1), width(1)),
        now_->operands.size() == 3 ? source(arg(2), width(2)) : -1},
       0, flags);
}

/// Lowers cvt.pack.sat.to.from{.b32} d, a, b{, c}.
void function_lowering::convert_packed() {
  auto& m = now_->modifiers;
  if (m.size() < 4 || m[0] != "pack" || m[1] != "sat" ||
      (m[3] != "s32" && m[3] != "u32"))
    unsupported();
  static constexpr std::string_view known[] = {"u16", "s16", "u8", "s8",
                                               "u4",  "s4",  "u2", "s2"};
  if (std::find(std::begin(known), std::end(known), m[2]) == std::end(known))
    unsupported();
  auto width = std::stoi(m[2].substr(1));
  auto three = m.size() == 5 && m[4] == "b32";
  if (m.size() != (three ? 5u : 4u) || (width < 16) != three)
    unsupported();
  need(three ? 4 : 3);
  emit("cvt.pack",
       {destination(arg(0), '4'), source(arg(1), '4'), source(arg(2), '4'),
        three ? source(arg(3), '4') : -1},
       width, (m[2][0] == 's' ? 1u : 0u) | (m[3] == "s32" ? 2u : 0u));
}

} // namespace vgpu::device::cpu
