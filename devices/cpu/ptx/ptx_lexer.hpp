// The lexer, which cuts PTX text into tokens.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace vgpu::device::cpu::ptx {

/// Says what is wrong with a text, and on which line, in the words of NVIDIA's
/// assembler. Line 0 is no line of the text. The lexer, the parser and the
/// lowering throw it, and module loading catches it.
class syntax_error : public std::runtime_error {
public:
  syntax_error(std::uint32_t line, const std::string& what)
      : std::runtime_error{place_of(line) + "error   : " + what} {}

private:
  static std::string place_of(std::uint32_t line) {
    return line == 0 ? std::string{}
                     : "ptxas application ptx input, line " +
                           std::to_string(line) + "; ";
  }
};

/// Says that the text is valid, but that this device does not support it.
class not_supported : public syntax_error {
public:
  using syntax_error::syntax_error;
};

/// Describes one token, whose text points into the source.
struct token {
  enum class kind : std::uint8_t {
    end,
    word,    // identifier, also %r1 and $L
    dotted,  // .global, without the dot in `text`
    integer, // bits
    f32,     // bits
    f64,     // bits
    text,    // a quoted string
    mark,    // one character of punctuation
  };
  kind is = kind::end;
  std::string_view text;
  std::uint64_t bits = 0;
  std::uint32_t line = 1;

  bool mark(char x) const {
    return is == kind::mark && text.size() == 1 && text[0] == x;
  }
};

/// Reads tokens from a PTX text.
class lexer {
public:
  /// Begins at the text's start. `text` must outlive the tokens.
  explicit lexer(std::string_view text) : rest_{text} {}

  /// Returns the next token. After the last it returns `end` on every call.
  token next();

private:
  void skip_blanks();
  token number(token out);

  std::string_view rest_;
  std::uint32_t line_ = 1;
};

} // namespace vgpu::device::cpu::ptx
