#include "devices/cpu/ptx/ptx_parser.hpp"

#include "devices/cpu/ptx/ptx_grammar.hpp"

#include <algorithm>

namespace vgpu::device::cpu::ptx {

namespace {

// Limits for hostile texts.
constexpr std::size_t max_registers = 1u << 20;
constexpr std::size_t max_scopes = 1u << 20;

} // namespace

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
  // The lexer reads "9.0" as one floating-point token.
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
  auto first = out_.variables.size();
  do
    declare(*where, out_.variables);
  while (take(','));
  for (auto i = first; i < out_.variables.size(); ++i)
    out_.variables[i].seen = seen;
  expect(';');
}

void parser::tuning(function& out) {
  while (now_.is == token::kind::dotted) {
    auto name = now_.text;
    if (name == "maxntid" || name == "reqntid" || name == "reqnctapercluster") {
      auto& shape = name == "maxntid"   ? out.max_threads
                    : name == "reqntid" ? out.required_threads
                                        : out.cluster_blocks;
      advance();
      shape[0] = shape[1] = shape[2] = 1;
      for (auto i = 0; i < 3; ++i) {
        shape[i] = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(integer(), 1u << 20));
        if (!take(','))
          break;
      }
    } else if (name == "maxclusterrank") {
      advance();
      out.max_cluster_rank = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(integer(), 1u << 20));
    } else if (name == "explicitcluster") {
      advance();
      out.explicit_cluster = true;
    } else if (name == "minnctapersm" || name == "maxnreg") {
      auto& to = name == "maxnreg" ? out.max_registers : out.min_blocks;
      advance();
      to = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(integer(), 1u << 20));
    } else if (name == "maxnctapersm") {
      advance();
      integer();
    } else if (name == "noreturn") {
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
  // Scopes are on an explicit stack, so that nesting takes no host stack.
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
  auto& all = fn_->variables;
  auto first = all.size();
  do
    declare(where, all);
  while (take(','));
  for (auto i = first; i < all.size(); ++i) {
    if (where == space::global || where == space::constant)
      // It is static in the function, and yet a variable of the module.
      fail("variable '" + fn_->name + "$" + all[i].name +
           "' must be declared outside its function");
    scopes_.back().variables[all[i].name] = static_cast<int>(i);
  }
  expect(';');
}

void parser::register_declaration() {
  advance();
  auto lanes = at_dotted("v2") ? 2u : at_dotted("v4") ? 4u : 1u;
  if (lanes != 1)
    advance();
  auto t =
      now_.is == token::kind::dotted ? parse_type(now_.text) : std::nullopt;
  if (!t || (lanes != 1 && t->kind == 'p'))
    fail("expected a register type");
  advance();
  auto add = [&](std::string name) {
    if (fn_->registers.size() + lanes > max_registers)
      fail("too many registers");
    scopes_.back().registers[std::move(name)] = {
        static_cast<int>(fn_->registers.size()), lanes};
    fn_->registers.insert(fn_->registers.end(), lanes, *t);
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
  word(); // the name is always _
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

module parse(std::string_view text) {
  return parser{text}.run();
}

} // namespace vgpu::device::cpu::ptx
