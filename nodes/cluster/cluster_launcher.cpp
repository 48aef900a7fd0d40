#include "nodes/cluster/cluster_launcher.hpp"

#include "actors/link/log.hpp"
#include "nodes/support/paths.hpp"
#include "nodes/support/run_dir.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace vgpu {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr auto ready_within = std::chrono::seconds{30};
constexpr auto end_within = std::chrono::seconds{5};

/// Gives the numbers under which the children find their descriptors.
constexpr int child_ready_fd = 3;
constexpr int child_owner_fd = 4;
constexpr int child_kept_fd = 5;

/// Owns a descriptor and closes it.
class owned_fd {
public:
  explicit owned_fd(int fd = -1) : fd_(fd) {}
  owned_fd(owned_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  owned_fd& operator=(owned_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~owned_fd() { reset(); }
  int get() const noexcept { return fd_; }
  void reset() {
    if (fd_ >= 0)
      ::close(fd_);
    fd_ = -1;
  }

private:
  int fd_;
};

fault trouble(std::string what) {
  return {fault_kind::system, std::move(what)};
}

std::string errno_text() {
  return std::strerror(errno);
}

/// Names the file of its log to a daemon, which bounds its size (start_log()).
constexpr std::string_view log_file_variable = "VGPU_LOG_FILE=";

std::string log_of(const std::string& run_dir, const std::string& name) {
  return run_dir + "/" + (name == "manager" ? name : "node-" + name) + ".log";
}

/// Returns the last lines of a process's log, indented.
std::string last_lines(const std::string& path) {
  std::ifstream in{path};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
    if (lines.size() > 5)
      lines.erase(lines.begin());
  }
  std::string out;
  for (auto& line : lines)
    out += "\n  " + line;
  return out;
}

std::uint64_t birth_of(int pid) {
  std::ifstream in{"/proc/" + std::to_string(pid) + "/stat"};
  std::string all{std::istreambuf_iterator<char>{in}, {}};
  // The name, in brackets, may contain anything, but the fields after it may
  // not.
  auto at = all.rfind(')');
  if (at == std::string::npos)
    return 0;
  std::istringstream rest{all.substr(at + 1)};
  std::string field;
  rest >> field;
  if (field == "Z" || field == "X")
    return 0;
  for (auto i = 4; i <= 22; ++i)
    rest >> field;
  return std::stoull(field);
}

int open_pidfd(int pid) {
  auto fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd >= 0)
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return fd;
}

/// Returns a pidfd of exactly this process, or -1 when the process is gone.
owned_fd pidfd_of(const process_record& x) {
  if (x.pid <= 0)
    return owned_fd{};
  owned_fd fd{open_pidfd(x.pid)};
  // This check comes after opening, because from then on the number cannot be
  // another process's.
  return birth_of(x.pid) == x.birth && x.birth != 0 ? std::move(fd)
                                                    : owned_fd{};
}

void send_signal(const owned_fd& process, int number) {
  ::syscall(SYS_pidfd_send_signal, process.get(), number, nullptr, 0);
}

/// Returns false when the time is over first.
bool wait_readable(int fd, steady_clock::time_point until) {
  for (;;) {
    auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    pollfd what{fd, POLLIN, 0};
    auto n =
        ::poll(&what, 1,
               static_cast<int>(std::max(left.count(), milliseconds::rep{0})));
    if (n > 0)
      return true;
    if (n == 0 || errno != EINTR)
      return false;
  }
}

/// Waits for the end, and reaps the process if it is a child.
bool wait_end(const owned_fd& process, steady_clock::time_point until) {
  if (!wait_readable(process.get(), until))
    return false;
  ::waitid(P_PIDFD, static_cast<id_t>(process.get()), nullptr,
           WEXITED | WNOHANG);
  return true;
}

/// Owns posix_spawn's attributes and file actions.
struct spawn_plan {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  spawn_plan() {
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_init(&actions);
  }
  ~spawn_plan() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  spawn_plan(const spawn_plan&) = delete;
  spawn_plan& operator=(const spawn_plan&) = delete;
};

/// Duplicates a descriptor above the numbers to which the child's are moved.
owned_fd out_of_the_way(int fd) {
  return owned_fd{fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 16)};
}

