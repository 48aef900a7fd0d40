#include "nodes/cli/trace_events.hpp"

#include "schema/base/ids.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include <cxxabi.h>

namespace vgpu::command {

using nlohmann::json;

/// Holds the columns of an activity.
struct trace_line {
  std::string kind, grid, block, name;
  std::uint64_t correlation, device, context, stream, thread;
  std::uint64_t called, received, submitted, reached, began, ended;
  std::uint64_t result, waits_for, from, to, bytes, shared, registers;
};

namespace {

constexpr std::string_view magic = "vgpu-trace";
constexpr std::uint64_t version = 1;

/// Device tracks belong to processes of their own, with numbers that no process
/// of the system has.
constexpr std::uint64_t first_device = 1'000'000'000;
constexpr std::uint64_t devices_apart = 100;

/// Spans that are shorter are left out of the category `waiting`.
constexpr std::uint64_t shortest_ns = 100;

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> out;
  for (;;) {
    auto end = line.find('\t');
    out.push_back(line.substr(0, end));
    if (end == line.npos)
      return out;
    line.remove_prefix(end + 1);
  }
}

std::uint64_t number(std::string_view text) {
  std::uint64_t out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

std::string readable(std::string_view name) {
  auto mangled = std::string{name};
  auto code = 0;
  auto* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &code);
  if (text != nullptr)
    mangled = text;
  std::free(text); // NOLINT: the function's own memory
  return mangled;
}

constexpr std::size_t column_count = 22;

trace_line line_of(const std::vector<std::string_view>& x) {
  trace_line out{};
  out.kind = x[0];
  std::array<std::uint64_t*, 16> numbers = {
      &out.correlation, &out.device, &out.context,  &out.stream,
      &out.thread,      &out.called, &out.received, &out.submitted,
      &out.reached,     &out.began,  &out.ended,    &out.result,
      &out.waits_for,   &out.from,   &out.to,       &out.bytes};
  for (std::size_t i = 0; i < numbers.size(); ++i)
    *numbers[i] = number(x[i + 1]);
  out.grid = x[17];
  out.block = x[18];
  out.shared = number(x[19]);
  out.registers = number(x[20]);
  out.name = x[21];
  return out;
}

std::string copy_name(const trace_line& x) {
  constexpr std::array<const char*, 3> places = {"pageable", "pinned",
                                                 "device"};
  return std::string{"memcpy "} + places.at(std::min<std::size_t>(x.from, 2)) +
         " to " + places.at(std::min<std::size_t>(x.to, 2));
}

std::string wait_name(const trace_line& x) {
  constexpr std::array<const char*, 5> names = {
      "wait", "wait for event", "stream waits for event", "wait for stream",
      "wait for context"};
  return names.at(std::min<std::size_t>(x.waits_for, 4));
}

bool is_work(const trace_line& x) {
  return x.kind == "kernel" || x.kind == "copy" || x.kind == "memset";
}

} // namespace

struct trace_events::parts {
  struct process {
    std::uint64_t pid = 0;
    std::string program;
    std::vector<trace_line> lines;
  };
  std::vector<process> processes;
  trace_summary summary;

  json events = json::array();
  std::uint64_t first = 0;
  std::uint64_t last_id = 0;

  void count(const trace_line& x) {
    auto& s = summary;
    for (auto [kind, number] : {std::pair{"kernel", &s.kernels},
                                {"copy", &s.copies},
                                {"memset", &s.memsets},
                                {"wait", &s.waits},
                                {"call", &s.calls}})
      *number += x.kind == kind ? 1 : 0;
  }

  static double us_between(std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(to - std::min(from, to)) / 1000;
  }
  double us(std::uint64_t ns) const {
    return static_cast<double>(ns - std::min(ns, first)) / 1000;
  }
  void name_track(const char* what, std::uint64_t pid, std::uint64_t tid,
                  const std::string& name) {
    events.push_back({{"ph", "M"},
                      {"name", what},
                      {"pid", pid},
                      {"tid", tid},
                      {"args", {{"name", name}}}});
  }
  void span(const std::string& name, const char* category, std::uint64_t pid,
            std::uint64_t tid, std::uint64_t from, std::uint64_t to,
            json args) {
    events.push_back({{"ph", "X"},
                      {"name", name},
                      {"cat", category},
                      {"pid", pid},
                      {"tid", tid},
                      {"ts", us(from)},
                      {"dur", us_between(from, to)},
                      {"args", std::move(args)}});
  }
  /// Adds a span that may overlap others of its track.
  void waiting(const char* name, std::uint64_t pid, std::uint64_t tid,
               std::uint64_t from, std::uint64_t to, const trace_line& of) {
    if (from == 0 || to < from + shortest_ns)
      return;
    auto id = std::to_string(++last_id);
    for (auto [phase, at] : {std::pair{"b", from}, {"e", to}})
      events.push_back({{"ph", phase},
                        {"name", name},
                        {"cat", "waiting"},
                        {"id", id},
                        {"pid", pid},
                        {"tid", tid},
                        {"ts", us(at)},
                        {"args", {{"correlation", of.correlation}}}});
  }
  /// Draws an arrow from a call to its work.
  void arrow(const trace_line& call_and_work, std::uint64_t from_pid,
             std::uint64_t from_tid, std::uint64_t to_pid,
             std::uint64_t to_tid) {
    const auto& x = call_and_work;
    auto id = std::to_string(++last_id);
    events.push_back({{"ph", "s"},
                      {"name", "work"},
                      {"cat", "work"},
                      {"id", id},
                      {"pid", from_pid},
                      {"tid", from_tid},
                      {"ts", us(x.called)}});
    events.push_back({{"ph", "f"},
                      {"bp", "e"},
                      {"name", "work"},
                      {"cat", "work"},
                      {"id", id},
                      {"pid", to_pid},
                      {"tid", to_tid},
                      {"ts", us(x.began)}});
  }

