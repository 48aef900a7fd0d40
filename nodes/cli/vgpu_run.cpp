// `vgpu run`: runs a program on a virtual GPU.
#include "actors/records/checked_json.hpp"
#include "actors/records/tenant_quota.hpp"
#include "nodes/cli/child_program.hpp"
#include "nodes/cli/command_client.hpp"
#include "nodes/cli/preloads.hpp"
#include "nodes/cli/profiles.hpp"
#include "nodes/cli/vgpu_commands.hpp"
#include "nodes/cluster/embedded_cluster.hpp"
#include "nodes/keys/joined_keys.hpp"
#include "nodes/support/paths.hpp"
#include "nodes/support/run_dir.hpp"
#include "policies/placement/admission.hpp"
#include "schema/base/busy_poll.hpp"
#include "schema/base/endpoints.hpp"
#include "schema/base/sizes.hpp"
#include "schema/wire/specification.hpp"

#include <nlohmann/json.hpp>

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <sstream>

namespace vgpu::command {

using nlohmann::json;

namespace {

const std::string run_name = "run";

struct run_options {
  /// Holds the text of each field of a specification. Empty: not given.
  std::vector<std::string> fields =
      std::vector<std::string>(control::specification_fields().size());
  std::string profile;
  control::specification asked; // the whole specification, checked
  std::string run_dir = default_run_dir();
  std::string manager;
  std::string device = "auto";
  std::string worker;
  std::vector<std::string> command;
};

/// Describes a message for stderr and the exit code that goes with it.
struct failure {
  std::string what;
  int code = failed;
};

// -- before it begins ---------------------------------------------------------

/// Returns the program's path as execvp(3) would find it.
std::variant<std::string, failure> find_program(const std::string& name) {
  auto is_file = [](const std::string& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error);
  };
  failure none{"cannot find program '" + name + "': no such file" +
                   (name.find('/') == std::string::npos ? " in $PATH" : ""),
               not_found};
  failure barred{"cannot run '" + name +
                     "': it is not executable; try chmod +x",
                 cannot_run};
  if (name.find('/') != std::string::npos) {
    std::error_code error;
    if (std::filesystem::is_directory(name, error))
      return failure{"cannot run '" + name + "': it is a directory",
                     cannot_run};
    if (!is_file(name))
      return none;
    return ::access(name.c_str(), X_OK) == 0
               ? std::variant<std::string, failure>{name}
               : barred;
  }
  auto* path = std::getenv("PATH");
  std::istringstream dirs{path != nullptr ? path : "/usr/bin:/bin"};
  for (std::string dir; std::getline(dirs, dir, ':');) {
    auto file = (dir.empty() ? "." : dir) + "/" + name;
    if (is_file(file) && ::access(file.c_str(), X_OK) == 0)
      return file;
  }
  return none;
}

std::uint64_t memory_of_host() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
}

policy::cluster_view view_of(const json& status) {
  policy::cluster_view out;
  for (const auto& node : status.at("nodes")) {
    auto& to = out.nodes.emplace_back();
    to.name = node.at("name");
    to.alive = node.at("state") == "alive";
    for (const auto& pgpu : node.at("pgpus"))
      to.pgpus.push_back({pgpu.at("ordinal"), pgpu.at("memory")});
  }
  return out;
}

/// Returns the row of the tenant to which the asker's sessions count; null: the
/// manager does not tell it.
std::optional<control::tenant> own_tenant(command_client& manager) {
  auto answer = manager.ask(control::tenants_request{}, patience);
  auto* all = answer ? std::get_if<control::tenants>(&*answer) : nullptr;
  if (all == nullptr)
    return std::nullopt;
  // A tenant is told its own row alone, and others' sessions are of `default`.
  for (const auto& x : all->list)
    if (all->list.size() == 1 || x.name == default_tenant)
      return x;
  return std::nullopt;
}

/// Refuses what the tenant's quota never permits. What it does not permit now
/// is told, and the program runs: its other sessions may have ended when it
/// asks.
std::optional<failure> check_quota(command_client& manager,
                                   const control::specification& asked) {
  auto own = own_tenant(manager);
  if (!own)
    return {};
  session_record one;
  one.spec = asked;
  auto admit = [&](const tenant_use& used) {
    return used.admit(own->name, own->limits, own->added, one);
  };
  if (auto ever = admit(tenant_use{}); !ever)
    return failure{ever.why().what};
  if (auto now = admit(tenant_use{*own}); !now)
    complain(run_name, "the program gets no GPU as long as this holds: " +
                           now.why().what);
  return {};
}

/// Asks the manager whether it could ever serve this specification.
std::optional<failure> check_with_manager(const std::string& endpoint,
                                          const control::specification& asked,
                                          const policy::demand& what) {
  auto manager = command_client::connect(endpoint, patience);
  if (!manager)
    return failure{manager.why().what, no_manager};
  auto status = (*manager)->ask(control::status_request{}, patience);
  if (!status)
    return failure{status.why().what, no_manager};
  auto all = parse_json(std::get<control::status_text>(*status).json);
  auto admitted = policy::admit(view_of(all), what);
  // A manager that has just become leader may not know all nodes yet.
  if (!admitted && !all.at("manager").value("nodes_may_come", false))
    return failure{"cannot give " + admitted.why().what};
  return check_quota(**manager, asked);
}