/// Describes a started daemon, and the pipe on which it reports that it is
/// ready.
struct launched {
  process_record process;
  owned_fd ready;
};

/// Returns a child's environment, with `log` (NAME=VALUE). Both belong to the
/// caller.
std::vector<char*> environment_of(const launch_ties& ties, std::string& log) {
  std::vector<char*> out{log.data()};
  for (auto** i = environ; i != nullptr && *i != nullptr; ++i)
    if (!std::string_view{*i}.starts_with(log_file_variable) &&
        (!ties.all_devices ||
         !std::string_view{*i}.starts_with("CUDA_VISIBLE_DEVICES=")))
      out.push_back(*i);
  out.push_back(nullptr);
  return out;
}

result<launched> launch(const std::string& name,
                        const std::vector<std::string>& command,
                        const std::string& log, const launch_ties& ties,
                        int kept_fd = -1) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0)
    return trouble("pipe: " + errno_text());
  owned_fd ready{pipe[0]};
  owned_fd writer{pipe[1]};
  auto given = out_of_the_way(writer.get());
  auto owner = out_of_the_way(ties.owner_fd);
  auto kept = out_of_the_way(kept_fd);
  spawn_plan plan;
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&plan.attributes, &none);
  ::posix_spawnattr_setsigdefault(&plan.attributes, &all);
  ::posix_spawnattr_setflags(&plan.attributes, POSIX_SPAWN_SETSID |
                                                   POSIX_SPAWN_SETSIGMASK |
                                                   POSIX_SPAWN_SETSIGDEF);
  auto* actions = &plan.actions;
  ::posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
  if (ties.inherit_stderr)
    ::posix_spawn_file_actions_adddup2(actions, 2, 1);
  else {
    ::posix_spawn_file_actions_addopen(actions, 1, log.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::posix_spawn_file_actions_adddup2(actions, 1, 2);
  }
  ::posix_spawn_file_actions_adddup2(actions, given.get(), child_ready_fd);
  auto argv = command;
  argv.insert(argv.end(), {"--ready-fd", std::to_string(child_ready_fd)});
  if (ties.remove_run_dir)
    argv.push_back("--remove-run-dir");
  if (owner.get() >= 0) {
    ::posix_spawn_file_actions_adddup2(actions, owner.get(), child_owner_fd);
    argv.insert(argv.end(), {"--owner-fd", std::to_string(child_owner_fd)});
  }
  if (kept.get() >= 0)
    ::posix_spawn_file_actions_adddup2(actions, kept.get(), child_kept_fd);
  std::vector<char*> pointers;
  for (auto& x : argv)
    pointers.push_back(x.data());
  pointers.push_back(nullptr);
  auto log_setting =
      std::string{log_file_variable} + (ties.inherit_stderr ? "" : log);
  pid_t pid = 0;
  auto error =
      ::posix_spawn(&pid, argv[0].c_str(), &plan.actions, &plan.attributes,
                    pointers.data(), environment_of(ties, log_setting).data());
  if (error != 0)
    return trouble("cannot start " + argv[0] + ": " + std::strerror(error));
  return launched{{name, pid, birth_of(pid), command}, std::move(ready)};
}

/// Returns the line with which the daemon reports that it is ready, or why it
/// never will be.
result<std::string> wait_ready(launched& x, const std::string& log,
                               steady_clock::time_point until) {
  std::string said;
  while (said.find('\n') == std::string::npos) {
    char bytes[256];
    if (!wait_readable(x.ready.get(), until))
      return trouble(x.process.name + " is not ready after " +
                     std::to_string(ready_within.count()) +
                     " s; its log says:" + last_lines(log));
    auto n = ::read(x.ready.get(), bytes, sizeof(bytes));
    if (n <= 0)
      return trouble(x.process.name + " ended before it was ready" +
                     (log.empty() ? "" : "; its log says:") + last_lines(log));
    said.append(bytes, static_cast<std::size_t>(n));
  }
  return said.substr(0, said.find('\n'));
}

std::string node_name(unsigned index) {
  std::string out(1, static_cast<char>('a' + index % 26));
  return index < 26 ? out : out + std::to_string(index / 26);
}

std::string program(const cluster_options& x, const char* name) {
  return x.programs.empty() ? sibling(name) : x.programs + "/" + name;
}

