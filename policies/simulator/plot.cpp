// Pictures as SVG text. Nothing in Debian writes them from C++ without bringing
// a program along; three panels need not much.
#include "policies/simulator/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <functional>
#include <vector>

namespace vgpu::simulator {

namespace {

constexpr double picture_width = 960;
constexpr double panel_height = 200;
constexpr double left_margin = 80;
constexpr double right_margin = 24;
constexpr double top_margin = 84;
constexpr double between_panels = 74;

/// Told apart by those who see colours otherwise as well (Okabe and Ito).
constexpr std::array<const char*, 7> colours{"#0072b2", "#d55e00", "#009e73",
                                             "#cc79a7", "#e69f00", "#56b4e9",
                                             "#000000"};
/// And by their dashes, where lines lie on one another.
constexpr std::array<const char*, 3> dashes{"none", "7 4", "2 3"};

[[gnu::format(printf, 2, 3)]] void append(std::string& to, const char* form,
                                          ...) {
  char out[512];
  va_list values;
  va_start(values, form);
  std::vsnprintf(out, sizeof out, form, values);
  va_end(values);
  to += out;
}

/// Of any bytes, a text that an XML document may hold.
std::string escaped(const std::string& text) {
  std::string out;
  for (auto c : text)
    if (c == '<' || c == '>' || c == '&' || c == '"')
      out += "&#" + std::to_string(static_cast<int>(c)) + ";";
    else
      out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  return out;
}

/// A round number, about a fifth of the range.
double tick_step(double range) {
  auto power = std::pow(10.0, std::floor(std::log10(range / 5)));
  for (auto times : {1.0, 2.0, 5.0, 10.0})
    if (range / (times * power) <= 6)
      return times * power;
  return 10 * power;
}

struct time_unit {
  double seconds;
  const char* name;
};

time_unit unit_for(double seconds) {
  constexpr time_unit units[] = {
      {86'400, "days"}, {3'600, "hours"}, {60, "minutes"}};
  for (const auto& x : units)
    if (seconds >= 3 * x.seconds)
      return x;
  return {1, "seconds"};
}

/// A rectangle with axes, from 0 on both.
struct panel {
  double top = 0;
  double most_x = 1;
  double most_y = 1;

  double width() const { return picture_width - left_margin - right_margin; }
  double x(double value) const {
    return left_margin + value / most_x * width();
  }
  double y(double value) const {
    return top + panel_height * (1 - value / most_y);
  }
};

void draw_frame(std::string& to, const panel& in, const std::string& title,
                const std::string& y_axis) {
  append(to,
         "<text class=\"title\" x=\"%.1f\" y=\"%.1f\">%s</text>\n"
         "<text class=\"axis\" text-anchor=\"middle\" transform=\"translate("
         "20 %.1f) rotate(-90)\">%s</text>\n",
         left_margin, in.top - 12, title.c_str(), in.top + panel_height / 2,
         y_axis.c_str());
  auto step = tick_step(in.most_y);
  for (auto i = 0; i * step <= in.most_y * 1.0001; ++i)
    append(to,
           "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
           "y2=\"%.1f\"/>\n<text text-anchor=\"end\" x=\"%.1f\" "
           "y=\"%.1f\">%g</text>\n",
           left_margin, picture_width - right_margin, in.y(i * step),
           in.y(i * step), left_margin - 8, in.y(i * step) + 4, i * step);
}

void draw_time_axis(std::string& to, const panel& in, const time_unit& unit) {
  auto step = tick_step(in.most_x);
  auto bottom = in.top + panel_height;
  for (auto i = 0; i * step <= in.most_x * 1.0001; ++i)
    append(to,
           "<line class=\"tick\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
           "y2=\"%.1f\"/>\n<text text-anchor=\"middle\" x=\"%.1f\" "
           "y=\"%.1f\">%g</text>\n",
           in.x(i * step), in.x(i * step), bottom, bottom + 5, in.x(i * step),
           bottom + 20, i * step);
  append(to,
         "<text class=\"axis\" text-anchor=\"middle\" x=\"%.1f\" "
         "y=\"%.1f\">time, %s</text>\n",
         left_margin + in.width() / 2, bottom + 38, unit.name);
}

const char* colour_of(std::size_t i) {
  return colours[i % colours.size()];
}

using value_at = std::function<double(const levels&)>;

/// A line for each policy, over time.
void draw_lines(std::string& to, const panel& in, const time_unit& unit,
                std::span<const result_of_policy> rows, const value_at& value) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& over_time = rows[i].what.over_time;
    append(to,
           "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" "
           "stroke-dasharray=\"%s\" points=\"",
           colour_of(i), dashes[i % dashes.size()]);
    auto middle = over_time.span() / 2;
    for (const auto& x : over_time.means()) {
      append(to, "%.1f,%.1f ", in.x(std::min(middle / unit.seconds, in.most_x)),
             in.y(value(x)));
      middle += over_time.span();
    }
    to += "\"/>\n";
  }
}

