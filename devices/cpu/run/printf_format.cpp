#include "devices/cpu/run/printf_format.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace vgpu::device::cpu {

namespace {

class reader {
public:
  explicit reader(std::span<const std::byte> from) : from_{from} {}

  template <class T>
  T take() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    auto out = T{};
    if (at_ + sizeof(T) > from_.size()) {
      short_ = true;
      return out;
    }
    std::memcpy(&out, from_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return out;
  }
  bool ran_out() const { return short_; }

private:
  std::span<const std::byte> from_;
  std::size_t at_ = 0;
  bool short_ = false;
};

template <class T>
std::string print(const std::string& spec, T x) {
  // The caller built the specification from known characters.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  auto size = std::snprintf(nullptr, 0, spec.c_str(), x);
  auto out = std::string(static_cast<std::size_t>(std::max(size, 0)), '\0');
  std::snprintf(out.data(), out.size() + 1, spec.c_str(), x);
#pragma GCC diagnostic pop
  return out;
}

/// Reads a width or precision. Large ones are cut, because they would only fill
/// memory.
std::string digits(std::string_view format, std::size_t& i) {
  auto out = std::string{};
  while (i < format.size() && format[i] >= '0' && format[i] <= '9') {
    if (out.size() < 3)
      out += format[i];
    ++i;
  }
  return out;
}

} // namespace

std::optional<std::string>
format_printf(std::string_view format, std::span<const std::byte> arguments,
              const std::function<std::string(std::uint64_t)>& read_string) {
  auto from = reader{arguments};
  auto out = std::string{};
  auto star = [&](std::string& spec) {
    spec += std::to_string(std::clamp(from.take<std::int32_t>(), -999, 999));
  };
  for (auto i = std::size_t{0}; i < format.size();) {
    if (format[i] != '%') {
      out += format[i++];
      continue;
    }
    auto begin = i++;
    auto spec = std::string{"%"};
    while (i < format.size() &&
           std::string_view{"-+ #0"}.find(format[i]) !=
               std::string_view::npos &&
           spec.size() < 8)
      spec += format[i++];
    if (i < format.size() && format[i] == '*') {
      star(spec);
      ++i;
    } else {
      spec += digits(format, i);
    }
    if (i < format.size() && format[i] == '.') {
      spec += format[i++];
      if (i < format.size() && format[i] == '*') {
        star(spec);
        ++i;
      } else {
        spec += digits(format, i);
      }
    }
    auto wide = false;
    while (i < format.size() && std::string_view{"hlLqjzt"}.find(format[i]) !=
                                    std::string_view::npos) {
      wide = wide || format[i] != 'h';
      ++i;
    }
    if (i >= format.size()) {
      out += format.substr(begin);
      break;
    }
    auto c = format[i++];
    switch (c) {
    case '%':
      out += '%';
      break;
    case 'd':
    case 'i':
      out += wide ? print(spec + "ll" + c, from.take<long long>())
                  : print(spec + c, from.take<int>());
      break;
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      out += wide ? print(spec + "ll" + c, from.take<unsigned long long>())
                  : print(spec + c, from.take<unsigned>());
      break;
    case 'c':
      out += print(spec + c, from.take<int>());
      break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      out += print(spec + c, from.take<double>());
      break;
    case 'p': {
      auto x = from.take<std::uint64_t>();
      out += print(spec + "s",
                   print("0x%llx", static_cast<unsigned long long>(x)).c_str());
      break;
    }
    case 's':
      out += print(spec + "s", read_string(from.take<std::uint64_t>()).c_str());
      break;
    default: // printed unchanged
      out += format.substr(begin, i - begin);
      break;
    }
  }
  if (from.ran_out())
    return std::nullopt;
  return out;
}

} // namespace vgpu::device::cpu
