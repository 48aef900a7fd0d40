// Pictures of the results of policies.
#include "policies/simulator/picture.hpp"
#include "policies/simulator/report.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

namespace vgpu::simulator {

namespace {

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

std::string time_axis(const time_unit& unit) {
  return std::string{"time, "} + unit.name;
}

using value_at = std::function<double(const levels&)>;

/// Draws a line over time for each policy.
void draw_lines(std::string& to, const panel& in, const time_unit& unit,
                std::span<const result_of_policy> rows, const value_at& value) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& over_time = rows[i].what.over_time;
    points through;
    auto middle = over_time.span() / 2;
    for (const auto& x : over_time.means()) {
      through.emplace_back(std::min(middle / unit.seconds, in.most_x),
                           value(x));
      middle += over_time.span();
    }
    draw_line(to, in, i, through);
  }
}

/// Draws three groups of bars: mean, 95th and 99th percentile.
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

/// Returns the largest value, or 1 if that is not above 0.
double most_of(std::span<const result_of_policy> rows,
               const std::function<double(const outcome&)>& value) {
  auto out = 0.0;
  for (const auto& x : rows)
    out = std::max(out, value(x.what));
  return out > 0 ? out : 1;
}

} // namespace

std::string svg_of(const setting& all, std::span<const result_of_policy> rows) {
  std::string out;
  auto pitch = panel_height + between_panels;
  draw_head(out, 3,
            std::to_string(all.vgpus) + " vGPUs on " +
                std::to_string(all.cluster.nodes) + " nodes of " +
                std::to_string(all.cluster.gpus_per_node) + " GPUs");
  std::vector<std::string> names;
  for (const auto& x : rows)
    names.push_back(name_of(x));
  draw_legend(out, names);
  auto ended = most_of(rows, [](const auto& x) { return x.ended; });
  auto unit = unit_for(ended);
  auto pgpus =
      static_cast<double>(all.cluster.nodes) * all.cluster.gpus_per_node;

  panel used{top_margin, ended / unit.seconds, 100};
  draw_frame(out, used, "Compute in use", "% of all GPUs");
  draw_x_axis(out, used, time_axis(unit));
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
  draw_x_axis(out, queue, time_axis(unit));
  draw_lines(out, queue, unit, rows, [](const auto& x) { return x.queue; });

  auto most = most_of(rows, [](const auto& x) { return x.waiting.p99; });
  auto wait_unit = unit_for(most);
  panel waits{top_margin + 2 * pitch, 1, most / wait_unit.seconds * 1.12};
  draw_frame(out, waits, "How long a vGPU waits for a place", wait_unit.name);
  draw_bars(out, waits, wait_unit, rows);
  return out + "</svg>\n";
}

} // namespace vgpu::simulator