/// Three groups of bars: mean, 95th and 99th percentile.
void draw_bars(std::string& to, const panel& in, const time_unit& unit,
               std::span<const result_of_policy> rows) {
  constexpr std::array<const char*, 3> names{"mean", "95th percentile",
                                             "99th percentile"};
  auto group = in.width() / names.size();
  auto bar = group * 0.7 / static_cast<double>(rows.size());
  auto bottom = in.top + panel_height;
  for (std::size_t g = 0; g < names.size(); ++g) {
    auto at = left_margin + group * (static_cast<double>(g) + 0.15);
    for (std::size_t i = 0; i < rows.size(); ++i, at += bar) {
      const auto& x = rows[i].what.waiting;
      auto value = std::array{x.mean, x.p95, x.p99}[g] / unit.seconds;
      append(to,
             "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
             "fill=\"%s\"/>\n<text class=\"value\" text-anchor=\"middle\" "
             "x=\"%.1f\" y=\"%.1f\">%.3g</text>\n",
             at, in.y(value), bar * 0.9, bottom - in.y(value), colour_of(i),
             at + bar * 0.45, in.y(value) - 4, value);
    }
    append(to, "<text text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
           left_margin + group * (static_cast<double>(g) + 0.5), bottom + 20,
           names[g]);
  }
}

void draw_legend(std::string& to, std::span<const result_of_policy> rows) {
  auto at = left_margin;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    append(to,
           "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"48\" y2=\"48\" stroke=\"%s\" "
           "stroke-width=\"4\" stroke-dasharray=\"%s\"/>\n",
           at, at + 28, colour_of(i), dashes[i % dashes.size()]);
    append(to, "<text x=\"%.1f\" y=\"52\">", at + 36);
    to += escaped(rows[i].name) + "</text>\n";
    constexpr double of_a_letter = 7.5;
    at += 60 + of_a_letter * static_cast<double>(rows[i].name.size());
  }
}

/// The largest of something, and never nothing.
double most_of(std::span<const result_of_policy> rows,
               const std::function<double(const outcome&)>& value) {
  auto out = 0.0;
  for (const auto& x : rows)
    out = std::max(out, value(x.what));
  return out > 0 ? out : 1;
}

constexpr const char* head =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
    "font-family=\"sans-serif\" font-size=\"13\">\n"
    "<style>.grid{stroke:#ddd}.tick{stroke:#444}.axis{fill:#444}"
    ".title{font-weight:bold;font-size:15px}.value{font-size:11px}</style>\n"
    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
    "<text class=\"title\" x=\"%.0f\" y=\"26\">%zu vGPUs on %zu nodes of %u "
    "GPUs</text>\n";

} // namespace

std::string svg_of(const setting& all, std::span<const result_of_policy> rows) {
  std::string out;
  auto pitch = panel_height + between_panels;
  append(out, head, picture_width, top_margin + 3 * pitch - 20, left_margin,
         all.vgpus, all.cluster.nodes, all.cluster.gpus_per_node);
  draw_legend(out, rows);
  auto ended = most_of(rows, [](const auto& x) { return x.ended; });
  auto unit = unit_for(ended);
  auto pgpus =
      static_cast<double>(all.cluster.nodes) * all.cluster.gpus_per_node;

  panel used{top_margin, ended / unit.seconds, 100};
  draw_frame(out, used, "Compute in use", "% of all GPUs");
  draw_time_axis(out, used, unit);
  draw_lines(out, used, unit, rows, [&](const auto& x) {
    return 100 * std::min(x.busy / pgpus, 1.0);
  });

  auto longest = most_of(rows, [](const auto& x) {
    auto out_of = 0.0;
    for (const auto& each : x.over_time.means())
      out_of = std::max(out_of, each.queue);
    return out_of;
  });
  panel queue{top_margin + pitch, ended / unit.seconds, longest * 1.05};
  draw_frame(out, queue, "Waiting for a place", "vGPUs");
  draw_time_axis(out, queue, unit);
  draw_lines(out, queue, unit, rows, [](const auto& x) { return x.queue; });

  auto most = most_of(rows, [](const auto& x) { return x.waiting.p99; });
  auto wait_unit = unit_for(most);
  panel waits{top_margin + 2 * pitch, 1, most / wait_unit.seconds * 1.12};
  draw_frame(out, waits, "How long a vGPU waits for a place", wait_unit.name);
  draw_bars(out, waits, wait_unit, rows);
  return out + "</svg>\n";
}

} // namespace vgpu::simulator
