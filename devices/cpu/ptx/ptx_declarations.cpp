// Variables: their types, dimensions and initial values; parameter lists.
#include "devices/cpu/ptx/ptx_grammar.hpp"

#include <algorithm>
#include <bit>

namespace vgpu::device::cpu::ptx {

namespace {

// Limits for hostile texts.
constexpr std::uint64_t max_variable_bytes = std::uint64_t{1} << 34;
constexpr std::uint64_t max_numbered = 1u << 18; // in a text

} // namespace

std::optional<space> parse_space(std::string_view x) {
  if (x == "global")
    return space::global;
  if (x == "const")
    return space::constant;
  if (x == "shared")
    return space::shared;
  if (x == "local")
    return space::local;
  if (x == "param")
    return space::param;
  return std::nullopt;
}

std::optional<type> parse_type(std::string_view x) {
  if (x == "pred")
    return type{'p', 1, false};
  if (x == "f16x2")
    return type{'f', 4, true};
  if (x == "bf16")
    return type{'h', 2, false};
  if (x == "bf16x2")
    return type{'h', 4, true};
  if (x == "b128")
    return type{'b', 16, false};
  if (x == "u16x2" || x == "s16x2")
    return type{x[0], 4, true};
  if (x.size() < 2 || x.size() > 3)
    return std::nullopt;
  auto kind = x[0];
  auto bits = x.substr(1);
  if (kind != 'u' && kind != 's' && kind != 'f' && kind != 'b')
    return std::nullopt;
  if (bits == "8" && kind != 'f')
    return type{kind, 1, false};
  if (bits == "16")
    return type{kind, 2, false};
  if (bits == "32")
    return type{kind, 4, false};
  if (bits == "64")
    return type{kind, 8, false};
  return std::nullopt;
}

void parser::attribute(variable& out) {
  advance();
  expect('(');
  while (!at(')') && now_.is != token::kind::end) {
    out.managed = out.managed || at_dotted("managed");
    advance();
  }
  expect(')');
}

variable parser::declaration(space where) {
  auto out = variable{};
  out.where = where;
  auto lanes = std::uint64_t{1};
  auto typed = false;
  auto aligned = std::uint64_t{0};
  auto points = false; // what follows describes the memory pointed to
  while (now_.is == token::kind::dotted) {
    if (at_dotted("align")) {
      advance();
      auto given = integer();
      if (!std::has_single_bit(given) || given > 4096)
        fail(".align needs a power of two");
      if (!points)
        aligned = given;
    } else if (at_dotted("attribute")) {
      attribute(out);
    } else if (at_dotted("ptr")) {
      points = true;
      advance();
    } else if (at_dotted("v2") || at_dotted("v4")) {
      lanes = at_dotted("v2") ? 2 : 4;
      advance();
    } else if (parse_space(now_.text)) {
      advance(); // the state space that a pointer points to
    } else if (auto t = parse_type(now_.text)) {
      out.element = *t;
      typed = true;
      advance();
    } else if (at_dotted("texref") || at_dotted("samplerref") ||
               at_dotted("surfref")) {
      fail("texture and surface references are not supported; use texture "
           "and surface objects");
    } else {
      fail("unexpected '." + std::string{now_.text.substr(0, 40)} +
           "' in a declaration");
    }
  }
  if (!typed)
    fail("a declaration has no type");
  out.bytes = out.element.bytes * lanes;
  out.align = std::max<std::uint64_t>(aligned, out.bytes);
  if (aligned != 0)
    out.align = aligned;
  if (now_.is == token::kind::word)
    out.name = word();
  dimensions(out);
  if (take('='))
    initial_value(out, 0);
  return out;
}

void parser::declare(space where, std::vector<variable>& out) {
  auto x = declaration(where);
  if (!take('<')) {
    out.push_back(std::move(x));
    return;
  }
  auto count = integer();
  expect('>');
  if (count > max_numbered - numbered_)
    fail("too many variables");
  numbered_ += count;
  for (auto i = std::uint64_t{0}; i < count; ++i) {
    out.push_back(x);
    out.back().name += std::to_string(i);
  }
}

void parser::dimensions(variable& out) {
  auto first = true;
  auto open = false;
  while (take('[')) {
    if (at(']')) {
      open = first;
      if (!first)
        fail("only the first dimension may be left open");
    } else {
      auto n = integer();
      if (n != 0 && out.bytes > max_variable_bytes / n)
        fail("variable '" + out.name + "' is too large");
      out.bytes *= n;
    }
    expect(']');
    first = false;
  }
  if (open) {
    out.unsized = !at('=');
    out.bytes = 0;
  }
}

void parser::initial_value(variable& out, unsigned depth) {
  if (depth > max_nesting)
    fail("an initial value is nested too deeply");
  if (!take('{'))
    return initial_item(out);
  if (take('}'))
    return;
  do
    initial_value(out, depth + 1);
  while (take(','));
  expect('}');
}

void parser::initial_item(variable& out) {
  auto size = out.element.bytes;
  if (size > 8)
    fail("initial values of .b128 are not supported");
  auto value = std::uint64_t{0};
  auto store = [&] {
    for (auto i = 0u; i < size; ++i)
      out.initial.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    out.bytes = std::max<std::uint64_t>(out.bytes, out.initial.size());
  };
  auto symbol = [&](std::string name, std::uint64_t mask) {
    auto x = relocation{out.initial.size(), std::move(name), 0, mask, size};
    if (at('+') || at('-')) {
      auto minus = at('-');
      advance();
      auto n = static_cast<std::int64_t>(integer());
      x.addend = minus ? -n : n;
    }
    out.relocations.push_back(std::move(x));
    store();
  };
  if (out.bytes != 0 && out.initial.size() >= out.bytes &&
      out.bytes >= max_variable_bytes)
    fail("an initial value is too long");
  if (now_.is == token::kind::word) {
    auto name = word();
    if (name == "generic" && take('(')) {
      name = word();
      expect(')');
    }
    return symbol(std::move(name), 0);
  }
  auto negative = take('-');
  switch (now_.is) {
  case token::kind::integer:
    value = now_.bits;
    break;
  case token::kind::f32:
    value = size == 8 ? std::bit_cast<std::uint64_t>(double{
                            std::bit_cast<float>(std::uint32_t(now_.bits))})
                      : now_.bits;
    break;
  case token::kind::f64:
    value = size == 4 ? std::bit_cast<std::uint32_t>(static_cast<float>(
                            std::bit_cast<double>(now_.bits)))
                      : now_.bits;
    break;
  default:
    fail("expected an initial value");
  }
  auto real = now_.is != token::kind::integer;
  advance();
  if (!real && at('(')) { // 0xFF00(symbol)
    advance();
    auto name = word();
    if (name == "generic" && take('(')) {
      name = word();
      expect(')');
    }
    auto mask = value;
    value = 0;
    if (mask == 0)
      fail("an address mask is zero");
    // The addend may be inside the parentheses.
    auto addend = std::int64_t{0};
    if (at('+') || at('-')) {
      auto minus = at('-');
      advance();
      addend = static_cast<std::int64_t>(integer());
      addend = minus ? -addend : addend;
    }
    expect(')');
    symbol(std::move(name), mask);
    out.relocations.back().addend += addend;
    return;
  }
  if (negative)
    value = real ? value ^ (std::uint64_t{1} << (8 * size - 1)) : ~value + 1;
  store();
}

std::vector<variable> parser::parameter_list() {
  auto out = std::vector<variable>{};
  expect('(');
  if (take(')'))
    return out;
  do {
    auto where = space::param;
    if (at_dotted("param")) {
      advance();
    } else if (at_dotted("reg")) {
      fail("parameters in registers are not supported");
    } else {
      fail("expected .param");
    }
    out.push_back(declaration(where));
  } while (take(','));
  expect(')');
  return out;
}

} // namespace vgpu::device::cpu::ptx
