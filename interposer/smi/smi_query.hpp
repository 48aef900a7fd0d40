// nvidia-smi's queries: which fields there are, and tables of them as CSV.
#pragma once

#include "interposer/smi/gpus.hpp"

#include <string>
#include <variant>
#include <vector>

namespace vgpu::smi {

/// How a table of values is written.
struct csv_format {
  bool header = true;
  bool units = true;
};

/// What follows --format=. `failure` (exit code 2) for anything but csv and
/// what may stand beside it.
std::variant<csv_format, failure> parse_format(const std::string& text);

/// The values of these fields ("index,memory.used") for each vGPU, or for each
/// process on one, as lines of CSV. `failure` for a field that there is not.
std::variant<std::string, failure>
query_gpus(const std::string& fields, const snapshot& of, csv_format format);
std::variant<std::string, failure> query_processes(const std::string& fields,
                                                   const snapshot& of,
                                                   csv_format format);

/// The names of all fields, for a person.
std::string gpu_field_names();
std::string process_field_names();

/// Pieces between commas, without the blanks around them.
std::vector<std::string> split(const std::string& list);

/// Whole MiB, as nvidia-smi counts memory.
constexpr std::uint64_t mib(std::uint64_t bytes) {
  return bytes >> 20;
}

/// `not_known`: what is written where NVML has no answer.
inline constexpr auto not_known = "[N/A]";

} // namespace vgpu::smi
