// Pictures as SVG text: panels with axes, lines and a legend.
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

/// Appends formatted text as std::printf() would print it, at most 511 bytes.
[[gnu::format(printf, 2, 3)]] void append(std::string& to, const char* form,
                                          ...);

/// Makes text for an XML document out of any bytes.
std::string escaped(const std::string& text);

/// Returns the colour of the i-th item.
const char* colour_of(std::size_t i);
/// Returns the dashes of the i-th item, which distinguish lines that coincide.
const char* dashes_of(std::size_t i);

/// Describes a rectangle with axes that begin at 0 and end above it.
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

/// Draws the beginning of a picture of so many panels, with its title.
void draw_head(std::string& to, std::size_t panels, const std::string& title);
/// Draws the legend of the colours and dashes.
void draw_legend(std::string& to, std::span<const std::string> names);
/// Draws a panel's title, and its vertical axis with the grid.
void draw_frame(std::string& to, const panel& in, const std::string& title,
                const std::string& y_axis);
/// Draws a panel's horizontal axis.
void draw_x_axis(std::string& to, const panel& in, const std::string& name);

/// Points (x, y) of a panel.
using points = std::vector<std::pair<double, double>>;
/// Draws the i-th line through these points.
void draw_line(std::string& to, const panel& in, std::size_t i,
               const points& through);

/// Holds a line with its name in the legend.
struct named_points {
  std::string name;
  points through;
};
/// Returns a picture of one panel with a line and marked points for each entry.
std::string svg_of_lines(const std::string& title, const std::string& x_axis,
                         const std::string& y_axis,
                         std::span<const named_points> lines);

} // namespace vgpu::simulator
