// The internals of the parser: one token of look-ahead over a text, and the
// state of the function that is being read. Its parts are in ptx_parser.cpp
// (the module and functions), ptx_declarations.cpp (variables) and
// ptx_operands.cpp.
#pragma once

#include "devices/cpu/ptx/ptx_parser.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vgpu::device::cpu::ptx {

/// Lists and operands of a hostile text may be nested this deep.
constexpr unsigned max_nesting = 64;

/// Returns the state space of a name such as "global" or "shared", or nothing
/// where it names none.
std::optional<space> parse_space(std::string_view name);

/// Parses one PTX text. Throws syntax_error.
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
  /// Declares one variable, or all variables of a numbered name such as %p<2>.
  void declare(space where, std::vector<variable>& out);
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
  operand vector_register(int first, unsigned lanes);
  operand address(unsigned depth);
  operand negative_number();

  /// The registers of a name. A vector has several consecutive ones.
  struct register_place {
    int first = 0;
    unsigned lanes = 1;
  };
  struct scope {
    std::uint32_t number = 0;
    std::unordered_map<std::string, register_place> registers;
    std::unordered_map<std::string, int> variables;
  };

  lexer lexer_;
  token now_;
  module out_;
  function* fn_ = nullptr;
  std::vector<scope> scopes_;
  std::uint64_t numbered_ = 0; // variables that numbered names have declared
};

} // namespace vgpu::device::cpu::ptx