void set(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
}

/// Sets CUDA_VISIBLE_DEVICES unless it is set. Programs that count a host's
/// GPUs without the driver, as PyTorch does by NVML, honour it too and so count
/// the vGPU's devices.
void show_own_devices(std::uint32_t gpus) {
  std::string all;
  for (std::uint32_t i = 0; i < gpus; ++i)
    all += (i == 0 ? "" : ",") + std::to_string(i);
  ::setenv("CUDA_VISIBLE_DEVICES", all.c_str(), 0);
}

/// Puts our nvidia-smi in front on the PATH, because the driver's uses
/// functions that our libnvidia-ml.so.1 does not have.
void show_own_tools() {
  const auto* path = std::getenv("PATH");
  std::string others = path != nullptr ? path : "/usr/bin:/bin";
  auto own = library_dir() + "/smi";
  if (others != own && !others.starts_with(own + ":"))
    set("PATH", own + ":" + others);
}

/// Puts our libcupti before the one that Python's packages bring. Children of
/// the program inherit that, and not all of them can be preloaded into. So
/// VGPU_CUPTI may be `search`, which preloads nothing, and `preload`, which
/// preloads into any program.
void show_own_profiler(const std::string& path) {
#ifdef VGPU_SANITIZED
  // Programs without the sanitizer's library could not load ours.
  (void)path;
#else
  const auto* how = std::getenv("VGPU_CUPTI");
  std::string_view chosen{how != nullptr ? how : ""};
  if (chosen == "search" || (chosen != "preload" && !runs_python(path)))
    return;
  const auto* before = std::getenv("LD_PRELOAD");
  if (auto value =
          with_own_cupti(before != nullptr ? before : "", library_dir());
      !value.empty())
    set("LD_PRELOAD", value);
#endif
}

void set_environment(const run_options& x, const std::string& program,
                     const std::string& endpoint) {
  const control::specification usual;
  const auto table = control::specification_fields();
  for (auto i = 0u; i < table.size(); ++i)
    if (auto value = table[i].get(x.asked);
        value != table[i].get(usual) || !x.fields[i].empty())
      set(table[i].variable, value);
    else
      ::unsetenv(table[i].variable);
  set("VGPU_MANAGER", endpoint);
  show_own_devices(x.asked.gpus);
  auto* path = std::getenv("LD_LIBRARY_PATH");
  set("LD_LIBRARY_PATH", path != nullptr && *path != '\0'
                             ? library_dir() + ":" + path
                             : library_dir());
  show_own_profiler(program);
}

[[noreturn]] void exec_program(const std::string& path,
                               std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (auto& x : command)
    argv.push_back(x.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  ::_exit(complain(run_name,
                   "cannot run '" + path + "': " + std::strerror(errno),
                   cannot_run));
}

// -- with a cluster of its own ------------------------------------------------

pid_t fork_program(const std::string& path, std::vector<std::string>& command,
                   const sigset_t& mask) {
  auto parent = ::getpid();
  auto pid = ::fork();
  if (pid != 0)
    return pid;
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  // The program dies with this process, which ends the cluster that it needs.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(failed);
  exec_program(path, command);
}

int run_embedded(run_options& x, const std::string& path) {
  auto memory = x.asked.memory;
  auto host = memory_of_host();
  if (memory > host)
    return complain(run_name, "cannot give " + show_size(memory) +
                                  " of GPU memory: this host has " +
                                  show_size(host));
  cluster_options shape;
  shape.gpus_per_node = x.asked.gpus;
  shape.device = x.device;
  shape.worker = x.worker;
  if (auto usual = parse_size(shape.memory); usual && memory > *usual)
    shape.memory = std::to_string(memory);
  auto usual = control::read_capability(shape.capability);
  if (usual && x.asked.capability > *usual)
    shape.capability = control::show_capability(x.asked.capability);
  auto handled = forwarded_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &handled, &before);
  auto signals = ::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  auto cluster = embedded_cluster::start(shape);
  if (!cluster)
    return complain(run_name, cluster.why());
  set_environment(x, path, (*cluster)->endpoint());
  auto program = fork_program(path, x.command, before);
  if (program < 0)
    return complain(run_name, std::string{"fork: "} + std::strerror(errno));
  auto how = wait_program(signals, program);
  cluster->reset();
  ::close(signals);
  return end_like(how);
}

