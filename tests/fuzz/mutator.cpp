#include "mutator.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace vgpu::test {

namespace {

/// Numbers at which code goes wrong.
constexpr std::array<std::uint64_t, 24> numbers = {0,
                                                   1,
                                                   2,
                                                   7,
                                                   8,
                                                   16,
                                                   64,
                                                   100,
                                                   127,
                                                   128,
                                                   255,
                                                   256,
                                                   4095,
                                                   4096,
                                                   0x7fff,
                                                   0xffff,
                                                   0x7fffffff,
                                                   0x80000000,
                                                   0xffffffff,
                                                   0x100000000,
                                                   0x500000000000,
                                                   0x7fffffffffffffff,
                                                   0x8000000000000000,
                                                   0xffffffffffffffff};

/// The same for text.
constexpr std::array<std::string_view, 20> texts = {
    "0",
    "-1",
    "1",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "-1e308",
    "1e999",
    "0.5",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "\"x\"",
    "nan",
    "-inf",
    "99999999999999999999999999999999999999"};

bool is_digit(std::uint8_t x) {
  return x >= '0' && x <= '9';
}

} // namespace

std::size_t mutator::below(std::size_t n) {
  return n == 0 ? 0 : random_() % n;
}

fuzz_input mutator::make(std::uint64_t seed) {
  random_.seed(seed);
  auto out = any();
  for (auto left = 1 + below(6); left > 0; --left)
    once(out);
  out.resize(std::min(out.size(), largest_input));
  return out;
}

/// Overwrites some bytes by a number.
void mutator::put_number(fuzz_input& x) {
  auto size = std::size_t{1} << below(4);
  if (x.size() < size)
    return;
  auto number = numbers[below(numbers.size())];
  auto at = below(x.size() - size + 1);
  if (below(2) == 0)
    at = at / size * size;
  std::memcpy(x.data() + at, &number, size);
}

/// Replaces a number in a text.
void mutator::put_digits(fuzz_input& x) {
  auto from =
      std::find_if(x.begin() + static_cast<std::ptrdiff_t>(below(x.size())),
                   x.end(), is_digit);
  if (from == x.end())
    return;
  auto to = std::find_if_not(from, x.end(), is_digit);
  auto text = texts[below(texts.size())];
  auto at = x.erase(from, to);
  x.insert(at, text.begin(), text.end());
}

/// Removes, doubles or takes over from elsewhere a part of an input.
void mutator::move_part(fuzz_input& x) {
  auto other = any();
  auto& from = below(2) == 0 ? x : other;
  auto begin = below(from.size());
  auto size =
      std::min(below(below(4) == 0 ? 4096 : 32) + 1, from.size() - begin);
  fuzz_input part(from.begin() + static_cast<std::ptrdiff_t>(begin),
                  from.begin() + static_cast<std::ptrdiff_t>(begin + size));
  if (&from == &x && below(2) == 0) {
    x.erase(x.begin() + static_cast<std::ptrdiff_t>(begin),
            x.begin() + static_cast<std::ptrdiff_t>(begin + size));
    return;
  }
  auto at = x.begin() + static_cast<std::ptrdiff_t>(below(x.size() + 1));
  x.insert(at, part.begin(), part.end());
}

/// Repeats one byte, as a deeply nested text does.
void mutator::nest(fuzz_input& x) {
  constexpr std::string_view often = "[{(\"\\,:.-";
  auto times = below(8) == 0 ? below(largest_input / 2) : below(300);
  auto byte = static_cast<std::uint8_t>(often[below(often.size())]);
  auto at = x.begin() + static_cast<std::ptrdiff_t>(below(x.size() + 1));
  x.insert(at, times, byte);
}

void mutator::once(fuzz_input& x) {
  if (x.empty())
    return x.push_back(static_cast<std::uint8_t>(random_()));
  switch (below(8)) {
  case 0:
    x[below(x.size())] ^= static_cast<std::uint8_t>(1u << below(8));
    break;
  case 1:
    x[below(x.size())] = static_cast<std::uint8_t>(random_());
    break;
  case 2:
  case 3:
    put_number(x);
    break;
  case 4:
    put_digits(x);
    break;
  case 5:
  case 6:
    move_part(x);
    break;
  default:
    if (below(4) == 0)
      x.resize(below(x.size()));
    else if (below(8) == 0)
      nest(x);
    else
      x[below(x.size())] += static_cast<std::uint8_t>(below(3) - 1);
    break;
  }
}

} // namespace vgpu::test