std::vector<std::string> manager_command(const cluster_options& x) {
  std::vector<std::string> out{program(x, "vgpu-manager"), "--run-dir",
                               x.run_dir};
  if (!x.listen.empty())
    out.insert(out.end(), {"--listen", x.listen});
  if (x.insecure_network)
    out.emplace_back("--insecure-network");
  if (x.lost_after_ms != 0)
    out.insert(out.end(), {"--lost-after", std::to_string(x.lost_after_ms)});
  if (x.end_when_idle_ms != 0)
    out.insert(out.end(),
               {"--end-when-idle", std::to_string(x.end_when_idle_ms)});
  if (x.client_grace_ms != 0)
    out.insert(out.end(),
               {"--client-grace", std::to_string(x.client_grace_ms)});
  if (!x.balance.empty())
    out.insert(out.end(), {"--balance", x.balance});
  for (auto& option : arguments_of(x.promises))
    out.push_back(std::move(option));
  if (!x.placement.empty())
    out.insert(out.end(), {"--placement-policy", x.placement});
  return out;
}

std::vector<std::string> node_command(const cluster_options& x,
                                      const std::string& name,
                                      const std::string& manager) {
  std::vector<std::string> out{program(x, "vgpu-node"),
                               "--name",
                               name,
                               "--manager",
                               manager,
                               "--run-dir",
                               x.run_dir,
                               "--device",
                               x.device,
                               "--gpus-per-node",
                               std::to_string(x.gpus_per_node),
                               "--memory",
                               x.memory,
                               "--capability",
                               x.capability,
                               "--bind",
                               x.bind};
  if (x.insecure_network)
    out.emplace_back("--insecure-network");
  if (!x.worker.empty())
    out.insert(out.end(), {"--worker", x.worker});
  return out;
}

std::string record_path(const std::string& run_dir) {
  return run_dir + "/cluster.json";
}

json to_json(const process_record& x) {
  return {
      {"name", x.name}, {"pid", x.pid}, {"birth", x.birth}, {"argv", x.argv}};
}

process_record process_from_json(const json& x) {
  return {x.at("name"), x.at("pid"), x.at("birth"), x.at("argv")};
}

std::vector<process_record> all_of(const cluster_record& x) {
  auto out = x.nodes;
  out.push_back(x.manager);
  return out;
}

} // namespace

result<cluster_record> launch_cluster(const cluster_options& options,
                                      const launch_ties& ties) {
  auto made = make_private_dir(options.run_dir);
  if (!made)
    return made.why();
  auto until = steady_clock::now() + ready_within;
  cluster_record out;
  out.run_dir = options.run_dir;
  out.made_run_dir = *made;
  auto log_path = [&](const std::string& name) {
    return ties.inherit_stderr ? "" : log_of(options.run_dir, name);
  };
  auto undo = [&](fault why) {
    end_processes(out);
    clean_run_dir(out);
    return why;
  };
  // The nodes see the end of file when the manager ends.
  int manager_lives[2] = {-1, -1};
  if (ties.nodes_follow_manager && ::pipe2(manager_lives, O_CLOEXEC) != 0)
    return undo(trouble("pipe: " + errno_text()));
  owned_fd follows{manager_lives[0]};
  owned_fd leads{manager_lives[1]};
  auto manager = launch("manager", manager_command(options),
                        log_path("manager"), ties, leads.get());
  leads.reset();
  if (!manager)
    return undo(manager.why());
  out.manager = manager->process;
  auto said = wait_ready(*manager, log_path("manager"), until);
  if (!said)
    return undo(said.why());
  out.endpoint = *said;
  auto node_ties = ties;
  if (ties.nodes_follow_manager)
    node_ties.owner_fd = follows.get();
  std::vector<launched> nodes;
  for (auto i = 0u; i < options.nodes; ++i) {
    auto name = node_name(i);
    auto node = launch(name, node_command(options, name, out.endpoint),
                       log_path(name), node_ties);
    if (!node)
      return undo(node.why());
    out.nodes.push_back(node->process);
    nodes.push_back(std::move(*node));
  }
  for (auto& node : nodes)
    if (auto ready = wait_ready(node, log_path(node.process.name), until);
        !ready)
      return undo(ready.why());
  return out;
}

