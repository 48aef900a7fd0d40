#include "policies/simulator/trace.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <istream>
#include <ostream>
#include <span>
#include <streambuf>

namespace vgpu::simulator {

using nlohmann::json;

namespace {

constexpr std::size_t longest_line = 64 * 1024;
constexpr std::size_t most_phases = 1'000;
constexpr std::size_t longest_host = 200;
constexpr double longest_time = 1e9; // thirty years
constexpr double shortest_time = 1e-3;

fault wrong(std::string what) {
  return {fault_kind::corrupt, std::move(what)};
}

/// Returns a value as an error shows it.
std::string shown(const json& x) {
  auto text = x.dump(-1, ' ', true, json::error_handler_t::replace);
  constexpr std::size_t longest = 60;
  return text.size() <= longest ? text : text.substr(0, longest) + "...";
}

/// Sets a number, which must be in its range.
status read_number(const json& from, const char* name, double least,
                   double most, const char* range, double& to) {
  auto number = from.is_number() ? from.get<double>() : -1;
  if (!from.is_number() || !(number >= least && number <= most))
    return wrong(std::string{name} + " " + shown(from) + ": give " + range);
  to = number;
  return {};
}

status read_at(const json& from, arrival& to) {
  return read_number(from, "at", 0, longest_time, "seconds from 0 to 1e9",
                     to.at);
}

status read_runs(const json& from, arrival& to) {
  return read_number(from, "runs", shortest_time, longest_time,
                     "seconds from 0.001 to 1e9", to.runs);
}

status read_load(const json& from, arrival& to) {
  constexpr double least = 1e-6;
  return read_number(from, "load", least, 1, "more than 0 and at most 1",
                     to.load);
}

status read_host(const json& from, arrival& to) {
  if (!from.is_string() ||
      from.get_ref<const std::string&>().size() > longest_host)
    return wrong("host " + shown(from) + ": give a name of at most 200 bytes");
  to.host = from.get<std::string>();
  return {};
}

status read_idle(const json& from, arrival& to) {
  auto good = from.is_array() && from.size() <= most_phases;
  to.idle.clear();
  for (const auto& x : good ? from : json::array()) {
    idle_phase phase;
    good =
        good && x.is_array() && x.size() == 2 &&
        read_number(x[0], "idle", 0, longest_time, "", phase.after) &&
        read_number(x[1], "idle", shortest_time, longest_time, "", phase.lasts);
    to.idle.push_back(phase);
  }
  if (!good)
    return wrong(
        "idle " + shown(from) +
        ": give a list of at most 1000 pairs [seconds of work, seconds "
        "without a call]");
  return {};
}

/// Describes a field of a trace that is not a field of a specification.
struct trace_field {
  const char* name;
  status (*read)(const json& from, arrival& to);
};
constexpr trace_field own_fields[] = {{"at", read_at},
                                      {"runs", read_runs},
                                      {"load", read_load},
                                      {"host", read_host},
                                      {"idle", read_idle}};

status read_field(const std::string& name, const json& value, arrival& to) {
  for (const auto& x : own_fields)
    if (name == x.name)
      return x.read(value, to);
  auto text = value.is_string() ? value.get<std::string>() : shown(value);
  auto good = control::set_field(to.constraints, name, text);
  if (good || good.why().what.find("has no field") == std::string::npos)
    return good;
  std::string own;
  for (const auto& x : own_fields)
    own += std::string{own.empty() ? "" : ", "} + x.name;
  return wrong(good.why().what + "; a trace has also " + own);
}

/// Checks that the idle phases lie within the run time.
status check_phases(const arrival& x) {
  auto work = 0.0;
  for (const auto& phase : x.idle)
    work += phase.after;
  if (work > x.runs)
    return wrong("idle: the phases begin after " + std::to_string(work) +
                 " s of work, but the vGPU runs for " + std::to_string(x.runs) +
                 " s");
  return {};
}

status read_arrival(const std::string& line, arrival& to) {
  auto parsed = json::parse(line, nullptr, false);
  if (parsed.is_discarded() || !parsed.is_object())
    return wrong("not a JSON object; give for example {\"at\": 0, \"runs\": "
                 "60, \"share\": 0.5}");
  for (const auto* needed : {"at", "runs"})
    if (!parsed.contains(needed))
      return wrong(
          std::string{"it has no \""} + needed +
          "\"; give the arrival (at) and the run time (runs) in seconds");
  for (const auto& [name, value] : parsed.items())
    if (auto good = read_field(name, value, to); !good)
      return good;
  return check_phases(to);
}

enum class line_end { good, none, too_long };

line_end read_line(std::streambuf& from, std::string& to) {
  using traits = std::streambuf::traits_type;
  to.clear();
  auto c = from.sbumpc();
  if (traits::eq_int_type(c, traits::eof()))
    return line_end::none;
  for (; !traits::eq_int_type(c, traits::eof()) && c != '\n';
       c = from.sbumpc()) {
    if (to.size() == longest_line)
      return line_end::too_long;
    to += traits::to_char_type(c);
  }
  return line_end::good;
}

bool says_nothing(const std::string& line) {
  auto first = line.find_first_not_of(" \t\r");
  return first == std::string::npos || line[first] == '#';
}

} // namespace

result<std::vector<arrival>> read_trace(std::istream& from,
                                        const std::string& name) {
  std::vector<arrival> out;
  std::string line;
  for (std::size_t number = 1;; ++number) {
    auto fail = [&](const std::string& why) {
      return wrong(name + ", line " + std::to_string(number) + ": " + why);
    };
    auto end = read_line(*from.rdbuf(), line);
    if (end == line_end::none)
      break;
    if (end == line_end::too_long)
      return fail("it is longer than " + std::to_string(longest_line) +
                  " bytes");
    if (says_nothing(line))
      continue;
    if (out.size() == most_arrivals)
      return fail("a trace has at most " + std::to_string(most_arrivals) +
                  " vGPUs");
    if (auto good = read_arrival(line, out.emplace_back()); !good)
      return fail(good.why().what);
  }
  if (out.empty())
    return wrong(name + ": it contains no vGPU");
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
  return out;
}

void write_trace(std::ostream& to, const std::vector<arrival>& all) {
  const control::specification usual;
  for (const auto& x : all) {
    nlohmann::ordered_json line{{"at", x.at}, {"runs", x.runs}};
    if (x.load != 1)
      line["load"] = x.load;
    for (const auto& field : control::specification_fields())
      if (auto text = field.get(x.constraints); text != field.get(usual))
        line[field.name] = text;
    if (!x.host.empty())
      line["host"] = x.host;
    for (const auto& phase : x.idle)
      line["idle"].push_back({phase.after, phase.lasts});
    to << line.dump() << '\n';
  }
}

} // namespace vgpu::simulator
