// An nvidia-smi for vGPUs, with the options that people and scripts use.
// NVIDIA's own program cannot be used, because it asks its libnvidia-ml.so.1
// for tables that are not public.
#include "interposer/smi/gpus.hpp"
#include "interposer/smi/smi_query.hpp"
#include "interposer/smi/smi_report.hpp"

#include <CLI/CLI.hpp>

#include <strings.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

using namespace vgpu::smi;

namespace {

/// Is nvidia-smi's exit code where no GPU matches the request.
constexpr int not_found = 6;

struct request {
  bool list = false;
  std::string ids, gpu_fields, process_fields, format;
  unsigned every_seconds = 0; // 0: reports once
};

int complain(const failure& why) {
  std::cerr << "nvidia-smi: " << why.what << std::endl;
  return why.code;
}

bool is_called(const gpu& x, const std::string& id) {
  return id == std::to_string(x.index) ||
         ::strcasecmp(id.c_str(), x.uuid.c_str()) == 0 ||
         ::strcasecmp(id.c_str(), x.bus_id.c_str()) == 0;
}

/// Keeps only the requested GPUs. Fails where one does not exist.
std::optional<failure> select(snapshot& of, const std::string& ids) {
  if (ids.empty())
    return std::nullopt;
  std::vector<gpu> chosen;
  for (const auto& id : split(ids)) {
    auto found = std::find_if(of.gpus.begin(), of.gpus.end(),
                              [&](const gpu& x) { return is_called(x, id); });
    if (found == of.gpus.end())
      return failure{"No devices were found: there is no vGPU '" + id +
                         "'; nvidia-smi -L lists them",
                     not_found};
    chosen.push_back(*found);
  }
  of.gpus = std::move(chosen);
  return std::nullopt;
}

std::variant<std::string, failure> text_of(const request& x,
                                           const snapshot& of) {
  if (x.list)
    return list_of(of);
  if (x.gpu_fields.empty() && x.process_fields.empty())
    return table_of(of);
  auto format = parse_format(x.format);
  if (auto* why = std::get_if<failure>(&format))
    return *why;
  auto& csv = std::get<csv_format>(format);
  return x.gpu_fields.empty() ? query_processes(x.process_fields, of, csv)
                              : query_gpus(x.gpu_fields, of, csv);
}

int answer(const request& x) {
  auto got = take_snapshot();
  if (auto* why = std::get_if<failure>(&got))
    return complain(*why);
  auto& all = std::get<snapshot>(got);
  if (auto why = select(all, x.ids))
    return complain(*why);
  auto text = text_of(x, all);
  if (auto* why = std::get_if<failure>(&text))
    return complain(*why);
  std::cout << std::get<std::string>(text) << std::flush;
  return std::cout ? EXIT_SUCCESS : EXIT_FAILURE;
}

/// Reports what is wrong with a request, before it asks for a vGPU.
std::optional<failure> check(const request& x) {
  auto queries = !x.gpu_fields.empty() || !x.process_fields.empty();
  if (x.list + !x.gpu_fields.empty() + !x.process_fields.empty() > 1)
    return failure{"ask one thing at a time: -L, --query-gpu or "
                   "--query-compute-apps",
                   wrong_usage};
  if (!queries && !x.format.empty())
    return failure{"--format is for --query-gpu and --query-compute-apps",
                   wrong_usage};
  auto text = text_of(x, {});
  if (auto* why = std::get_if<failure>(&text))
    return *why;
  return std::nullopt;
}

void describe(CLI::App& app, request& x) {
  auto given = [](const std::string& text) {
    return text.empty() ? "give a value" : std::string{};
  };
  app.add_flag("-L,--list-gpus", x.list, "list the vGPUs, one in each line");
  app.add_option(
         "-i,--id", x.ids,
         "only these vGPUs: indices, UUIDs or bus ids, separated by commas")
      ->check(given);
  app.add_option("--query-gpu", x.gpu_fields,
                 "report these fields of each vGPU")
      ->check(given);
  app.add_option("--query-compute-apps", x.process_fields,
                 "report these fields of each process on a vGPU")
      ->check(given);
  app.add_option("--format", x.format,
                 "format of a query: csv, csv,noheader or csv,noheader,nounits")
      ->check(given);
  app.add_option("-l,--loop", x.every_seconds,
                 "report again after this many seconds, until interrupted")
      ->check(CLI::Range(1u, 86'400u));
  app.footer("Fields of --query-gpu: " + gpu_field_names() +
             ".\nFields of --query-compute-apps: " + process_field_names() +
             ".\nUnknown values are shown as [N/A].\n"
             "Examples:\n"
             "  vgpu run -- nvidia-smi\n"
             "  nvidia-smi -L\n"
             "  nvidia-smi --query-gpu=index,name,memory.used,memory.total "
             "--format=csv\n"
             "  nvidia-smi --query-gpu=memory.free "
             "--format=csv,noheader,nounits -i 0\n"
             "  nvidia-smi --query-compute-apps=pid,process_name,used_memory "
             "--format=csv\n"
             "Exit codes: 0 done, 2 wrong usage, 6 no such vGPU, 9 no vGPU is "
             "to be had,\n12 no libnvidia-ml.so.1, 255 anything else.");
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"This nvidia-smi is vgpu's. It shows the vGPUs of this session "
               "as programs see them, and not the physical GPUs.",
               "nvidia-smi"};
  request x;
  describe(app, x);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? EXIT_SUCCESS : wrong_usage;
  }
  if (auto why = check(x))
    return complain(*why);
  // A program that only watches does not queue for a vGPU.
  ::setenv("VGPU_WAIT", "0", 0);
  ::setenv("VGPU_WATCH", "1", 0);
  auto status = answer(x);
  while (status == EXIT_SUCCESS && x.every_seconds != 0) {
    std::this_thread::sleep_for(std::chrono::seconds{x.every_seconds});
    status = answer(x);
  }
  return status;
}
