// `vgpu trace`: runs a program, and writes when its work was executed.
#include "nodes/cli/child_program.hpp"
#include "nodes/cli/trace_events.hpp"
#include "nodes/cli/vgpu_commands.hpp"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

namespace vgpu::command {

namespace {

namespace fs = std::filesystem;

const std::string trace_name = "trace";

struct trace_options {
  std::string output = "trace.json";
  std::vector<std::string> run_options;
  std::vector<std::string> command;
};

/// Holds the folder in which the program's processes write, as long as it
/// lives.
class trace_folder {
public:
  trace_folder() {
    auto name = (fs::temp_directory_path() / "vgpu-trace-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr)
      path_ = name;
  }
  trace_folder(const trace_folder&) = delete;
  trace_folder& operator=(const trace_folder&) = delete;
  ~trace_folder() {
    std::error_code ignored;
    if (!path_.empty())
      fs::remove_all(path_, ignored);
  }
  /// Is empty where it could not be made.
  const fs::path& path() const noexcept { return path_; }

private:
  fs::path path_;
};

pid_t start_run(const trace_options& x, const fs::path& folder,
                const sigset_t& mask) {
  std::vector<std::string> words = {"vgpu", "run"};
  words.insert(words.end(), x.run_options.begin(), x.run_options.end());
  words.emplace_back("--");
  words.insert(words.end(), x.command.begin(), x.command.end());
  std::vector<char*> argv;
  for (auto& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  auto parent = ::getpid();
  auto pid = ::fork();
  if (pid != 0)
    return pid;
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent)
    ::_exit(failed);
  ::setenv("VGPU_TRACE", folder.c_str(), 1);
  ::execv("/proc/self/exe", argv.data());
  ::_exit(complain(trace_name,
                   std::string{"cannot run vgpu: "} + std::strerror(errno)));
}

std::string count_of(std::uint64_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

void tell(const trace_options& x, const trace_summary& what) {
  std::cerr << "vgpu trace: " << count_of(what.kernels, "kernel") << ", "
            << (what.copies == 1 ? "1 copy"
                                 : std::to_string(what.copies) + " copies")
            << ", " << count_of(what.memsets, "memset") << ", "
            << count_of(what.calls, "call") << " of "
            << (what.processes == 1
                    ? "1 process"
                    : std::to_string(what.processes) + " processes")
            << " in " << x.output << "; open it in https://ui.perfetto.dev\n";
}

/// Turns what the processes wrote into the output. Returns whether it could.
bool write_output(const trace_options& x, const fs::path& folder,
                  std::ofstream& to) {
  trace_events events;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{folder, error}) {
    std::ifstream from{entry.path(), std::ios::binary};
    if (auto ok = events.add(from); !ok) {
      complain(trace_name, ok.why());
      return false;
    }
  }
  auto what = events.write(to);
  to.close();
  if (!to) {
    complain(trace_name,
             "cannot write " + x.output + ": " + std::strerror(errno));
    return false;
  }
  if (what.processes == 0)
    complain(trace_name, "the program used no vGPU, so that the trace is "
                         "empty");
  else
    tell(x, what);
  if (what.dropped != 0)
    complain(trace_name, count_of(what.dropped, "activity record") +
                             " found no room and are missing");
  return true;
}

/// Runs the program and writes its trace. Returns a code only where it could
/// not, and the program did not fail either.
int run_traced(const trace_options& x, std::ofstream& to, siginfo_t& how) {
  trace_folder folder;
  if (folder.path().empty())
    return complain(trace_name, std::string{"cannot make a folder: "} +
                                    std::strerror(errno));
  auto handled = forwarded_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &handled, &before);
  auto signals = ::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  auto program = start_run(x, folder.path(), before);
  if (program < 0)
    return complain(trace_name, std::string{"fork: "} + std::strerror(errno));
  how = wait_program(signals, program);
  ::close(signals);
  auto ended_well = how.si_code == CLD_EXITED && how.si_status == 0;
  return write_output(x, folder.path(), to) || !ended_well ? succeeded : failed;
}

int trace(const trace_options& x) {
  // A file that cannot be written is told before the program runs.
  std::ofstream to{x.output, std::ios::binary | std::ios::trunc};
  if (!to)
    return complain(trace_name,
                    "cannot write " + x.output + ": " + std::strerror(errno),
                    wrong_usage);
  std::cerr << "vgpu trace: tracing " << x.command.front() << '\n';
  siginfo_t how = {};
  if (auto code = run_traced(x, to, how); code != succeeded)
    return code;
  return end_like(how);
}

} // namespace

void add_trace_command(CLI::App& app, job& todo,
                       const std::vector<std::string>& program) {
  auto x = std::make_shared<trace_options>();
  auto* sub = app.add_subcommand(
      trace_name, "Runs a CUDA program as `vgpu run` does, and writes when its "
                  "work was executed, for Perfetto:\n"
                  "vgpu trace [OPTIONS] [OPTIONS OF vgpu run] [--] PROGRAM "
                  "[ARGUMENTS...]");
  sub->add_option("-o,--output", x->output, "the file to write")
      ->capture_default_str();
  sub->allow_extras();
  sub->footer("Open the file in https://ui.perfetto.dev or chrome://tracing.\n"
              "The exit code is the program's.\n"
              "Examples:\n"
              "  vgpu trace -- ./saxpy 1000\n"
              "  vgpu trace --output step.json -- python3 train.py\n"
              "  vgpu trace --share 0.5 --memory 2GiB -- ./saxpy");
  sub->callback([x, sub, program, &todo] {
    if (program.empty())
      throw CLI::RequiredError("PROGRAM");
    x->command = program;
    x->run_options = sub->remaining();
    todo = [x] { return trace(*x); };
  });
}

} // namespace vgpu::command
