// Pictures as SVG text: panels with axes, lines, a legend. Nothing in Debian
// writes them from C++ without bringing a program along, and this is not much.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vgpu::simulator {

inline constexpr double picture_width = 960;
inline constexpr double panel_height = 200;
inline constexpr double left_margin = 80;
inline constexpr double right_margin = 24;
inline constexpr double top_margin = 84;
inline constexpr double between_panels = 74;

/// Adds to a picture, as std::printf() would print it; at most 511 bytes.
[[gnu::format(printf, 2, 3)]] void append(std::string& to, const char* form,
                                          ...);

/// Of any bytes, a text that an XML document may hold.
std::string escaped(const std::string& text);

/// The colour of the i-th thing that is told apart.
const char* colour_of(std::size_t i);
/// And its dashes, where lines lie on one another.
const char* dashes_of(std::size_t i);

/// A rectangle with axes, from 0 on both, both ends above 0.
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

/// The beginning of a picture of so many panels, with its title.
void draw_head(std::string& to, std::size_t panels, const std::string& title);
/// What the i-th colour and dashes stand for.
void draw_legend(std::string& to, std::span<const std::string> names);
/// A panel's title, and its vertical axis with the grid.
void draw_frame(std::string& to, const panel& in, const std::string& title,
                const std::string& y_axis);
/// A panel's horizontal axis.
void draw_x_axis(std::string& to, const panel& in, const std::string& name);

/// Points (x, y) of a panel.
using points = std::vector<std::pair<double, double>>;
/// The i-th line through them.
void draw_line(std::string& to, const panel& in, std::size_t i,
               const points& through);

struct named_points {
  std::string name;
  points through;
};
/// A picture of one panel: a line, with its points marked, for each.
std::string svg_of_lines(const std::string& title, const std::string& x_axis,
                         const std::string& y_axis,
                         std::span<const named_points> lines);

} // namespace vgpu::simulator
