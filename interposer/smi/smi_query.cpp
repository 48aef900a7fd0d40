#include "interposer/smi/smi_query.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <span>

namespace vgpu::smi {

namespace {

/// Holds the vGPU and the process that fields describe. `process` may be null.
struct row {
  const snapshot& all;
  const gpu& on;
  const gpu_process* process = nullptr;
};

/// Describes a column: its name in queries, another name for it, the name in
/// the header where that differs, and the unit. An empty text means an unknown
/// value.
struct field {
  const char* name;
  const char* also;
  const char* shown;
  const char* unit;
  std::function<std::string(const row&)> text;
};

template <class T>
std::string text(const std::optional<T>& x) {
  return x ? std::to_string(*x) : std::string{};
}

std::string get_nothing(const row&) {
  return {};
}

std::string get_now(const row&) {
  using namespace std::chrono;
  auto at = system_clock::now();
  auto seconds = system_clock::to_time_t(at);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char out[64];
  auto n = std::strftime(out, sizeof out, "%Y/%m/%d %H:%M:%S", &parts);
  auto ms = duration_cast<milliseconds>(at.time_since_epoch()).count() % 1000;
  std::snprintf(out + n, sizeof out - n, ".%03d", static_cast<int>(ms));
  return out;
}

std::string get_uuid(const row& x) {
  return x.on.uuid;
}
std::string get_name(const row& x) {
  return x.on.name;
}
std::string get_place(const row& x) {
  return x.on.bus_id;
}
std::string get_count(const row& x) {
  return std::to_string(x.all.gpus.size());
}

std::span<const field> gpu_fields() {
  static const std::vector<field> all = {
      {"timestamp", "", nullptr, "", get_now},
      {"driver_version", "", nullptr, "",
       [](const row& x) { return x.all.driver_version; }},
      {"count", "", nullptr, "", get_count},
      {"index", "", nullptr, "",
       [](const row& x) { return std::to_string(x.on.index); }},
      {"name", "gpu_name", nullptr, "", get_name},
      {"uuid", "gpu_uuid", nullptr, "", get_uuid},
      {"pci.bus_id", "gpu_bus_id", nullptr, "", get_place},
      {"compute_cap", "", nullptr, "",
       [](const row& x) {
         return std::to_string(x.on.major) + "." + std::to_string(x.on.minor);
       }},
      {"memory.total", "", nullptr, "MiB",
       [](const row& x) { return std::to_string(mib(x.on.total_bytes)); }},
      {"memory.reserved", "", nullptr, "MiB", [](const row&) { return "0"; }},
      {"memory.used", "", nullptr, "MiB",
       [](const row& x) { return std::to_string(mib(x.on.used_bytes)); }},
      {"memory.free", "", nullptr, "MiB",
       [](const row& x) { return std::to_string(mib(x.on.free_bytes)); }},
      {"utilization.gpu", "", nullptr, "%",
       [](const row& x) { return text(x.on.busy_percent); }},
      {"utilization.memory", "", nullptr, "%", get_nothing},
      {"compute_mode", "", nullptr, "", [](const row&) { return "Default"; }},
      {"persistence_mode", "", nullptr, "",
       [](const row&) { return "Enabled"; }},
      {"clocks.max.sm", "clocks.max.graphics", nullptr, "MHz",
       [](const row& x) { return text(x.on.core_mhz_at_most); }},
      {"clocks.max.memory", "clocks.max.mem", nullptr, "MHz",
       [](const row& x) { return text(x.on.memory_mhz_at_most); }},
      // The fields below belong to the board, not to a vGPU.
      {"temperature.gpu", "", nullptr, "", get_nothing},
      {"temperature.memory", "", nullptr, "", get_nothing},
      {"power.draw", "", nullptr, "W", get_nothing},
      {"power.limit", "", nullptr, "W", get_nothing},
      {"fan.speed", "", nullptr, "%", get_nothing},
      {"pstate", "", nullptr, "", get_nothing},
      {"clocks.sm", "clocks.current.sm", "clocks.current.sm", "MHz",
       get_nothing},
      {"clocks.gr", "clocks.current.graphics", "clocks.current.graphics", "MHz",
       get_nothing},
      {"clocks.mem", "clocks.current.memory", "clocks.current.memory", "MHz",
       get_nothing},
      {"ecc.mode.current", "", nullptr, "", get_nothing},
      {"mig.mode.current", "", nullptr, "", get_nothing},
      {"serial", "gpu_serial", nullptr, "", get_nothing},
      {"vbios_version", "", nullptr, "", get_nothing},
      {"display_mode", "", nullptr, "", [](const row&) { return "Disabled"; }},
      {"display_active", "", nullptr, "",
       [](const row&) { return "Disabled"; }},
  };
  return all;
}

std::span<const field> process_fields() {
  static const std::vector<field> all = {
      {"timestamp", "", nullptr, "", get_now},
      {"gpu_name", "", nullptr, "", get_name},
      {"gpu_bus_id", "", nullptr, "", get_place},
      {"gpu_uuid", "", nullptr, "", get_uuid},
      {"pid", "", nullptr, "",
       [](const row& x) { return std::to_string(x.process->pid); }},
      {"process_name", "name", nullptr, "",
       [](const row& x) { return x.process->name; }},
      {"used_memory", "used_gpu_memory", "used_gpu_memory", "MiB",
       [](const row& x) { return std::to_string(mib(x.process->used_bytes)); }},
  };
  return all;
}

using columns = std::vector<const field*>;

std::variant<columns, failure> find(const std::string& list,
                                    std::span<const field> among) {
  columns out;
  for (const auto& name : split(list)) {
    auto found = std::find_if(among.begin(), among.end(), [&](const field& x) {
      return name == x.name || (!name.empty() && name == x.also);
    });
    if (found == among.end())
      return failure{"Field \"" + name +
                         "\" is not a valid field to query; see "
                         "nvidia-smi --help for those that are",
                     wrong_usage};
    out.push_back(&*found);
  }
  return out;
}

std::string header_of(const columns& of) {
  std::string out;
  for (const auto* x : of) {
    out += out.empty() ? "" : ", ";
    out += x->shown != nullptr ? x->shown : x->name;
    if (*x->unit != '\0')
      out += std::string{" ["} + x->unit + "]";
  }
  return out + "\n";
}

std::string line_of(const columns& of, const row& from, csv_format format) {
  std::string out;
  for (const auto* x : of) {
    auto value = x->text(from);
    out += x == of.front() ? "" : ", ";
    out += value.empty() ? not_known : value;
    if (!value.empty() && format.units && *x->unit != '\0')
      out += std::string{" "} + x->unit;
  }
  return out + "\n";
}

std::string names_of(std::span<const field> all) {
  std::string out;
  for (const auto& x : all)
    out += (out.empty() ? "" : ", ") + std::string{x.name};
  return out;
}

} // namespace

std::vector<std::string> split(const std::string& list) {
  constexpr auto blanks = " \t";
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= list.size();) {
    auto end = std::min(list.find(',', begin), list.size());
    auto piece = list.substr(begin, end - begin);
    auto first = piece.find_first_not_of(blanks);
    out.push_back(
        first == std::string::npos
            ? ""
            : piece.substr(first, piece.find_last_not_of(blanks) - first + 1));
    begin = end + 1;
  }
  return out;
}

