#include "interposer/smi/smi_report.hpp"

#include "interposer/smi/smi_query.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <ctime>

namespace vgpu::smi {

namespace {

__attribute__((format(printf, 1, 2))) std::string print(const char* form, ...) {
  char out[256];
  va_list arguments;
  va_start(arguments, form);
  std::vsnprintf(out, sizeof out, form, arguments);
  va_end(arguments);
  return out;
}

/// Holds the width of the table of processes, in characters.
constexpr int width = 79;

std::string rule(char end, char line) {
  return std::string(1, end) + std::string(width - 2, line) + end + "\n";
}

/// Cuts a text to fit. It keeps the end, which says more about a path.
std::string fit(const std::string& text, std::size_t room) {
  return text.size() <= room ? text
                             : "..." + text.substr(text.size() - room + 3);
}

std::string date() {
  auto now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char out[64];
  std::strftime(out, sizeof out, "%a %b %e %H:%M:%S %Y", &parts);
  return out;
}

std::string memory_of(const gpu& x) {
  return print("%6lluMiB / %6lluMiB",
               static_cast<unsigned long long>(mib(x.used_bytes)),
               static_cast<unsigned long long>(mib(x.total_bytes)));
}

std::string busy_of(const gpu& x) {
  return x.busy_percent ? std::to_string(*x.busy_percent) + "%" : "N/A";
}

std::string row_of(const gpu& x) {
  return print("| %3u  %-21s %-16s | %21s | %5s |\n", x.index,
               fit(x.name, 21).c_str(), x.bus_id.c_str(), memory_of(x).c_str(),
               busy_of(x).c_str());
}

std::string row_of(const gpu& on, const gpu_process& x) {
  auto name = x.name.empty() ? "[not readable]" : x.name;
  return print("| %3u  %9u   %-42s %12lluMiB |\n", on.index, x.pid,
               fit(name, 42).c_str(),
               static_cast<unsigned long long>(mib(x.used_bytes)));
}

std::string processes_of(const snapshot& all) {
  std::string out = "\n" + rule('+', '-') + print("| %-75s |\n", "Processes:") +
                    print("| %3s  %9s   %-42s %15s |\n", "GPU", "PID",
                          "Process name", "GPU Memory") +
                    rule('|', '=');
  auto none = true;
  for (const auto& x : all.gpus)
    for (const auto& process : x.processes) {
      out += row_of(x, process);
      none = false;
    }
  if (none)
    out += print("| %-75s |\n", "No running processes found");
  return out + rule('+', '-');
}

} // namespace

std::string table_of(const snapshot& x) {
  auto cuda = print("%d.%d", x.cuda_version / 1000, x.cuda_version % 1000 / 10);
  auto out =
      date() + "\n" + rule('+', '-') +
      print("| %-22s Driver Version: %-12s CUDA Version: %-9s |\n",
            "vGPUs of this session", x.driver_version.c_str(), cuda.c_str()) +
      rule('|', '-') +
      print("| %3s  %-21s %-16s | %21s | %5s |\n", "GPU", "Name", "Bus-Id",
            "Memory-Usage", "Util") +
      rule('|', '=');
  for (const auto& one : x.gpus)
    out += row_of(one);
  return out + rule('+', '-') + processes_of(x);
}

std::string list_of(const snapshot& x) {
  std::string out;
  for (const auto& one : x.gpus)
    out += "GPU " + std::to_string(one.index) + ": " + one.name +
           " (UUID: " + one.uuid + ")\n";
  return out;
}

} // namespace vgpu::smi
