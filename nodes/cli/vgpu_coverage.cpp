// `vgpu coverage`: the part of the driver that is supported.
#include "nodes/cli/vgpu_commands.hpp"
#include "schema/catalogue/catalogue.hpp"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <string>

namespace vgpu::command {

namespace {

void print_json() {
  auto all = nlohmann::json::array();
  for (const auto& x : catalogue)
    all.push_back({{"symbol", x.symbol},
                   {"name", x.name},
                   {"since", x.version},
                   {"served", to_string(x.served)},
                   {"does_more_on", to_string(x.more)},
                   {"why_not", x.why}});
  std::cout << all.dump(2) << "\n";
}

} // namespace

void add_coverage_command(CLI::App& app, job& todo) {
  auto as_json = std::make_shared<bool>(false);
  auto* sub = app.add_subcommand(
      "coverage",
      "Shows every entry point of the CUDA driver and how it is served:\n"
      "in the program (local), without waiting (async, create), with an "
      "answer\n(sync), or refused with CUDA_ERROR_NOT_SUPPORTED.");
  sub->add_flag("--json", *as_json, "print JSON");
  sub->footer("Examples:\n  vgpu coverage | grep cuMemcpy\n"
              "  vgpu coverage --json | jq '.[] | select(.served == "
              "\"refused\") | .symbol'");
  sub->callback([as_json, &todo] {
    todo = [as_json] {
      if (*as_json)
        print_json();
      else
        std::cout << coverage_table();
      return succeeded;
    };
  });
}

} // namespace vgpu::command