result<cluster_record> cluster_up(const cluster_options& options) {
  auto made = make_private_dir(options.run_dir);
  if (!made)
    return made.why();
  // The lock keeps two simultaneous calls from both finding no cluster.
  owned_fd lock{::open((options.run_dir + "/lock").c_str(),
                       O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (lock.get() < 0 || ::flock(lock.get(), LOCK_EX) != 0)
    return trouble("cannot lock " + options.run_dir + ": " + errno_text());
  if (auto old = read_record(options.run_dir)) {
    for (const auto& x : all_of(*old))
      if (is_running(x))
        return trouble("a cluster is up in " + options.run_dir + " already (" +
                       x.name + " is process " + std::to_string(x.pid) +
                       "); `vgpu down` stops it");
    clean_run_dir(*old);
    made = make_private_dir(options.run_dir);
    if (!made)
      return made.why();
  }
  auto up = launch_cluster(options, {});
  if (!up) {
    if (*made)
      clean_run_dir({options.run_dir, {}, true, {}, {}});
    return up.why();
  }
  up->made_run_dir = *made;
  if (auto written = write_record(*up); !written) {
    end_processes(*up);
    return written.why();
  }
  return up;
}

result<cluster_record> read_record(const std::string& run_dir) {
  std::ifstream in{record_path(run_dir)};
  if (!in)
    return trouble("no cluster was started in " + run_dir +
                   "; `vgpu up` starts one");
  try {
    auto x = json::parse(in);
    cluster_record out;
    out.run_dir = run_dir;
    out.endpoint = x.at("endpoint");
    out.made_run_dir = x.at("made_run_dir");
    out.manager = process_from_json(x.at("manager"));
    for (const auto& each : x.at("nodes"))
      out.nodes.push_back(process_from_json(each));
    return out;
  } catch (const json::exception& e) {
    return trouble(record_path(run_dir) + " is damaged (" + e.what() +
                   "); end the processes by hand and remove it");
  }
}

status write_record(const cluster_record& x) {
  auto nodes = json::array();
  for (const auto& each : x.nodes)
    nodes.push_back(to_json(each));
  json all{{"endpoint", x.endpoint},
           {"made_run_dir", x.made_run_dir},
           {"manager", to_json(x.manager)},
           {"nodes", nodes}};
  auto path = record_path(x.run_dir);
  std::ofstream{path + ".new"} << all.dump(2) << "\n";
  if (::rename((path + ".new").c_str(), path.c_str()) != 0)
    return trouble("cannot write " + path + ": " + errno_text());
  return {};
}

void end_processes(const cluster_record& x) {
  std::vector<owned_fd> running;
  for (const auto& each : all_of(x))
    if (auto fd = pidfd_of(each); fd.get() >= 0) {
      send_signal(fd, SIGTERM);
      running.push_back(std::move(fd));
    }
  auto until = steady_clock::now() + end_within;
  for (auto& each : running)
    if (!wait_end(each, until)) {
      send_signal(each, SIGKILL);
      wait_end(each, steady_clock::now() + end_within);
    }
}

void clean_run_dir(const cluster_record& x) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{x.run_dir, error}) {
    auto name = entry.path().filename().string();
    auto extension = entry.path().extension();
    if (extension == ".log" || name.ends_with(".log.1") ||
        extension == ".sock" || name == "lock" ||
        name.starts_with("manager.store") || name.starts_with("cluster."))
      fs::remove(entry.path(), error);
  }
  // The directory goes only when nothing else is left in it.
  if (x.made_run_dir)
    ::rmdir(x.run_dir.c_str());
}

status relaunch_manager(cluster_record& x) {
  auto log = log_of(x.run_dir, "manager");
  auto again = launch("manager", x.manager.argv, log, {});
  if (!again)
    return again.why();
  auto said = wait_ready(*again, log, steady_clock::now() + ready_within);
  if (!said)
    return said.why();
  x.manager = again->process;
  return write_record(x);
}

bool is_running(const process_record& x) {
  return pidfd_of(x).get() >= 0;
}

bool kill_process(const process_record& x) {
  auto fd = pidfd_of(x);
  if (fd.get() < 0)
    return false;
  send_signal(fd, SIGKILL);
  return wait_end(fd, steady_clock::now() + end_within);
}

process_record process_of(int pid, const std::string& name) {
  return {name, pid, birth_of(pid), {}};
}

} // namespace vgpu