std::variant<csv_format, failure> parse_format(const std::string& list) {
  constexpr auto how = "write --format=csv[,noheader][,nounits]";
  if (list.empty())
    return failure{std::string{"a query needs a format: "} + how, wrong_usage};
  csv_format out;
  auto is_csv = false;
  for (const auto& x : split(list)) {
    if (x == "csv")
      is_csv = true;
    else if (x == "noheader")
      out.header = false;
    else if (x == "nounits")
      out.units = false;
    else
      return failure{"--format: '" + x +
                         "' is none of csv, noheader and nounits; " + how,
                     wrong_usage};
  }
  if (!is_csv)
    return failure{std::string{"--format: csv is the only one there is; "} +
                       how,
                   wrong_usage};
  return out;
}

std::variant<std::string, failure>
query_gpus(const std::string& fields, const snapshot& of, csv_format format) {
  auto found = find(fields, gpu_fields());
  if (auto* why = std::get_if<failure>(&found))
    return *why;
  const auto& wanted = std::get<columns>(found);
  auto out = format.header ? header_of(wanted) : std::string{};
  for (const auto& x : of.gpus)
    out += line_of(wanted, {of, x}, format);
  return out;
}

std::variant<std::string, failure> query_processes(const std::string& fields,
                                                   const snapshot& of,
                                                   csv_format format) {
  auto found = find(fields, process_fields());
  if (auto* why = std::get_if<failure>(&found))
    return *why;
  const auto& wanted = std::get<columns>(found);
  auto out = format.header ? header_of(wanted) : std::string{};
  for (const auto& x : of.gpus)
    for (const auto& process : x.processes)
      out += line_of(wanted, {of, x, &process}, format);
  return out;
}

std::string gpu_field_names() {
  return names_of(gpu_fields());
}

std::string process_field_names() {
  return names_of(process_fields());
}

} // namespace vgpu::smi
