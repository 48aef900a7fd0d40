// Draws a measurement: reads {"title", "x", "y", "lines": [{"name", "points":
// [[x, y], ...]}, ...]} as JSON and writes an SVG picture.
#include "policies/simulator/picture.hpp"

#include <nlohmann/json.hpp>

#include <exception>
#include <iostream>

int main() {
  using namespace vgpu::simulator;
  try {
    auto what = nlohmann::json::parse(std::cin);
    std::vector<named_points> lines;
    for (const auto& x : what.at("lines"))
      lines.push_back({x.at("name"), x.at("points").get<points>()});
    std::cout << svg_of_lines(what.at("title"), what.at("x"), what.at("y"),
                              lines);
    return std::cout.flush() ? 0 : 1;
  } catch (const std::exception& x) {
    std::cerr << "plot_lines: standard input is no measurement: " << x.what()
              << '\n';
    return 2;
  }
}
