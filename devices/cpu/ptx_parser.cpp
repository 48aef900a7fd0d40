#include "devices/cpu/ptx_parser.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace vgpu::device::cpu::ptx {

namespace {

// What a hostile text cannot exceed.
constexpr std::size_t max_registers = 1u << 20;
constexpr std::size_t max_scopes = 1u << 20;
constexpr std::uint64_t max_variable_bytes = std::uint64_t{1} << 34;
constexpr unsigned max_nesting = 64;

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

class parser {
public:
  explicit parser(std::string_view text) : lexer_{text} { advance(); }

  module run();

private:
  // -- tokens -----------------------------------------------------------------

  void advance() { now_ = lexer_.next(); }

  [[noreturn]] void fail(const std::string& what) const {
    throw syntax_error{now_.line, what};
  }

  bool at(char mark) const { return now_.mark(mark); }
  bool at_dotted(std::string_view x) const {
    return now_.is == token::kind::dotted && now_.text == x;
  }

  bool take(char mark) {
    if (!at(mark))
      return false;
    advance();
    return true;
  }

  void expect(char mark) {
    if (!take(mark))
      fail(std::string{"expected '"} + mark + "' before '" +
           std::string{now_.text.substr(0, 40)} + "'");
  }

  std::string word() {
    if (now_.is != token::kind::word)
      fail("expected a name before '" + std::string{now_.text.substr(0, 40)} +
           "'");
    auto out = std::string{now_.text};
    advance();
    return out;
  }

  std::uint64_t integer() {
    auto negative = take('-');
    if (now_.is != token::kind::integer)
      fail("expected a number");
    auto out = now_.bits;
    advance();
    return negative ? ~out + 1 : out;
  }

  void skip_to_semicolon() {
    while (!at(';') && now_.is != token::kind::end)
      advance();
    expect(';');
  }

  void skip_line() {
    auto line = now_.line;
    while (now_.line == line && now_.is != token::kind::end)
      advance();
  }

  // -- module -----------------------------------------------------------------

  void version();
  void target();
  void skip_section();
  void top_level();
  void symbol();

  // -- variables --------------------------------------------------------------

  variable declaration(space where);
  void dimensions(variable& out);
  void initial_value(variable& out, unsigned depth);
  void initial_item(variable& out);
  std::vector<variable> parameter_list();
  void attribute(variable& out);

  // -- functions --------------------------------------------------------------

  void function_header(bool entry, linkage seen);
  void tuning(function& out);
  void body();
  void statement();
  void local_variables(space where);
  void register_declaration();
  void directive();
  void branch_targets(std::string name);
  void call_prototype(std::string name);
  void label_or_instruction();
  void instruction_rest(instruction x);

  // -- operands ---------------------------------------------------------------

  operand parse_operand(unsigned depth = 0);
  operand named(std::string name);
  operand address(unsigned depth);
  operand negative_number();

  struct scope {
    std::uint32_t number = 0;
    std::unordered_map<std::string, int> registers;
    std::unordered_map<std::string, int> variables;
  };

