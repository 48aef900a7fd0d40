#include "devices/cpu/ptx/ptx_lexer.hpp"

#include <bit>
#include <charconv>

namespace vgpu::device::cpu::ptx {

namespace {

bool is_digit(char x) {
  return x >= '0' && x <= '9';
}

bool is_word(char x) {
  return is_digit(x) || (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') ||
         x == '_' || x == '$' || x == '%';
}

} // namespace

void lexer::skip_blanks() {
  while (!rest_.empty()) {
    auto c = rest_.front();
    if (c == '\n') {
      ++line_;
      rest_.remove_prefix(1);
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\0') {
      rest_.remove_prefix(1);
    } else if (rest_.starts_with("//")) {
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
    } else if (rest_.starts_with("/*")) {
      auto end = rest_.find("*/", 2);
      if (end == rest_.npos)
        throw syntax_error{line_, "a comment is not closed"};
      for (auto x : rest_.substr(0, end))
        line_ += x == '\n' ? 1u : 0u;
      rest_.remove_prefix(end + 2);
    } else {
      return;
    }
  }
}

token lexer::number(token out) {
  auto begin = rest_.data();
  auto end = begin + rest_.size();
  auto finish = [&](const char* at, token::kind is) {
    out.is = is;
    out.text = rest_.substr(0, static_cast<std::size_t>(at - begin));
    rest_.remove_prefix(out.text.size());
    return out;
  };
  auto exact = [&](std::size_t digits, token::kind is) {
    if (rest_.size() < 2 + digits)
      throw syntax_error{line_, "a floating point constant is cut short"};
    auto got = std::from_chars(begin + 2, begin + 2 + digits, out.bits, 16);
    if (got.ec != std::errc{} || got.ptr != begin + 2 + digits)
      throw syntax_error{line_, "a floating point constant is malformed"};
    return finish(got.ptr, is);
  };
  if (rest_.size() > 1 && rest_[0] == '0') {
    auto c = rest_[1];
    if (c == 'f' || c == 'F')
      return exact(8, token::kind::f32);
    if (c == 'd' || c == 'D')
      return exact(16, token::kind::f64);
  }
  auto base = 10;
  auto from = begin;
  if (rest_.starts_with("0x") || rest_.starts_with("0X")) {
    base = 16;
    from += 2;
  } else if (rest_.starts_with("0b") || rest_.starts_with("0B")) {
    base = 2;
    from += 2;
  } else if (rest_.size() > 1 && rest_[0] == '0' && is_digit(rest_[1])) {
    base = 8;
  }
  auto got = std::from_chars(from, end, out.bits, base);
  if (got.ec != std::errc{})
    throw syntax_error{line_, "a number is malformed or too large"};
  auto at = got.ptr;
  if (base == 10 && at != end && (*at == '.' || *at == 'e' || *at == 'E')) {
    auto value = 0.0;
    auto real = std::from_chars(begin, end, value);
    if (real.ec == std::errc{} && real.ptr > at) {
      out.bits = std::bit_cast<std::uint64_t>(value);
      return finish(real.ptr, token::kind::f64);
    }
  }
  if (at != end && *at == 'U')
    ++at;
  return finish(at, token::kind::integer);
}

token lexer::next() {
  skip_blanks();
  auto out = token{};
  out.line = line_;
  if (rest_.empty())
    return out;
  auto take = [&](std::size_t size, token::kind is) {
    out.is = is;
    out.text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  };
  auto c = rest_.front();
  if (is_digit(c))
    return number(out);
  if (is_word(c)) {
    auto size = std::size_t{1};
    while (size < rest_.size() && is_word(rest_[size]))
      ++size;
    return take(size, token::kind::word);
  }
  if (c == '.' && rest_.size() > 1 && is_word(rest_[1])) {
    rest_.remove_prefix(1);
    auto size = std::size_t{1};
    while (size < rest_.size() &&
           (is_word(rest_[size]) ||
            (rest_[size] == ':' && size + 1 < rest_.size() &&
             (rest_[size + 1] == ':' || rest_[size - 1] == ':'))))
      ++size;
    return take(size, token::kind::dotted);
  }
  if (c == '"') {
    auto end = rest_.find('"', 1);
    if (end == rest_.npos)
      throw syntax_error{line_, "a string is not closed"};
    out = take(end + 1, token::kind::text);
    out.text = out.text.substr(1, out.text.size() - 2);
    return out;
  }
  return take(1, token::kind::mark);
}

} // namespace vgpu::device::cpu::ptx
