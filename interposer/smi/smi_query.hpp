// nvidia-smi's queries: their fields, and tables of them as CSV.
#pragma once

#include "interposer/smi/gpus.hpp"

#include <string>
#include <variant>
#include <vector>

namespace vgpu::smi {

/// Describes the form of a table of values.
struct csv_format {
  bool header = true;
  bool units = true;
};

/// Reads the value of --format=. Returns a failure with exit code 2 for
/// anything but csv and its options.
std::variant<csv_format, failure> parse_format(const std::string& text);

/// Writes the values of these fields ("index,memory.used") as lines of CSV, one
/// for each vGPU. Returns a failure for a field that does not exist.
std::variant<std::string, failure>
query_gpus(const std::string& fields, const snapshot& of, csv_format format);
/// Writes the values of these fields as lines of CSV, one for each process on a
/// vGPU. Returns a failure for a field that does not exist.
std::variant<std::string, failure> query_processes(const std::string& fields,
                                                   const snapshot& of,
                                                   csv_format format);

/// Lists the names of all fields of vGPUs, for a help text.
std::string gpu_field_names();
/// Lists the names of all fields of processes, for a help text.
std::string process_field_names();

/// Splits a list at its commas, and strips the blanks around the pieces.
std::vector<std::string> split(const std::string& list);

/// Converts bytes to whole MiB, as nvidia-smi counts memory.
constexpr std::uint64_t mib(std::uint64_t bytes) {
  return bytes >> 20;
}

/// Stands in tables where NVML has no answer.
inline constexpr auto not_known = "[N/A]";

} // namespace vgpu::smi