/// Determines the requested specification: options go before the profile, and
/// that before the environment.
vgpu::status take_constraint(run_options& x) {
  if (auto good = control::set_from_environment(x.asked); !good)
    return good;
  if (!x.profile.empty()) {
    auto profile = read_profile(profiles_file(), x.profile);
    if (!profile)
      return profile.why();
    for (const auto& [name, value] : *profile)
      if (auto good = control::set_field(x.asked, name, value); !good)
        return good;
  }
  const auto table = control::specification_fields();
  for (auto i = 0u; i < table.size(); ++i)
    if (!x.fields[i].empty())
      if (auto good = control::set_field(x.asked, table[i].name, x.fields[i]);
          !good)
        return good.why().reworded("--" + good.why().what);
  if (const auto* journal = std::getenv("VGPU_JOURNAL"); journal != nullptr)
    if (auto good = parse_size(journal); !good)
      return good.why().reworded("VGPU_JOURNAL: " + good.why().what);
  if (auto good = chosen_busy_poll(); !good)
    return good.why();
  // All processes of a program form one group, unless it says otherwise.
  if (x.asked.group == 0)
    x.asked.group = std::random_device{}() | std::uint64_t{1} << 32;
  return {};
}

int run(run_options& x) {
  show_own_tools();
  auto found = find_program(x.command.front());
  if (auto* none = std::get_if<failure>(&found))
    return complain(run_name, none->what, none->code);
  auto& path = std::get<std::string>(found);
  if (auto good = take_constraint(x); !good)
    return complain(run_name, good.why().what, wrong_usage);
  policy::demand what;
  what.share = x.asked.share;
  what.limit = x.asked.limit;
  what.gpus = x.asked.gpus;
  what.memory = x.asked.memory;
  auto named = x.manager;
  if (auto* variable = std::getenv("VGPU_MANAGER");
      named.empty() && variable != nullptr)
    named = variable;
  if (!named.empty())
    if (auto good = check_endpoints(named); !good)
      return complain(run_name, good.why().what, wrong_usage);
  if (auto good = check_own_cluster(endpoint_in(x.run_dir));
      named.empty() && !good)
    return complain(run_name, good.why().what);
  if (named.empty() && somebody_listens(endpoint_in(x.run_dir)))
    named = endpoint_in(x.run_dir);
  if (named.empty() && x.run_dir == default_run_dir()) {
    auto login = manager_of_login(key_folder{});
    if (!login)
      return complain(run_name, login.why());
    named = *login;
  }
  if (named.empty())
    return run_embedded(x, path);
  if (auto no = check_with_manager(named, x.asked, what))
    return complain(run_name, no->what, no->code);
  set_environment(x, path, named);
  exec_program(path, x.command);
}

} // namespace

void add_run_command(CLI::App& app, job& todo,
                     const std::vector<std::string>& program) {
  auto x = std::make_shared<run_options>();
  auto* sub =
      app.add_subcommand("run", "Runs a CUDA program on a virtual GPU:\n"
                                "vgpu run [OPTIONS] [--] PROGRAM "
                                "[ARGUMENTS...]");
  const auto table = control::specification_fields();
  const control::specification usual;
  for (auto i = 0u; i < table.size(); ++i) {
    auto value = table[i].get(usual);
    sub->add_option(std::string{"--"} + table[i].name, x->fields[i],
                    std::string{table[i].meaning} + ": " + table[i].range +
                        (value.empty() ? "" : " (default " + value + ")"))
        ->check([](const std::string& text) {
          return text.empty() ? "give a value" : std::string{};
        });
  }
  sub->add_option("--profile", x->profile,
                  "a profile from " + profiles_file() +
                      " ($VGPU_PROFILES); options override its fields");
  sub->add_option("--run-dir", x->run_dir, "the cluster's run directory")
      ->capture_default_str();
  sub->add_option("--manager", x->manager,
                  "the manager's endpoint, or several separated by commas "
                  "(default: $VGPU_MANAGER, or the one in the run directory)");
  sub->add_option("--device", x->device,
                  "device without a cluster: cpu, nvidia or auto")
      ->check(CLI::IsMember({"cpu", "nvidia", "auto"}))
      ->capture_default_str();
  sub->add_option("--worker", x->worker)->group("");
  sub->footer("Without a cluster, `vgpu run` starts one for as long as the "
              "program runs.\n"
              "Examples:\n"
              "  vgpu run -- ./saxpy 1000\n"
              "  vgpu run --share 0.5 --memory 2GiB -- python3 train.py\n"
              "  vgpu run --profile quarter --priority 5 -- ./saxpy\n"
              "  VGPU_MANAGER=tcp://10.0.0.1:7070 vgpu run -- ./saxpy");
  sub->callback([x, program, &todo] {
    if (program.empty())
      throw CLI::RequiredError("PROGRAM");
    x->command = program;
    todo = [x] { return run(*x); };
  });
}

std::vector<std::string> take_program(int& argc, char** argv) {
  if (argc < 2 || (std::string_view{argv[1]} != run_name &&
                   std::string_view{argv[1]} != "trace"))
    return {};
  auto first = 2;
  auto end = argc;
  for (; first < argc; ++first) {
    std::string_view x = argv[first];
    if (x == "--" || !x.starts_with("-"))
      break;
    // Each of our options except help has a value.
    if (x.find('=') == std::string_view::npos && x != "-h" && x != "--help")
      ++first;
  }
  if (first >= argc)
    return {};
  argc = first;
  if (std::string_view{argv[first]} == "--")
    ++first;
  return {argv + first, argv + end};
}

} // namespace vgpu::command
