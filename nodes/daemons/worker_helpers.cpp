#include "nodes/daemons/worker_helpers.hpp"

#include "nodes/daemons/helper_process.hpp"

#include <unistd.h>

namespace vgpu {

begin_dry_run dry_run_process(std::string program,
                              std::vector<std::string> arguments) {
  return [program = std::move(program), arguments = std::move(arguments)](
             int file,
             std::function<void()> ring) -> result<std::unique_ptr<helper>> {
    auto all = arguments;
    all.insert(all.end(), {"--dry-run", std::to_string(helper_file)});
    return start_helper({"dry run", program, std::move(all), file},
                        std::move(ring));
  };
}

begin_gpu_move gpu_move_process(std::string program) {
  return [program = std::move(program)](
             gpu_move what,
             std::function<void()> ring) -> result<std::unique_ptr<helper>> {
    return start_helper(
        {"helper",
         program,
         {"vgpu-worker",
          what == gpu_move::release ? "--checkpoint" : "--restore",
          std::to_string(::getpid())}},
        std::move(ring));
  };
}

} // namespace vgpu