  lexer lexer_;
  token now_;
  module out_;
  function* fn_ = nullptr;
  std::vector<scope> scopes_;
};

module parser::run() {
  version();
  while (now_.is != token::kind::end)
    top_level();
  return std::move(out_);
}

void parser::version() {
  if (!at_dotted("version"))
    fail("expected .version");
  advance();
  // "9.0" is one floating point token.
  if (now_.is == token::kind::f64) {
    auto text = now_.text;
    auto dot = text.find('.');
    auto number = [](std::string_view digits) {
      auto value = 0u;
      for (auto c : digits.substr(0, 4))
        value = c >= '0' && c <= '9' ? value * 10 + unsigned(c - '0') : value;
      return value;
    };
    out_.version = number(text.substr(0, dot)) * 10;
    if (dot != text.npos)
      out_.version += std::min(number(text.substr(dot + 1)), 9u);
    advance();
    return;
  }
  fail("expected a version number such as 9.0");
}

void parser::target() {
  advance();
  auto name = word();
  if (!name.starts_with("sm_"))
    fail("unknown target '" + name + "'");
  auto number = 0u;
  for (auto c : std::string_view{name}.substr(3)) {
    if (c < '0' || c > '9')
      break;
    number = std::min(number * 10 + unsigned(c - '0'), 100000u);
  }
  out_.target = number;
  while (take(','))
    word();
}

void parser::skip_section() {
  advance();
  if (now_.is == token::kind::dotted || now_.is == token::kind::word)
    advance();
  expect('{');
  while (!at('}') && now_.is != token::kind::end)
    advance();
  expect('}');
}

void parser::top_level() {
  if (take(';'))
    return;
  if (now_.is != token::kind::dotted)
    fail("expected a directive before '" +
         std::string{now_.text.substr(0, 40)} + "'");
  if (at_dotted("target"))
    return target();
  if (at_dotted("address_size")) {
    advance();
    if (integer() != 64)
      fail("only 64-bit addresses are supported");
    return;
  }
  if (at_dotted("file"))
    return skip_line();
  if (at_dotted("section"))
    return skip_section();
  if (at_dotted("pragma") || at_dotted("alias"))
    return skip_to_semicolon();
  symbol();
}

void parser::symbol() {
  auto seen = linkage::local;
  while (at_dotted("visible") || at_dotted("extern") || at_dotted("weak") ||
         at_dotted("common")) {
    seen = at_dotted("visible")  ? linkage::visible
           : at_dotted("extern") ? linkage::external
                                 : linkage::weak;
    advance();
  }
  if (at_dotted("entry") || at_dotted("func"))
    return function_header(at_dotted("entry"), seen);
  auto where =
      now_.is == token::kind::dotted ? parse_space(now_.text) : std::nullopt;
  if (!where)
    fail("unknown directive '." + std::string{now_.text.substr(0, 40)} + "'");
  advance();
  do {
    auto x = declaration(*where);
    x.seen = seen;
    out_.variables.push_back(std::move(x));
  } while (take(','));
  expect(';');
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
  while (now_.is == token::kind::dotted) {
    if (at_dotted("align")) {
      advance();
      aligned = integer();
      if (!std::has_single_bit(aligned) || aligned > 4096)
        fail(".align wants a power of two");
    } else if (at_dotted("attribute")) {
      attribute(out);
    } else if (at_dotted("ptr")) {
      advance();
    } else if (at_dotted("v2") || at_dotted("v4")) {
      lanes = at_dotted("v2") ? 2 : 4;
      advance();
    } else if (parse_space(now_.text)) {
      advance(); // the state space a pointer parameter points to
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
    // The addend may stand inside the parentheses.
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

void parser::tuning(function& out) {
  while (now_.is == token::kind::dotted) {
    auto name = now_.text;
    if (name == "maxntid" || name == "reqntid") {
      auto& shape = name == "maxntid" ? out.max_threads : out.required_threads;
      advance();
      shape[0] = shape[1] = shape[2] = 1;
      for (auto i = 0; i < 3; ++i) {
        shape[i] = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(integer(), 1u << 20));
        if (!take(','))
          break;
      }
    } else if (name == "minnctapersm" || name == "maxnctapersm" ||
               name == "maxnreg") {
      advance();
      integer();
    } else if (name == "noreturn" || name == "blocksareclusters") {
      advance();
    } else if (name == "pragma") {
      skip_to_semicolon();
    } else {
      fail("unsupported directive '." + std::string{name.substr(0, 40)} +
           "' on " + out.name);
    }
  }
}

void parser::function_header(bool entry, linkage seen) {
  auto out = function{};
  out.entry = entry;
  out.seen = seen;
  out.line = now_.line;
  advance();
  if (!entry && at_dotted("attribute")) {
    auto ignored = variable{};
    attribute(ignored);
  }
  if (!entry && at('('))
    out.results = parameter_list();
  out.name = word();
  if (at('('))
    out.parameters = parameter_list();
  tuning(out);
  auto same = [&](const function& f) { return f.name == out.name; };
  auto old = std::find_if(out_.functions.begin(), out_.functions.end(), same);
  if (old == out_.functions.end()) {
    out_.functions.push_back(std::move(out));
    old = std::prev(out_.functions.end());
  } else if (at('{')) {
    if (old->defined)
      fail("function '" + out.name + "' is defined twice");
    *old = std::move(out);
  }
  if (take(';'))
    return;
  if (!at('{'))
    fail("expected a body or ';' after '" + old->name + "'");
  fn_ = &*old;
  fn_->defined = true;
  scopes_.clear();
  scopes_.emplace_back();
  fn_->scope_parent.push_back(0);
  auto add = [this](const std::vector<variable>& from) {
    for (auto& x : from) {
      scopes_.back().variables[x.name] =
          static_cast<int>(fn_->variables.size());
      fn_->variables.push_back(x);
    }
  };
  add(fn_->results);
  add(fn_->parameters);
  expect('{');
  body();
  fn_ = nullptr;
}

void parser::body() {
  // Scopes are kept on an explicit stack: depth costs no host stack.
  while (!scopes_.empty()) {
    if (now_.is == token::kind::end)
      fail("function '" + fn_->name + "' is not closed");
    if (take('}')) {
      scopes_.pop_back();
    } else if (take('{')) {
      if (fn_->scope_parent.size() >= max_scopes || scopes_.size() > 4096)
        fail("too many scopes");
      auto number = static_cast<std::uint32_t>(fn_->scope_parent.size());
      fn_->scope_parent.push_back(scopes_.back().number);
      scopes_.emplace_back().number = number;
    } else {
      statement();
    }
  }
}

void parser::statement() {
  if (take(';'))
    return;
  if (now_.is == token::kind::dotted)
    return directive();
  label_or_instruction();
}

void parser::directive() {
  if (at_dotted("reg"))
    return register_declaration();
  if (at_dotted("loc") || at_dotted("file"))
    return skip_line();
  if (at_dotted("pragma"))
    return skip_to_semicolon();
  if (at_dotted("section"))
    return skip_section();
  if (at_dotted("branchtargets"))
    return branch_targets("");
  if (at_dotted("callprototype"))
    return call_prototype("");
  if (auto where = parse_space(now_.text)) {
    advance();
    return local_variables(*where);
  }
  fail("unknown directive '." + std::string{now_.text.substr(0, 40)} + "'");
}

void parser::local_variables(space where) {
  do {
    auto x = declaration(where);
    if (where == space::global || where == space::constant) {
      // Static in the function, but a variable of the module all the same.
      x.name = fn_->name + "$" + x.name;
      fail("variable '" + x.name + "' must be declared outside its function");
    }
    scopes_.back().variables[x.name] = static_cast<int>(fn_->variables.size());
    fn_->variables.push_back(std::move(x));
  } while (take(','));
  expect(';');
}

void parser::register_declaration() {
  advance();
  if (at_dotted("v2") || at_dotted("v4"))
    fail("vector registers are not supported");
  auto t =
      now_.is == token::kind::dotted ? parse_type(now_.text) : std::nullopt;
  if (!t)
    fail("expected a register type");
  advance();
  auto add = [&](std::string name) {
    if (fn_->registers.size() >= max_registers)
      fail("too many registers");
    scopes_.back().registers[std::move(name)] =
        static_cast<int>(fn_->registers.size());
    fn_->registers.push_back(*t);
  };
  do {
    auto name = word();
    if (take('<')) {
      auto count = integer();
      if (count > max_registers)
        fail("too many registers");
      for (auto i = std::uint64_t{0}; i < count; ++i)
        add(name + std::to_string(i));
      expect('>');
    } else {
      add(std::move(name));
    }
  } while (take(','));
  expect(';');
}

void parser::branch_targets(std::string name) {
  advance();
  auto out = target_list{std::move(name), scopes_.back().number, {}};
  do
    out.labels.push_back(word());
  while (take(','));
  expect(';');
  fn_->target_lists.push_back(std::move(out));
}

void parser::call_prototype(std::string name) {
  advance();
  auto out = prototype{std::move(name), {}, {}};
  if (at('('))
    out.results = parameter_list();
  word(); // always _
  if (at('('))
    out.parameters = parameter_list();
  while (now_.is == token::kind::dotted)
    advance();
  expect(';');
  fn_->prototypes.push_back(std::move(out));
}

void parser::label_or_instruction() {
  auto x = instruction{};
  x.line = now_.line;
  x.scope = scopes_.back().number;
  if (take('@')) {
    x.guard_negated = take('!');
    auto p = parse_operand();
    if (p.is != operand::kind::reg)
      fail("a guard must be a predicate register");
    x.guard = p.number;
    x.line = now_.line;
  }
  auto name = word();
  if (x.guard < 0 && take(':')) {
    if (at_dotted("branchtargets"))
      return branch_targets(std::move(name));
    if (at_dotted("callprototype"))
      return call_prototype(std::move(name));
    fn_->labels.push_back({std::move(name), x.scope,
                           static_cast<std::uint32_t>(fn_->body.size())});
    return;
  }
  x.name = std::move(name);
  instruction_rest(std::move(x));
}

void parser::instruction_rest(instruction x) {
  while (now_.is == token::kind::dotted) {
    if (x.modifiers.size() > 24)
      fail("too many modifiers");
    x.modifiers.emplace_back(now_.text);
    advance();
  }
  if (!at(';')) {
    do
      x.operands.push_back(parse_operand());
    while (take(','));
  }
  auto looks = x.name == "tex" || x.name == "tld4" || x.name == "suld" ||
               x.name == "sust" || x.name == "sured";
  for (auto& o : x.operands)
    if (o.is == operand::kind::address && o.elements.size() > 1 && !looks)
      fail(x.text() + ": tensor coordinates are not supported");
  for (auto& o : x.operands)
    if (o.is == operand::kind::reg && !o.name.empty() && x.name[0] != 'v')
      fail(x.text() + " cannot use a part of a register");
  if (!take(';'))
    fail("expected ';' after " + x.text() + " before '" +
         std::string{now_.text.substr(0, 40)} + "'");
  fn_->body.push_back(std::move(x));
}

operand parser::named(std::string name) {
  auto out = operand{};
  if (name == "_")
    return out;
  for (auto i = scopes_.rbegin(); i != scopes_.rend(); ++i) {
    if (auto r = i->registers.find(name); r != i->registers.end()) {
      out.is = operand::kind::reg;
      out.number = r->second;
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
    if (take('|')) { // and whether memory was there
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
    out.name = now_.text; // a part of it: %r1.b0
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

} // namespace

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

module parse(std::string_view text) {
  return parser{text}.run();
}

} // namespace vgpu::device::cpu::ptx
