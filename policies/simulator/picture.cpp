#include "policies/simulator/picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace vgpu::simulator {

namespace {

/// The colours can also be distinguished by colour-blind readers (Okabe and
/// Ito).
constexpr std::array<const char*, 7> colours{"#0072b2", "#d55e00", "#009e73",
                                             "#cc79a7", "#e69f00", "#56b4e9",
                                             "#000000"};
/// Dashes distinguish lines that coincide.
constexpr std::array<const char*, 3> dashes{"none", "7 4", "2 3"};

/// Returns a round number, about a fifth of the range.
double tick_step(double range) {
  auto power = std::pow(10.0, std::floor(std::log10(range / 5)));
  for (auto times : {1.0, 2.0, 5.0, 10.0})
    if (range / (times * power) <= 6)
      return times * power;
  return 10 * power;
}

} // namespace

void append(std::string& to, const char* form, ...) {
  char out[512];
  va_list values;
  va_start(values, form);
  std::vsnprintf(out, sizeof out, form, values);
  va_end(values);
  to += out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (auto c : text)
    if (c == '<' || c == '>' || c == '&' || c == '"')
      out += "&#" + std::to_string(static_cast<int>(c)) + ";";
    else
      out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  return out;
}

const char* colour_of(std::size_t i) {
  return colours[i % colours.size()];
}

const char* dashes_of(std::size_t i) {
  return dashes[i % dashes.size()];
}

void draw_head(std::string& to, std::size_t panels, const std::string& title) {
  constexpr const char* head =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n"
      "<style>.grid{stroke:#ddd}.tick{stroke:#444}.axis{fill:#444}"
      ".title{font-weight:bold;font-size:15px}.value{font-size:11px}</style>\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text class=\"title\" x=\"%.0f\" y=\"26\">";
  auto pitch = panel_height + between_panels;
  append(to, head, picture_width,
         top_margin + static_cast<double>(panels) * pitch - 20, left_margin);
  to += escaped(title) + "</text>\n";
}

void draw_legend(std::string& to, std::span<const std::string> names) {
  auto at = left_margin;
  for (std::size_t i = 0; i < names.size(); ++i) {
    append(to,
           "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"48\" y2=\"48\" stroke=\"%s\" "
           "stroke-width=\"4\" stroke-dasharray=\"%s\"/>\n",
           at, at + 28, colour_of(i), dashes_of(i));
    append(to, "<text x=\"%.1f\" y=\"52\">", at + 36);
    to += escaped(names[i]) + "</text>\n";
    constexpr double of_a_letter = 7.5;
    at += 60 + of_a_letter * static_cast<double>(names[i].size());
  }
}

void draw_frame(std::string& to, const panel& in, const std::string& title,
                const std::string& y_axis) {
  append(to,
         "<text class=\"title\" x=\"%.1f\" y=\"%.1f\">%s</text>\n"
         "<text class=\"axis\" text-anchor=\"middle\" transform=\"translate("
         "20 %.1f) rotate(-90)\">%s</text>\n",
         left_margin, in.top - 12, escaped(title).c_str(),
         in.top + panel_height / 2, escaped(y_axis).c_str());
  auto step = tick_step(in.most_y);
  for (auto i = 0; i * step <= in.most_y * 1.0001; ++i)
    append(to,
           "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
           "y2=\"%.1f\"/>\n<text text-anchor=\"end\" x=\"%.1f\" "
           "y=\"%.1f\">%g</text>\n",
           left_margin, picture_width - right_margin, in.y(i * step),
           in.y(i * step), left_margin - 8, in.y(i * step) + 4, i * step);
}

void draw_x_axis(std::string& to, const panel& in, const std::string& name) {
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
         "y=\"%.1f\">%s</text>\n",
         left_margin + in.width() / 2, bottom + 38, escaped(name).c_str());
}

void draw_line(std::string& to, const panel& in, std::size_t i,
               const points& through) {
  append(to,
         "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" "
         "stroke-dasharray=\"%s\" points=\"",
         colour_of(i), dashes_of(i));
  for (auto [x, y] : through)
    append(to, "%.1f,%.1f ", in.x(x), in.y(y));
  to += "\"/>\n";
}

std::string svg_of_lines(const std::string& title, const std::string& x_axis,
                         const std::string& y_axis,
                         std::span<const named_points> lines) {
  panel all{top_margin, 0, 0};
  std::vector<std::string> names;
  for (const auto& line : lines) {
    names.push_back(line.name);
    for (auto [x, y] : line.through) {
      all.most_x = std::max(all.most_x, x);
      all.most_y = std::max(all.most_y, y);
    }
  }
  all.most_x = all.most_x > 0 ? all.most_x : 1;
  all.most_y = all.most_y > 0 ? all.most_y * 1.05 : 1;
  std::string out;
  draw_head(out, 1, title);
  draw_legend(out, names);
  draw_frame(out, all, "", y_axis);
  draw_x_axis(out, all, x_axis);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    draw_line(out, all, i, lines[i].through);
    for (auto [x, y] : lines[i].through)
      append(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n",
             all.x(x), all.y(y), colour_of(i));
  }
  return out + "</svg>\n";
}

} // namespace vgpu::simulator
