// `vgpu usage`: shows the accounts.
#include "actors/link/printable.hpp"
#include "actors/records/checked_json.hpp"
#include "actors/records/records_json.hpp"
#include "nodes/cli/command_client.hpp"
#include "nodes/cli/past_time.hpp"
#include "nodes/cli/text_table.hpp"
#include "nodes/cli/vgpu_commands.hpp"
#include "schema/base/sizes.hpp"

#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>

namespace vgpu::command {

using nlohmann::json;

namespace {

constexpr const char* usage_name = "usage";

struct usage_options {
  target where;
  std::string since;
  std::string by = "vgpu";
  bool as_json = false;
  bool as_csv = false;
};

// -- output -------------------------------------------------------------------

/// Returns the columns that name an entry, in their order.
std::vector<std::string> names_of(const std::string& by) {
  if (by == "vgpu")
    return {"vgpu", "vm", "user", "program"};
  return {by};
}

/// Returns a field of CSV (RFC 4180), quoted where necessary.
std::string csv(const std::string& x) {
  if (x.find_first_of(",\"\r\n") == std::string::npos)
    return x;
  std::string out = "\"";
  for (auto c : x) {
    out += c;
    if (c == '"')
      out += c;
  }
  return out + "\"";
}

constexpr const char* numbers[] = {"device_seconds",  "replay_seconds",
                                   "bytes_to_device", "bytes_from_device",
                                   "bytes_replayed",  "memory_mib_seconds"};

void print_csv(const json& all, const std::string& by) {
  std::string head;
  for (const auto& name : names_of(by))
    head += name + ",";
  for (const auto* name : numbers)
    head += std::string{name} + ",";
  head.pop_back();
  std::cout << head << "\n";
  for (const auto& entry : all.at("entries")) {
    std::string line;
    for (const auto& name : names_of(by))
      line += csv(shown(text_of(entry.at(name)))) + ",";
    for (const auto* name : numbers)
      line += entry.at(name).dump() + ",";
    line.pop_back();
    std::cout << line << "\n";
  }
}

std::string seconds(const json& x) {
  char out[32];
  std::snprintf(out, sizeof out, "%.3f", x.get<double>());
  return out;
}

void print_table(const json& all, const std::string& by) {
  auto names = names_of(by);
  std::vector<std::vector<std::string>> rows{names};
  for (const auto* title : {"GPU s", "again s", "to GPU", "from GPU", "MiB s"})
    rows[0].emplace_back(title);
  for (const auto& entry : all.at("entries")) {
    auto& row = rows.emplace_back();
    for (const auto& name : names)
      // A row that folds several sessions has no number.
      row.push_back(entry.at(name) == 0u ? "-"
                                         : shown(text_of(entry.at(name))));
    row.push_back(seconds(entry.at("device_seconds")));
    row.push_back(seconds(entry.at("replay_seconds")));
    row.push_back(show_size(entry.at("bytes_to_device")));
    row.push_back(show_size(entry.at("bytes_from_device")));
    row.push_back(seconds(entry.at("memory_mib_seconds")));
  }
  print_rows(rows, names.size());
}

int usage(const usage_options& x) {
  auto since = read_since(x.since);
  if (!since)
    return complain(usage_name, since.why().what, wrong_usage);
  auto manager = command_client::connect(x.where.endpoint(), patience);
  if (!manager)
    return complain(usage_name, manager.why());
  auto got = (*manager)->ask(control::usage_request{*since, x.by}, patience);
  if (!got)
    return complain(usage_name, got.why());
  const auto& answer = std::get<control::status_text>(*got).json;
  if (x.as_json)
    std::cout << answer << "\n";
  else if (x.as_csv)
    print_csv(parse_json(answer), x.by);
  else
    print_table(parse_json(answer), x.by);
  std::cout.flush();
  return succeeded;
}

} // namespace

void add_usage_command(CLI::App& app, job& todo) {
  auto x = std::make_shared<usage_options>();
  auto* sub = app.add_subcommand(
      "usage", "Shows GPU usage by VM, user, program or vGPU: device time, "
               "bytes copied, and memory over time.");
  sub->add_option(
      "--since", x->since,
      "how long ago, such as 90s, 15m, 2h or 7d, or a time, such as 2026-01-31 "
      "or '2026-01-31 18:30' (default: from the beginning)");
  sub->add_option("--by", x->by, "vm, user, program, tenant or vgpu")
      ->check(CLI::IsMember({"vm", "user", "program", "tenant", "vgpu"}))
      ->capture_default_str();
  auto* as_json = sub->add_flag("--json", x->as_json, "print JSON");
  sub->add_flag("--csv", x->as_csv, "print CSV, for spreadsheets")
      ->excludes(as_json);
  x->where.add_to(*sub);
  sub->footer("GPU s is device time. Work that a recovery or a migration "
              "repeats is not\n"
              "charged; its time is under `again s`. Usage is kept by the "
              "minute at first,\n"
              "then by the hour, then as totals by VM, user and program.\n"
              "Examples:\n"
              "  vgpu usage\n"
              "  vgpu usage --since 2h --by user\n"
              "  vgpu usage --since 2026-01-31 --by vm --csv > january.csv\n"
              "  vgpu usage --json | jq '.entries[].device_seconds'");
  sub->callback([x, &todo] { todo = [x] { return usage(*x); }; });
}

} // namespace vgpu::command
