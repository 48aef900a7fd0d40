// The video instructions, in their scalar and SIMD forms.
#include "devices/cpu/lower/function_lowering.hpp"
#include "devices/cpu/lower/video_op.hpp"

#include <algorithm>

namespace vgpu::device::cpu {

namespace {

constexpr std::pair<std::string_view, video_op> op_names[] = {
    {"vadd", video_op::add},          {"vsub", video_op::sub},
    {"vabsdiff", video_op::abs_diff}, {"vmin", video_op::min},
    {"vmax", video_op::max},          {"vavrg", video_op::average},
    {"vshl", video_op::shift_left},   {"vshr", video_op::shift_right},
    {"vmad", video_op::multiply_add}, {"vset", video_op::set},
};

constexpr std::string_view tests[] = {"eq", "ne", "lt", "le", "gt", "ge"};

/// Returns the operation, and the number of parts that it works on.
std::optional<std::pair<video_op, std::uint8_t>>
video_named(std::string_view name) {
  auto parts = std::uint8_t{1};
  if (name.ends_with('2') || name.ends_with('4')) {
    parts = static_cast<std::uint8_t>(name.back() - '0');
    name.remove_suffix(1);
  }
  for (auto& [known, op] : op_names)
    if (known == name)
      return std::pair{op, parts};
  return std::nullopt;
}

/// Returns the code of b0 to b3, h0 or h1: see video_form::a_from.
std::optional<std::uint16_t> one_part(std::string_view x) {
  if (x.empty())
    return std::uint16_t{0};
  if (x.size() != 2 || x[1] < '0')
    return std::nullopt;
  auto n = static_cast<std::uint16_t>(x[1] - '0');
  if (x[0] == 'b' && n < 4)
    return static_cast<std::uint16_t>(1 + n);
  if (x[0] == 'h' && n < 2)
    return static_cast<std::uint16_t>(5 + n);
  return std::nullopt;
}

/// Returns where each part comes from, for selections such as h10 and b7654,
/// highest first.
std::optional<std::uint16_t> parts_from(std::string_view x, unsigned parts,
                                        unsigned first) {
  auto out = 0u;
  if (x.empty()) {
    for (auto i = 0u; i < parts; ++i)
      out |= (first + i) << (4 * i);
    return static_cast<std::uint16_t>(out);
  }
  if (x.size() != parts + 1 || x[0] != (parts == 2 ? 'h' : 'b'))
    return std::nullopt;
  for (auto i = 0u; i < parts; ++i) {
    auto n = static_cast<unsigned>(x[parts - i] - '0');
    if (n >= 2 * parts)
      return std::nullopt;
    out |= n << (4 * i);
  }
  return static_cast<std::uint16_t>(out);
}

/// Returns which parts are written, for masks such as h1 and b20.
std::optional<std::uint8_t> parts_written(std::string_view x, unsigned parts) {
  auto out = 0u;
  if (x.empty())
    return static_cast<std::uint8_t>((1u << parts) - 1);
  if (x.size() < 2 || x[0] != (parts == 2 ? 'h' : 'b'))
    return std::nullopt;
  for (auto c : x.substr(1)) {
    auto n = static_cast<unsigned>(c - '0');
    if (n >= parts)
      return std::nullopt;
    out |= 1u << n;
  }
  return static_cast<std::uint8_t>(out);
}

} // namespace

bool function_lowering::video() {
  auto named = video_named(now_->name);
  if (!named)
    return false;
  auto f = video_form{};
  f.op = named->first;
  f.parts = named->second;
  auto shifts = f.op == video_op::shift_left || f.op == video_op::shift_right;
  auto sets = f.op == video_op::set;
  auto simd = f.parts != 1;
  if ((f.op == video_op::average && !simd) ||
      (simd && (shifts || f.op == video_op::multiply_add)))
    unsupported();
  auto types = std::vector<char>{};
  auto tested = false;
  for (auto& m : now_->modifiers) {
    auto test = std::find(std::begin(tests), std::end(tests), m);
    if (m == "u32" || m == "s32")
      types.push_back(m[0]);
    else if (m == "sat")
      f.saturate = true;
    else if (m == "add")
      f.second = video_second::add;
    else if ((m == "min" || m == "max") && !simd)
      f.second = m == "min" ? video_second::min : video_second::max;
    else if (sets && test != std::end(tests)) {
      f.test = video_test(test - std::begin(tests));
      tested = true;
    } else if (shifts && (m == "clamp" || m == "wrap"))
      f.wrap = m == "wrap";
    else if (f.op == video_op::multiply_add && m == "po")
      f.plus_one = true;
    else if (f.op == video_op::multiply_add && (m == "shr7" || m == "shr15"))
      f.shift = m == "shr7" ? 7 : 15;
    else
      unsupported();
  }
  if (types.size() != (sets ? 2u : 3u) || tested != sets)
    unsupported();
  auto at = types.begin();
  f.to_signed = !sets && *at++ == 's';
  f.a_signed = *at++ == 's';
  f.b_signed = *at == 's';
  auto& ops = now_->operands;
  if (ops.size() < 3 || ops.size() > 4)
    fail(now_->text() + " needs 3 or 4 operands");
  for (auto i = std::size_t{0}; i < ops.size(); ++i)
    if (!ops[i].name.empty() && (ops[i].is != kind::reg || i == 3))
      unsupported();
  auto a = simd ? parts_from(arg(1).name, f.parts, 0) : one_part(arg(1).name);
  auto b =
      simd ? parts_from(arg(2).name, f.parts, f.parts) : one_part(arg(2).name);
  auto to =
      simd ? parts_written(arg(0).name, f.parts)
           : std::optional<std::uint8_t>{one_part(arg(0).name).value_or(255)};
  if (!a || !b || !to || *to == 255)
    unsupported();
  f.a_from = *a;
  f.b_from = *b;
  f.to = *to;
  if (!simd && f.to != 0) {
    if (f.second != video_second::none)
      unsupported();
    f.second = video_second::merge;
  }
  auto wants_c =
      simd || f.second != video_second::none || f.op == video_op::multiply_add;
  need(wants_c ? 4 : 3);
  auto plain = [](op x) {
    x.name.clear();
    return x;
  };
  emit("video",
       {destination(plain(arg(0)), '4'), source(plain(arg(1)), '4'),
        source(plain(arg(2)), '4'),
        wants_c ? source(arg(3), '4') : constant('4', 0)},
       f.pack());
  return true;
}

} // namespace vgpu::device::cpu
