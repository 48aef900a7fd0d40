// Operands of instructions.
#include "devices/cpu/ptx/ptx_grammar.hpp"

#include <algorithm>
#include <string_view>

namespace vgpu::device::cpu::ptx {

/// Returns a whole vector, as {a, b}, or one of its elements: %v.x, %v.r.
operand parser::vector_register(int first, unsigned lanes) {
  auto element = [&](unsigned i) {
    auto out = operand{};
    out.is = operand::kind::reg;
    out.number = first + static_cast<int>(i);
    return out;
  };
  if (now_.is != token::kind::dotted) {
    auto out = operand{};
    out.is = operand::kind::vector;
    for (auto i = 0u; i < lanes; ++i)
      out.elements.push_back(element(i));
    return out;
  }
  auto letter = now_.text.size() == 1 ? now_.text[0] : '?';
  auto at = std::min(std::string_view{"xyzw"}.find(letter),
                     std::string_view{"rgba"}.find(letter));
  if (at >= lanes)
    fail("a vector of registers has no element '." +
         std::string{now_.text.substr(0, 40)} + "'");
  advance();
  return element(static_cast<unsigned>(at));
}

operand parser::named(std::string name) {
  auto out = operand{};
  if (name == "_")
    return out;
  for (auto i = scopes_.rbegin(); i != scopes_.rend(); ++i) {
    if (auto r = i->registers.find(name); r != i->registers.end()) {
      if (r->second.lanes != 1)
        return vector_register(r->second.first, r->second.lanes);
      out.is = operand::kind::reg;
      out.number = r->second.first;
      return out;
    }
    if (auto v = i->variables.find(name); v != i->variables.end()) {
      out.is = operand::kind::local;
      out.number = v->second;
      out.name = std::move(name);
      return out;
    }
  }
  if (name.starts_with('%')) {
    out.is = operand::kind::special;
    if (now_.is == token::kind::dotted) {
      name += "." + std::string{now_.text};
      advance();
    }
  } else if (name == "WARP_SZ") {
    out.is = operand::kind::integer;
    out.bits = 32;
    return out;
  } else {
    out.is = operand::kind::symbol;
  }
  out.name = std::move(name);
  return out;
}

operand parser::address(unsigned depth) {
  auto out = operand{};
  out.is = operand::kind::address;
  out.elements.push_back(parse_operand(depth + 1));
  while (at('+') || at('-')) {
    auto minus = at('-');
    advance();
    auto n = integer();
    out.offset = static_cast<std::int64_t>(
        static_cast<std::uint64_t>(out.offset) + (minus ? ~n + 1 : n));
  }
  while (take(',')) { // coordinates in a texture
    if (out.elements.size() > 4)
      fail("too many coordinates");
    out.elements.push_back(parse_operand(depth + 1));
  }
  expect(']');
  return out;
}

operand parser::negative_number() {
  auto out = parse_operand();
  switch (out.is) {
  case operand::kind::integer:
    out.bits = ~out.bits + 1;
    return out;
  case operand::kind::f32:
    out.bits ^= 0x80000000u;
    return out;
  case operand::kind::f64:
    out.bits ^= std::uint64_t{1} << 63;
    return out;
  default:
    fail("'-' must stand before a number");
  }
}

operand parser::parse_operand(unsigned depth) {
  if (depth > max_nesting)
    fail("an operand is nested too deeply");
  auto out = operand{};
  if (take('!')) {
    out = parse_operand(depth + 1);
    out.negated = !out.negated;
    return out;
  }
  if (at('-')) {
    advance();
    if (now_.is != token::kind::integer && now_.is != token::kind::f32 &&
        now_.is != token::kind::f64)
      fail("'-' must stand before a number");
    return negative_number();
  }
  if (take('['))
    return address(depth);
  if (at('{') || at('(')) {
    auto close = at('{') ? '}' : ')';
    out.is = at('{') ? operand::kind::vector : operand::kind::list;
    advance();
    if (take(close))
      return out;
    do {
      if (out.elements.size() > 1024)
        fail("too many operands in a list");
      out.elements.push_back(parse_operand(depth + 1));
    } while (take(','));
    expect(close);
    if (take('|')) { // the predicate that says whether memory was there
      auto pair = operand{};
      pair.is = operand::kind::pair;
      pair.elements.push_back(std::move(out));
      pair.elements.push_back(parse_operand(depth + 1));
      return pair;
    }
    return out;
  }
  auto number = [&](operand::kind is) {
    out.is = is;
    out.bits = now_.bits;
    advance();
    return out;
  };
  switch (now_.is) {
  case token::kind::integer:
    return number(operand::kind::integer);
  case token::kind::f32:
    return number(operand::kind::f32);
  case token::kind::f64:
    return number(operand::kind::f64);
  case token::kind::word:
    break;
  default:
    fail("expected an operand before '" + std::string{now_.text.substr(0, 40)} +
         "'");
  }
  out = named(word());
  if (depth == 0 && out.is == operand::kind::reg &&
      now_.is == token::kind::dotted) {
    out.name = now_.text; // a part of the register: %r1.b0
    advance();
  }
  if (out.is == operand::kind::reg && take('|')) {
    auto pair = operand{};
    pair.is = operand::kind::pair;
    pair.elements.push_back(std::move(out));
    pair.elements.push_back(parse_operand(depth + 1));
    return pair;
  }
  auto symbolic =
      out.is == operand::kind::symbol || out.is == operand::kind::local;
  if (depth == 0 && symbolic && (at('+') || at('-'))) {
    auto minus = at('-');
    advance();
    auto n = static_cast<std::int64_t>(integer());
    out.offset = minus ? -n : n;
  }
  return out;
}

} // namespace vgpu::device::cpu::ptx