  void add_work(const trace_line& x, std::uint64_t pid,
                std::uint64_t device_pid);
  void add_call(const trace_line& x, std::uint64_t pid);
  void add_process(const process& x, std::uint64_t index);
};

void trace_events::parts::add_work(const trace_line& x, std::uint64_t pid,
                                   std::uint64_t device_pid) {
  json args = {{"correlation", x.correlation}};
  std::string name = "memset";
  if (x.kind == "kernel") {
    name = readable(x.name);
    args.update({{"grid", x.grid},
                 {"block", x.block},
                 {"shared memory", x.shared},
                 {"registers per thread", x.registers}});
  } else {
    name = x.kind == "copy" ? copy_name(x) : name;
    args["bytes"] = x.bytes;
  }
  auto waited = x.submitted - std::min(x.submitted, x.received) + x.began -
                std::min(x.began, x.reached);
  args.update({{"transfer us", us_between(x.called, x.received)},
               {"waiting for share us", static_cast<double>(waited) / 1000},
               {"queueing us", us_between(x.submitted, x.reached)}});
  span(name, x.kind.c_str(), device_pid, x.stream, x.began, x.ended, args);
  waiting("transfer", device_pid, x.stream, x.called, x.received, x);
  waiting("waiting for share", device_pid, x.stream, x.received, x.submitted,
          x);
  waiting("queueing", device_pid, x.stream, x.submitted, x.reached, x);
  waiting("waiting for share", device_pid, x.stream, x.reached, x.began, x);
  if (x.thread != 0)
    arrow(x, pid, x.thread, device_pid, x.stream);
}

void trace_events::parts::add_call(const trace_line& x, std::uint64_t pid) {
  json args = {{"correlation", x.correlation}};
  if (x.kind == "call") {
    args["result"] = x.result;
    span(x.name, "call", pid, x.thread, x.began, x.ended, args);
    return;
  }
  // A wait lies within its call, which begins and ends at the same time.
  if (x.stream != std::numeric_limits<std::uint32_t>::max())
    args["stream"] = x.stream;
  span(wait_name(x), "wait", pid, x.thread, x.began, x.ended, args);
}

void trace_events::parts::add_process(const process& x, std::uint64_t index) {
  name_track("process_name", x.pid, 0, x.program);
  std::set<std::tuple<std::uint64_t, std::uint64_t>> streams;
  auto pid_of = [&](std::uint64_t device) {
    return first_device + index * devices_apart + device;
  };
  for (const auto& y : x.lines)
    if (is_work(y)) {
      streams.emplace(y.device, y.stream);
      add_work(y, x.pid, pid_of(y.device));
    } else {
      add_call(y, x.pid);
    }
  for (auto [device, stream] : streams) {
    name_track("process_name", pid_of(device), 0,
               "vGPU device " + std::to_string(device) + " of " + x.program);
    name_track("thread_name", pid_of(device), stream,
               stream == legacy_stream.value
                   ? "default stream"
                   : "stream " + std::to_string(stream));
  }
}

trace_events::trace_events() : parts_(std::make_unique<parts>()) {}

trace_events::~trace_events() = default;

vgpu::status trace_events::add(std::istream& from) {
  std::string text;
  for (auto any = false; std::getline(from, text); any = true) {
    if (from.eof())
      break;
    auto columns = columns_of(text);
    if (columns[0] == magic) {
      if (columns.size() < 4 || number(columns[1]) != version)
        return fault{fault_kind::corrupt,
                     "a trace of another version of vGPUs"};
      // A process may replace itself by another program.
      auto& made = parts_->processes.emplace_back();
      made.pid = number(columns[2]);
      made.program = std::string{columns[3]}.substr(columns[3].rfind('/') + 1);
      continue;
    }
    if (!any && parts_->processes.empty())
      return fault{fault_kind::corrupt, "not a trace of vGPUs"};
    if (columns[0] == "dropped" && columns.size() == 2)
      parts_->summary.dropped += number(columns[1]);
    else if (columns.size() == column_count)
      parts_->processes.back().lines.push_back(line_of(columns));
  }
  return {};
}

trace_summary trace_events::write(std::ostream& to) const {
  auto& p = *parts_;
  p.summary.processes = p.processes.size();
  auto first = std::numeric_limits<std::uint64_t>::max();
  for (const auto& x : p.processes)
    for (const auto& y : x.lines) {
      p.count(y);
      if (y.called != 0)
        first = std::min(first, y.called);
    }
  p.first = first;
  for (std::size_t i = 0; i < p.processes.size(); ++i)
    p.add_process(p.processes[i], i);
  json all = {
      {"traceEvents", std::move(p.events)},
      {"displayTimeUnit", "ns"},
      {"otherData",
       {{"made by", "vgpu trace"}, {"dropped activities", p.summary.dropped}}}};
  if (!p.processes.empty() &&
      first != std::numeric_limits<std::uint64_t>::max())
    all["otherData"]["ns since the epoch at 0"] = std::to_string(first);
  p.events = json::array();
  to << all.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
  return p.summary;
}

} // namespace vgpu::command
